#include "lazuli/ops/random.h"

#include "frontend/autograd/composites.h"
#include "frontend/ops/compose.h"
#include "frontend/ops/random.h"
#include "frontend/record/recorder.h"
#include "frontend/record/trace.h"
#include "lazuli/core/defaults.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/functional.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/statistics.h"
#include "lazuli/ops/views.h"

#include <cmath>
#include <numbers>

namespace lz {

using detail::Op;
using detail::ResolvedOptions;
using detail::Shape;

Generator &default_generator() {
    static Generator generator;
    return generator;
}
void manual_seed(uint64_t seed) {
    default_generator().manual_seed(seed);
}

namespace {

/// One 32-bit word an element, as i32.
Tensor words_at(const Shape &shape, ir::Device device, const Generator::State &at, Location loc) {
    const int64_t runtime[] = {static_cast<int64_t>(at.seed), static_cast<int64_t>(at.offset)};
    return detail::record(Op::Philox, {}, detail::Words().ints(shape.extents()).word(ir::device_word(device)),
                          loc, runtime);
}

/// Takes numbers of a generator. A function that is recorded for `lz::compile` takes them at each call.
Generator::State take(int64_t words, Generator &generator, Location loc) {
    const Generator::State at = generator.draw(words);
    if (detail::Trace *const trace = detail::Recorder::current().trace()) [[unlikely]] {
        trace->note_draw(words, at.seed, at.offset);
        if (&generator != &default_generator())
            trace->reject("draws random numbers from a generator of its own", loc);
    }
    return at;
}

Tensor words(const Shape &shape, ir::Device device, Generator &generator, Location loc) {
    return words_at(shape, device, take(shape.numel(), generator, loc), loc);
}

/// The upper `bits` (under 32) of each word, as integers of `dtype`. The shift drags the sign along: it is
/// cut off.
Tensor upper_bits(const Tensor &word, int bits, ir::DType dtype, Location loc) {
    const Tensor shifted = detail::binary(Op::Shr, word, detail::literal(word, 32 - bits, loc), loc);
    const double mask = static_cast<double>((int64_t{1} << bits) - 1);
    return detail::cast(detail::binary(Op::And, shifted, detail::literal(word, mask, loc), loc), dtype, loc);
}

/// Uniform in [0, 1): f32 from 24 bits of a word, f64 from 53 bits of two; half types are computed as f32.
Tensor uniform(const Shape &shape, ir::DType work, ir::Device device, Generator &generator, Location loc) {
    const Tensor first = words(shape, device, generator, loc);
    if (work == ir::DType::F32) {
        const Tensor bits = upper_bits(first, 24, work, loc);
        return detail::binary(Op::Mul, bits, detail::literal(bits, 0x1p-24, loc), loc);
    }
    const Tensor second = words(shape, device, generator, loc);
    const Tensor high = upper_bits(first, 27, work, loc), low = upper_bits(second, 26, work, loc);
    const Tensor bits = detail::binary(
        Op::Add, detail::binary(Op::Mul, high, detail::literal(high, 0x1p26, loc), loc), low, loc);
    return detail::binary(Op::Mul, bits, detail::literal(bits, 0x1p-53, loc), loc);
}

/// Box-Muller, the cosine half: each element has two uniform numbers of its own.
Tensor standard_normal(const Shape &shape, ir::DType work, ir::Device device, Generator &generator,
                       Location loc) {
    const Tensor u = uniform(shape, work, device, generator, loc),
                 v = uniform(shape, work, device, generator, loc);
    const auto number = [&](double value) { return detail::literal(u, value, loc); };
    const Tensor positive = detail::binary(Op::Sub, number(1), u, loc); // (0, 1]: its logarithm is finite
    const Tensor square = detail::binary(Op::Mul, number(-2), detail::unary(Op::Log, positive, loc), loc);
    const Tensor angle = detail::binary(Op::Mul, number(2 * std::numbers::pi), v, loc);
    return detail::binary(Op::Mul, detail::unary(Op::Sqrt, square, loc), detail::unary(Op::Cos, angle, loc),
                          loc);
}

/// With mean 1. Never 0, which has no logarithm: a u of 0 counts as half of the smallest number above it.
Tensor exponential(const Shape &shape, ir::DType work, ir::Device device, Generator &generator,
                   Location loc) {
    const Tensor u = uniform(shape, work, device, generator, loc);
    const Tensor below = detail::unary(Op::Log1p, detail::unary(Op::Neg, u, loc), loc);
    const double least = work == ir::DType::F64 ? 0x1p-54 : 0x1p-25;
    return detail::binary(Op::Maximum, detail::unary(Op::Neg, below, loc), detail::literal(u, least, loc),
                          loc);
}

using Distribution = Tensor (*)(const Shape &, ir::DType, ir::Device, Generator &, Location);

/// Rounding to a half type must not reach 1.
Tensor rounded(const Tensor &x, ir::DType dtype, Distribution distribution, Location loc) {
    if (distribution != uniform || !ir::is_half(dtype))
        return detail::cast(x, dtype, loc);
    const double scale = dtype == ir::DType::F16 ? 0x1p11 : 0x1p8;
    const Tensor steps =
        detail::unary(Op::Floor, detail::binary(Op::Mul, x, detail::literal(x, scale, loc), loc), loc);
    return detail::cast(detail::binary(Op::Mul, steps, detail::literal(x, 1 / scale, loc), loc), dtype, loc);
}

Tensor draw(Distribution distribution, const Sizes &sizes, Generator &generator,
            const ResolvedOptions &resolved, const char *function, Location loc) {
    if (!ir::is_float(resolved.dtype))
        throw DTypeError(
            std::string(function) + ": gives floats, not " + std::string(ir::name(resolved.dtype)), loc);
    const Shape shape = detail::checked_shape(sizes, resolved.dtype, function, loc, 8);
    const Tensor drawn =
        distribution(shape, detail::working_dtype(resolved.dtype), resolved.device, generator, loc);
    return detail::placed(rounded(drawn, resolved.dtype, distribution, loc), resolved, loc);
}

/// scale * draw + shift.
Tensor drawn(const ir::TensorType &type, Distribution distribution, double shift, double scale,
             Generator &generator, Location loc) {
    const Tensor y = distribution(type.shape, detail::working_dtype(type.dtype), type.device, generator, loc);
    if (shift == 0 && scale == 1)
        return rounded(y, type.dtype, distribution, loc);
    return detail::binary(Op::Add, detail::binary(Op::Mul, y, detail::constant(y, scale, loc), loc),
                          detail::constant(y, shift, loc), loc);
}

/// An in-place form: the same in x's dtype.
Tensor &draw_into(Tensor &x, Distribution distribution, double shift, double scale, Generator &generator,
                  const char *function, Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    if (!ir::is_float(type.dtype))
        throw DTypeError(std::string(function) + ": gives floats and the tensor is " + detail::text(type),
                         loc);
    detail::Overwriting form(loc);
    detail::assign(x, drawn(type, distribution, shift, scale, generator, loc), function, loc);
    form.launch();
    return x;
}

/// Integers in [0, range), of at most 2^63, from 32 bits, or from 63 where the range needs them: the high
/// part of bits * range.
Tensor below(const Shape &shape, uint64_t range, ir::Device device, Generator &generator, Location loc) {
    const Tensor word = detail::cast(words(shape, device, generator, loc), ir::DType::I64, loc);
    const auto number = [&](int64_t value) {
        return detail::record_constant_int(DType::I64, value, {}, device, loc);
    };
    const Tensor low = detail::binary(Op::And, word, number(0xffffffff), loc);
    if (range <= (uint64_t{1} << 31))
        return detail::binary(Op::Shr, detail::binary(Op::Mul, low, number(static_cast<int64_t>(range)), loc),
                              number(32), loc);
    const Tensor other = detail::cast(words(shape, device, generator, loc), ir::DType::I64, loc);
    const Tensor high =
        detail::binary(Op::Shl, detail::binary(Op::And, other, number(0x7fffffff), loc), number(32), loc);
    const Tensor bits = detail::binary(Op::Or, high, low, loc);
    if (range > static_cast<uint64_t>(INT64_MAX)) // 2^63
        return bits;
    return detail::binary(Op::Remainder, bits, number(static_cast<int64_t>(range)), loc);
}

} // namespace

Tensor rand(const Sizes &sizes, Generator &generator, const TensorOptions &options, Location loc) {
    loc = detail::in<"rand">(loc);
    return draw(uniform, sizes, generator, detail::resolve(options, "rand", loc), "rand", loc);
}
Tensor rand(const Sizes &sizes, const TensorOptions &options, Location loc) {
    return rand(sizes, default_generator(), options, loc);
}
Tensor randn(const Sizes &sizes, Generator &generator, const TensorOptions &options, Location loc) {
    loc = detail::in<"randn">(loc);
    return draw(standard_normal, sizes, generator, detail::resolve(options, "randn", loc), "randn", loc);
}
Tensor randn(const Sizes &sizes, const TensorOptions &options, Location loc) {
    return randn(sizes, default_generator(), options, loc);
}
Tensor rand_like(const Tensor &x, const TensorOptions &options, Location loc) {
    loc = detail::in<"rand_like">(loc);
    const ResolvedOptions resolved = detail::resolve_like(x, options, "rand_like", loc);
    return draw(uniform, x.sizes(), default_generator(), resolved, "rand_like", loc);
}
Tensor randn_like(const Tensor &x, const TensorOptions &options, Location loc) {
    loc = detail::in<"randn_like">(loc);
    const ResolvedOptions resolved = detail::resolve_like(x, options, "randn_like", loc);
    return draw(standard_normal, x.sizes(), default_generator(), resolved, "randn_like", loc);
}

Tensor randint(int64_t low, int64_t high, const Sizes &sizes, Generator &generator,
               const TensorOptions &options, Location loc) {
    loc = detail::in<"randint">(loc);
    ResolvedOptions resolved = detail::resolve(options, "randint", loc);
    if (!options.dtype)
        resolved.dtype = ir::DType::I64;
    const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    if (low >= high || range > static_cast<uint64_t>(INT64_MAX))
        throw IndexError("randint: there are no integers to draw from " + std::to_string(low) +
                             " up to but without " + std::to_string(high) +
                             " (at most 2^63 - 1 are possible)",
                         loc);
    detail::check_fits(low, resolved.dtype, "randint", loc);
    detail::check_fits(high - 1, resolved.dtype, "randint", loc);
    const Shape shape = detail::checked_shape(sizes, resolved.dtype, "randint", loc, 8);
    const Tensor drawn = below(shape, range, resolved.device, generator, loc);
    const Tensor shifted = detail::binary(
        Op::Add, drawn, detail::record_constant_int(DType::I64, low, {}, resolved.device, loc), loc);
    return detail::placed(detail::cast(shifted, resolved.dtype, loc), resolved, loc);
}
Tensor randint(int64_t low, int64_t high, const Sizes &sizes, const TensorOptions &options, Location loc) {
    return randint(low, high, sizes, default_generator(), options, loc);
}
Tensor randint(int64_t high, const Sizes &sizes, const TensorOptions &options, Location loc) {
    return randint(0, high, sizes, default_generator(), options, loc);
}

namespace {

/// The mean and the deviation of a normal variable, of which one is a number at most.
Tensor normal_of(const Tensor &mean, const Tensor &std, const ir::TensorType &like, Generator &generator,
                 Location loc) {
    const ir::DType work = detail::working_dtype(like.dtype);
    const Tensor drawn = standard_normal(like.shape, work, like.device, generator, loc);
    const Tensor spread = detail::binary(Op::Mul, drawn, detail::cast(std, work, loc), loc);
    return detail::cast(detail::binary(Op::Add, spread, detail::cast(mean, work, loc), loc), like.dtype, loc);
}

ir::TensorType floats_of(const Tensor &x, const char *what, Location loc) {
    const ir::TensorType type = detail::checked_type(x, "normal", loc);
    if (!ir::is_float(type.dtype))
        throw DTypeError(
            std::string("normal: the ") + what + " is " + detail::text(type) + "; it must be of floats", loc);
    return type;
}

void check_deviation(double std, const char *function, Location loc) {
    if (!(std >= 0))
        throw IndexError(std::string(function) + ": the deviation " + std::to_string(std) + " is negative",
                         loc);
}

Tensor checked_deviation(const Tensor &std, Location loc) {
    const Tensor value = std.detach(loc);
    return detail::checked(value, detail::binary(Op::Ge, value, detail::literal(value, 0, loc), loc),
                           "normal: a deviation is negative", loc);
}

} // namespace

Tensor normal(const Tensor &mean, double std, Generator &generator, Location loc) {
    loc = detail::in<"normal">(loc);
    const ir::TensorType type = floats_of(mean, "mean", loc);
    check_deviation(std, "normal", loc);
    return normal_of(mean.detach(loc), detail::constant(Scalar(std), type.dtype, type.device, loc), type,
                     generator, loc);
}
Tensor normal(double mean, const Tensor &std, Generator &generator, Location loc) {
    loc = detail::in<"normal">(loc);
    const ir::TensorType type = floats_of(std, "deviation", loc);
    return normal_of(detail::constant(Scalar(mean), type.dtype, type.device, loc),
                     checked_deviation(std, loc), type, generator, loc);
}
Tensor normal(const Tensor &mean, const Tensor &std, Generator &generator, Location loc) {
    loc = detail::in<"normal">(loc);
    ir::TensorType type = floats_of(mean, "mean", loc);
    const ir::TensorType other = floats_of(std, "deviation", loc);
    Shape shape;
    int axis = 0;
    if (!ir::broadcast_shapes(type.shape, other.shape, shape, axis))
        throw ShapeError("normal: the mean is " + detail::text(type) + " and the deviation " +
                             detail::text(other) + ", which do not broadcast",
                         loc);
    const auto both = detail::together(loc, mean.detach(loc), checked_deviation(std, loc));
    type.shape = shape;
    type.device = detail::type(both[0]).device;
    return normal_of(both[0], both[1], type, generator, loc);
}
Tensor normal(double mean, double std, const Sizes &sizes, Generator &generator, const TensorOptions &options,
              Location loc) {
    loc = detail::in<"normal">(loc);
    check_deviation(std, "normal", loc);
    const ResolvedOptions resolved = detail::resolve(options, "normal", loc);
    if (!ir::is_float(resolved.dtype))
        throw DTypeError("normal: gives floats, not " + std::string(ir::name(resolved.dtype)), loc);
    const Shape shape = detail::checked_shape(sizes, resolved.dtype, "normal", loc, 8);
    const ir::TensorType type{resolved.dtype, shape, resolved.device};
    const auto number = [&](double value) {
        return detail::constant(Scalar(value), detail::working_dtype(type.dtype), type.device, loc);
    };
    return detail::placed(normal_of(number(mean), number(std), type, generator, loc), resolved, loc);
}
Tensor normal(const Tensor &mean, double std, Location loc) {
    return normal(mean, std, default_generator(), loc);
}
Tensor normal(double mean, const Tensor &std, Location loc) {
    return normal(mean, std, default_generator(), loc);
}
Tensor normal(const Tensor &mean, const Tensor &std, Location loc) {
    return normal(mean, std, default_generator(), loc);
}
Tensor normal(double mean, double std, const Sizes &sizes, const TensorOptions &options, Location loc) {
    return normal(mean, std, sizes, default_generator(), options, loc);
}

Tensor randperm(int64_t n, Generator &generator, const TensorOptions &options, Location loc) {
    loc = detail::in<"randperm">(loc);
    ResolvedOptions resolved = detail::resolve(options, "randperm", loc);
    if (!options.dtype)
        resolved.dtype = ir::DType::I64;
    const Shape shape = detail::checked_shape(n, resolved.dtype, "randperm", loc, 8);
    // 62 bits each: equal keys, which would favour the smaller index, do not occur in practice.
    const Tensor keys = below(shape, uint64_t{1} << 62, resolved.device, generator, loc);
    return detail::placed(detail::cast(argsort(keys, 0, false, loc), resolved.dtype, loc), resolved, loc);
}
Tensor randperm(int64_t n, const TensorOptions &options, Location loc) {
    return randperm(n, default_generator(), options, loc);
}

namespace {

Tensor bernoulli_of(const Tensor &probability, const ir::TensorType &like, Generator &generator,
                    Location loc) {
    const ir::DType work = like.dtype == ir::DType::F64 ? ir::DType::F64 : ir::DType::F32;
    const Tensor u = uniform(like.shape, work, like.device, generator, loc);
    return detail::cast(detail::binary(Op::Lt, u, detail::cast(probability, work, loc), loc), like.dtype,
                        loc);
}

void check_probability(double p, const char *function, Location loc) {
    if (!(p >= 0 && p <= 1))
        throw IndexError(std::string(function) + ": " + std::to_string(p) + " is not a probability", loc);
    detail::note_limits(p, 0, 1);
}

} // namespace

Tensor bernoulli(const Tensor &probability, Generator &generator, Location loc) {
    loc = detail::in<"bernoulli">(loc);
    const ir::TensorType type = detail::checked_type(probability, "bernoulli", loc);
    if (!ir::is_float(type.dtype))
        throw DTypeError("bernoulli: probabilities must be floats, not " + detail::text(type), loc);
    return bernoulli_of(probability, type, generator, loc);
}
Tensor bernoulli(const Tensor &probability, Location loc) {
    return bernoulli(probability, default_generator(), loc);
}
Tensor bernoulli(const Tensor &x, double p, Location loc) {
    loc = detail::in<"bernoulli">(loc);
    const ir::TensorType type = detail::checked_type(x, "bernoulli", loc);
    check_probability(p, "bernoulli", loc);
    return bernoulli_of(detail::constant(p, ir::DType::F64, type.device, loc), type, default_generator(),
                        loc);
}

Tensor detail::dropped(const Tensor &x, double p, const Generator::State &at, Location loc) {
    const ir::TensorType &type = detail::type(x);
    const Tensor bits = upper_bits(words_at(type.shape, type.device, at, loc), 24, ir::DType::I32, loc);
    // Of 2^24 numbers those below p * 2^24 are zeros.
    detail::note_on_host({p});
    const Tensor least = detail::constant(Scalar(static_cast<int64_t>(std::ceil(p * 0x1p24))), ir::DType::I32,
                                          type.device, loc);
    const Tensor kept = detail::binary(Op::Ge, bits, least, loc);
    const Tensor scale = detail::constant(x, p < 1 ? 1 / (1 - p) : 0, loc);
    return detail::select(kept, detail::binary(Op::Mul, x, scale, loc), detail::literal(x, 0, loc), loc);
}

Tensor dropout(const Tensor &x, double p, bool training, Location loc) {
    loc = detail::in<"dropout">(loc);
    const ir::TensorType &type = detail::checked_type(x, "dropout", loc);
    check_probability(p, "dropout", loc);
    if (!ir::is_float(type.dtype))
        throw DTypeError("dropout: takes floats, not " + detail::text(type), loc);
    if (!training || p == 0)
        return x;
    const Generator::State at = take(type.numel(), default_generator(), loc);
    return detail::composite(
        detail::kDropoutRule, {&x},
        {static_cast<int64_t>(at.seed), static_cast<int64_t>(at.offset), ir::scalar_word(p)}, loc, [&] {
            return detail::in_working_dtype(x, "dropout", loc,
                                            [&](const Tensor &v) { return detail::dropped(v, p, at, loc); });
        });
}

// The position of the largest weight / e, with exponential variables e, has the weights' distribution, and
// the `samples` largest are a sample without replacement (Efraimidis and Spirakis 2006).
Tensor multinomial(const Tensor &weights, int64_t samples, bool replacement, Generator &generator,
                   Location loc) {
    loc = detail::in<"multinomial">(loc);
    const ir::TensorType type = detail::checked_type(weights, "multinomial", loc);
    const int rank = type.shape.rank();
    if (!ir::is_float(type.dtype))
        throw DTypeError("multinomial: the weights must be floats, not " + detail::text(type), loc);
    if (rank < 1 || rank > 2 || type.shape[rank - 1] == 0)
        throw ShapeError("multinomial: the weights are " + detail::text(type) +
                             "; they are rows of at least one number, with one axis or two",
                         loc);
    const int64_t count = type.shape[rank - 1];
    if (samples < 1 || (!replacement && samples > count))
        throw ShapeError(
            "multinomial: " + std::to_string(samples) + " samples of " + std::to_string(count) +
                " numbers are asked for; it is at least one, and without replacement not more than "
                "there are",
            loc);
    const ir::DType work = detail::working_dtype(type.dtype);
    const Tensor w = detail::cast(weights.detach(loc), work, loc);
    const Tensor zero = detail::literal(w, 0, loc);
    const Tensor is_weight =
        detail::binary(Op::And, detail::binary(Op::Ge, w, zero, loc), isfinite(w, loc), loc);
    const Tensor each = detail::checked(
        w, is_weight, "multinomial: a weight is negative, infinite or NaN; weights are 0 or more, and finite",
        loc);
    const Tensor drawable = sum(detail::binary(Op::Gt, w, zero, loc), -1, true, std::nullopt, loc);
    const Tensor needed =
        detail::constant(Scalar(replacement ? 1 : samples), ir::DType::I64, type.device, loc);
    const Tensor checked = detail::checked(each, detail::binary(Op::Ge, drawable, needed, loc),
                                           "multinomial: too few weights of a row are above 0; one must "
                                           "be, and without replacement as many as samples",
                                           loc);
    if (replacement) { // where the sums of the weights reach a part of all, which is above 0
        Shape shape = type.shape;
        shape[rank - 1] = samples;
        const Tensor sums = cumsum(detail::cast(checked, ir::DType::F64, loc), -1, std::nullopt, loc);
        const Tensor u = uniform(shape, ir::DType::F64, type.device, generator, loc);
        const Tensor part = detail::binary(Op::Sub, detail::literal(u, 1, loc), u, loc);
        const Tensor all = sums.narrow(-1, count - 1, 1, loc);
        return searchsorted(sums, mul(part, all, loc), false, false, std::nullopt, {}, loc);
    }
    const Tensor u = uniform(type.shape, work, type.device, generator, loc);
    const Tensor e = maximum(neg(log1p(neg(u, loc), loc), loc), 0x1p-25, loc); // never 0
    return topk(detail::binary(Op::Div, checked, e, loc), samples, -1, true, loc).indices;
}
Tensor Tensor::multinomial(int64_t samples, bool replacement, Location loc) const {
    return lz::multinomial(*this, samples, replacement, loc);
}

Tensor multinomial(const Tensor &weights, int64_t samples, bool replacement, Location loc) {
    return multinomial(weights, samples, replacement, default_generator(), loc);
}

Tensor &Tensor::uniform_(double from, double to, Generator &generator, Location loc) & {
    loc = detail::in<"uniform_">(loc);
    if (!(from <= to))
        throw IndexError("uniform_: the bounds " + std::to_string(from) + " and " + std::to_string(to) +
                             " are not in order",
                         loc);
    detail::note_on_host({from, to}); // how far apart they are
    return draw_into(*this, uniform, from, to - from, generator, "uniform_", loc);
}
Tensor &Tensor::uniform_(double from, double to, Location loc) & {
    return uniform_(from, to, default_generator(), loc);
}
Tensor &Tensor::normal_(double mean, double std, Generator &generator, Location loc) & {
    loc = detail::in<"normal_">(loc);
    check_deviation(std, "normal_", loc);
    return draw_into(*this, standard_normal, mean, std, generator, "normal_", loc);
}
Tensor &Tensor::normal_(double mean, double std, Location loc) & {
    return normal_(mean, std, default_generator(), loc);
}
Tensor Tensor::uniform_(double from, double to, Location loc) && {
    loc = detail::in<"uniform_">(loc);
    uniform_(from, to, loc);
    return std::move(*this);
}
Tensor Tensor::normal_(double mean, double std, Location loc) && {
    loc = detail::in<"normal_">(loc);
    normal_(mean, std, loc);
    return std::move(*this);
}
Tensor &Tensor::bernoulli_(double p, Location loc) & {
    detail::Overwriting form(loc);
    detail::assign(*this, lz::bernoulli(*this, p, loc), "bernoulli_", loc);
    form.launch();
    return *this;
}

Tensor &Tensor::exponential_(double lambda, Generator &generator, Location loc) & {
    loc = detail::in<"exponential_">(loc);
    if (!(lambda > 0))
        throw IndexError("exponential_: the rate is " + std::to_string(lambda) + "; it is above 0", loc);
    return draw_into(*this, exponential, 0, 1 / lambda, generator, "exponential_", loc);
}
Tensor &Tensor::exponential_(double lambda, Location loc) & {
    return exponential_(lambda, default_generator(), loc);
}

Tensor Tensor::exponential_(double lambda, Location loc) && {
    loc = detail::in<"exponential_">(loc);
    exponential_(lambda, loc);
    return std::move(*this);
}

namespace {

/// Integers in [low, low + range) in x's dtype.
Tensor &draw_integers_into(Tensor &x, int64_t low, uint64_t range, Generator &generator, Location loc) {
    const ir::TensorType type = detail::checked_type(x, "random_", loc);
    detail::Overwriting form(loc);
    const Tensor drawn = below(type.shape, range, type.device, generator, loc);
    const Tensor first = detail::record_constant_int(DType::I64, low, {}, type.device, loc);
    const Tensor made = low == 0 ? drawn : detail::binary(Op::Add, drawn, first, loc);
    detail::assign(x, detail::cast(made, type.dtype, loc), "random_", loc);
    form.launch();
    return x;
}

/// The largest number that is drawn where none is given: all of an integer dtype's, and of floats up to where
/// not every integer is one.
int64_t largest_of(ir::DType dtype) {
    switch (dtype) {
    case ir::DType::F64:
        return int64_t{1} << 53;
    case ir::DType::F32:
        return int64_t{1} << 24;
    case ir::DType::F16:
        return int64_t{1} << 11;
    case ir::DType::BF16:
        return int64_t{1} << 8;
    case ir::DType::Bool:
        return 1;
    default:
        return detail::saturated(INT64_MAX, dtype).to_int();
    }
}

} // namespace

Tensor &Tensor::random_(int64_t low, std::optional<int64_t> high, Generator &generator, Location loc) & {
    loc = detail::in<"random_">(loc);
    const ir::DType dtype = detail::checked_type(*this, "random_", loc).dtype;
    const int64_t last = high ? *high - (*high != INT64_MIN) : largest_of(dtype);
    const uint64_t span = static_cast<uint64_t>(last) - static_cast<uint64_t>(low);
    if (low > last || span > static_cast<uint64_t>(INT64_MAX))
        throw IndexError("random_: there are no integers to draw from " + std::to_string(low) + " up to " +
                             (high ? "but without " + std::to_string(*high) : std::to_string(last)) +
                             " (at most 2^63 are possible)",
                         loc);
    if (dtype == ir::DType::Bool && (low < 0 || last > 1))
        throw IndexError("random_: of a tensor of bool numbers are drawn from [0, 2), not from [" +
                             std::to_string(low) + ", " + std::to_string(last) + "]",
                         loc);
    if (!detail::holds(dtype, low) || !detail::holds(dtype, last))
        throw DTypeError("random_: the numbers from " + std::to_string(low) + " to " + std::to_string(last) +
                             " do not all fit dtype " + std::string(ir::name(dtype)),
                         loc);
    return draw_integers_into(*this, low, span + 1, generator, loc);
}
Tensor &Tensor::random_(int64_t low, std::optional<int64_t> high, Location loc) & {
    return random_(low, high, default_generator(), loc);
}
Tensor &Tensor::random_(int64_t high, Generator &generator, Location loc) & {
    return random_(0, high, generator, loc);
}
Tensor &Tensor::random_(int64_t high, Location loc) & {
    return random_(0, high, default_generator(), loc);
}
Tensor &Tensor::random_(Generator &generator, Location loc) & {
    return random_(0, std::nullopt, generator, loc);
}
Tensor &Tensor::random_(Location loc) & {
    return random_(0, std::nullopt, default_generator(), loc);
}

Tensor Tensor::random_(int64_t low, std::optional<int64_t> high, Location loc) && {
    loc = detail::in<"random_">(loc);
    random_(low, high, loc);
    return std::move(*this);
}
Tensor Tensor::random_(int64_t high, Location loc) && {
    return std::move(*this).random_(0, high, loc);
}
Tensor Tensor::random_(Location loc) && {
    return std::move(*this).random_(0, std::nullopt, loc);
}

} // namespace lz
