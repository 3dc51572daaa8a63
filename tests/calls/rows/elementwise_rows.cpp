// Elementwise calls: what they promote to and what each element is.
#include "numbers.h"
#include "rows.h"
#include "special.h"

#include "tests/support/reference.h"

#include <cmath>
#include <map>

#include "row_macros.h"

namespace lz::test::calls {

namespace {

// --- two operands

/// What becomes of the operands first.
enum class Rule : uint8_t {
    Numeric,
    Any,
    Bits,
    Shift,
    Float,
    Sum,
    Difference,
    Product,
    Quotient,
    Power,
    Truth
};

struct Binary {
    Rule rule;
    std::function<float(float, float)> single;
    std::function<double(double, double)> wide;
    std::function<int64_t(int64_t, int64_t, int bits)> whole;
    double ulps = 0;
    bool divides = false;
};

/// Functions without a row here are what the tables of ir/ say: 2 ULP of the function and 1 of libm.
constexpr double kUlpsOfReference = 3;

ir::DType integer_of(int bits) {
    return bits == 1    ? ir::DType::Bool
           : bits == 8  ? ir::DType::I8
           : bits == 16 ? ir::DType::I16
           : bits == 32 ? ir::DType::I32
                        : ir::DType::I64;
}

Binary by_reference(Rule rule, ir::Op op) {
    return {
        rule, [op](float x, float y) { return static_cast<float>(reference(op, double{x}, double{y})); },
        [op](double x, double y) { return reference(op, x, y); },
        [op](int64_t x, int64_t y, int bits) { return reference_of_integers(op, integer_of(bits), x, y); },
        kUlpsOfReference};
}

#define LZ_PAIR(rule, f, i, ...)                                                                             \
    Binary {                                                                                                 \
        Rule::rule, []([[maybe_unused]] float x, [[maybe_unused]] float y) -> float { return f; },           \
            []([[maybe_unused]] double x, [[maybe_unused]] double y) -> double { return f; },                \
            []([[maybe_unused]] int64_t x, [[maybe_unused]] int64_t y,                                       \
               [[maybe_unused]] int bits) -> int64_t { return i; } __VA_OPT__(, ) __VA_ARGS__                \
    }

std::map<std::string, Binary> with_those_of_the_tables(std::map<std::string, Binary> all) {
#define LZ_BINARY(name, op, rule) all.try_emplace(#name, by_reference(Rule::rule, ir::Op::op));
#include "lazuli/ops/functions.def"
    return all;
}

const std::map<std::string, Binary> &binaries() {
    static const std::map<std::string, Binary> all = with_those_of_the_tables({
        {"add", LZ_PAIR(Sum, x + y, bits == 1 ? x | y : plus(x, y))},
        {"sub", LZ_PAIR(Difference, x - y, minus(x, y))},
        {"mul", LZ_PAIR(Product, x * y, times(x, y))},
        {"div", LZ_PAIR(Quotient, x / y, 0)},
        {"floor_divide", LZ_PAIR(Numeric, quotient(x, y), quotient(x, y), 0, true)},
        {"remainder", LZ_PAIR(Numeric, modulo(x, y), modulo(x, y), 0, true)},
        {"fmod", LZ_PAIR(Numeric, std::fmod(x, y), y == -1 ? 0 : x % y, 0, true)},
        {"pow", LZ_PAIR(Power, std::pow(x, y), power(x, y), 2)},
        {"atan2", LZ_PAIR(Float, std::atan2(x, y), 0, 2)},
        {"minimum", LZ_PAIR(Any, least(x, y), x < y ? x : y)},
        {"maximum", LZ_PAIR(Any, greatest(x, y), x > y ? x : y)},
        {"bitwise_and", LZ_PAIR(Bits, 0, x & y)},
        {"bitwise_or", LZ_PAIR(Bits, 0, x | y)},
        {"bitwise_xor", LZ_PAIR(Bits, 0, x ^ y)},
        {"bitwise_left_shift", LZ_PAIR(Shift, 0, left(x, y, bits))},
        {"bitwise_right_shift", LZ_PAIR(Shift, 0, right(x, y, bits))},
        {"logical_and", LZ_PAIR(Truth, 0, x & y)},
        {"logical_or", LZ_PAIR(Truth, 0, x | y)},
        {"logical_xor", LZ_PAIR(Truth, 0, x ^ y)},
    });
    return all;
}

const std::map<std::string, Binary> &comparisons() {
    static const std::map<std::string, Binary> all = {
        {"eq", LZ_PAIR(Any, x == y, x == y)}, {"ne", LZ_PAIR(Any, x != y, x != y)},
        {"lt", LZ_PAIR(Any, x < y, x < y)},   {"le", LZ_PAIR(Any, x <= y, x <= y)},
        {"gt", LZ_PAIR(Any, x > y, x > y)},   {"ge", LZ_PAIR(Any, x >= y, x >= y)},
    };
    return all;
}

} // namespace

/// torch.result_type: tensors with axes, then those without, then numbers, each only where its category is
/// higher than all before.
DType result_type(const Oracle &o, const std::vector<Arg> &args) {
    std::optional<DType> levels[3];
    for (const Arg &arg : args) {
        DType t = boolean;
        int level = 2;
        if (arg.handle >= 0) {
            t = o.value(arg).dtype;
            level = o.value(arg).shape.empty() ? 1 : 0;
        } else if (arg.number.is_float()) {
            t = o.default_dtype;
        } else if (arg.number.category() == Scalar::Category::Integer) {
            t = i64;
        }
        levels[level] = levels[level] ? promoted(*levels[level], t) : t;
    }
    const auto category = [](DType t) { return is_float(t) ? 2 : t == boolean ? 0 : 1; };
    std::optional<DType> out;
    for (const std::optional<DType> &level : levels)
        if (level && (!out || category(*level) > category(*out)))
            out = level;
    return *out;
}

namespace {

/// The number that an integer dtype lacks.
bool holds(DType t, const Scalar &x) {
    return is_float(t) || t == boolean || x.is_float() || wrapped(t, x.to_int()) == x.to_int();
}

Scalar saturated(DType t, const Scalar &x) {
    const int bits = bits_of(t);
    const int64_t top = t == u8 ? 255 : (int64_t{1} << (bits - 1)) - 1, bottom = t == u8 ? 0 : -top - 1;
    return std::min(std::max(x.to_int(), bottom), top);
}

Array two(const Oracle &o, const std::string &name, const Binary &op, bool compare,
          const std::vector<Arg> &args) {
    if (args[0].handle < 0 && args[1].handle < 0)
        throw Mistake(ErrorType::DType, "two numbers");
    DType t = result_type(o, args);
    switch (op.rule) {
    case Rule::Difference:
        if (t == boolean)
            throw Mistake(ErrorType::DType, "two bools");
        break;
    case Rule::Float:
    case Rule::Quotient:
        t = is_float(t) ? t : o.default_dtype;
        break;
    case Rule::Truth:
        t = boolean;
        break;
    case Rule::Bits:
        if (is_float(t))
            throw Mistake(ErrorType::DType, "bits of floats");
        break;
    case Rule::Shift:
        if (is_float(t) || t == boolean)
            throw Mistake(ErrorType::DType, "shifts of these");
        break;
    case Rule::Numeric:
    case Rule::Power:
        if (t == boolean)
            throw Mistake(ErrorType::DType, "of bools");
        break;
    default:
        break;
    }
    // Numbers that an integer dtype does not have (elementwise.h).
    DType work = t;
    std::vector<Arg> in = args;
    const bool one_number = (args[0].handle < 0) != (args[1].handle < 0);
    if (one_number) {
        Arg &number = in[0].handle < 0 ? in[0] : in[1];
        if (!is_float(t) && name == "pow" && in[1].handle < 0 && number.number.to_int() < 0)
            throw Mistake(ErrorType::DType, "integers to a negative power");
        if (!holds(t, number.number)) {
            if (compare)
                work = i64;
            else if (name == "minimum" || name == "maximum" ||
                     (op.rule == Rule::Shift && in[1].handle < 0 && number.number.to_int() > 0))
                number.number = saturated(t, number.number);
            else if (op.divides || (name == "pow" && in[1].handle < 0))
                throw Mistake(ErrorType::DType, "a number that the dtype does not have");
        }
    }
    Array x[2];
    Extents shape;
    Trust trust = Trust::Exact;
    constexpr int kNowhere = -2;
    int device = kNowhere;
    // A number enters in the dtype of the computation, and so does a 0-dim tensor of another dtype; but as
    // PyTorch has it, what is compared, chosen or an exponent or base is first a number of the tensor's
    // dtype.
    const bool rounds = op.rule == Rule::Any || op.rule == Rule::Power;
    const DType wide = !rounds && (work == f16 || work == bf16) ? f32 : work;
    for (size_t k = 0; k < 2; ++k) {
        if (in[k].handle < 0) {
            x[k] = make(work, {});
            x[k].at[0] = converted(in[k].number, wide);
            if (k == 0)
                continue;
        } else {
            const Array &v = o.value(in[k]);
            trust = through(trust, v.trust);
            x[k] = converted(v, v.shape.empty() && v.dtype != work ? wide : work);
            if (v.device >= 0 || !v.shape.empty()) { // a number on the CPU goes with anything
                if (device == kNowhere)
                    device = v.device;
                else if (device != v.device && !automatic_transfers())
                    throw Mistake(ErrorType::Device, "two devices", true);
            }
        }
    }
    shape = broadcast(x[0].shape, x[1].shape);
    Array out = make(compare ? boolean : t, shape);
    out.device = std::max(device, -1);
    const std::vector<int64_t> a = positions(x[0].shape, shape), b = positions(x[1].shape, shape);
    for (size_t k = 0; k < out.at.size(); ++k) {
        const Element p = x[0].at[static_cast<size_t>(a[k])], q = x[1].at[static_cast<size_t>(b[k])];
        if (!is_float(work)) {
            if (op.divides && q.i == 0)
                throw Mistake(ErrorType::State, "an integer is divided by zero", true);
            out.at[k].i = wrapped(out.dtype, op.whole(p.i, q.i, bits_of(work)));
            continue;
        }
        if (compare) {
            out.at[k].i = op.wide(p.f, q.f) != 0;
        } else if (work == f64) {
            out.at[k].f = op.wide(p.f, q.f);
        } else if (op.ulps > 0) {
            out.at[k].f = rounded(work, op.wide(p.f, q.f));
        } else {
            out.at[k].f = rounded(
                work, static_cast<double>(op.single(static_cast<float>(p.f), static_cast<float>(q.f))));
        }
    }
    out.trust = trust;
    if (op.ulps > 0 && is_float(work) && trust == Trust::Exact) {
        out.trust = Trust::Close;
        out.ulps = op.ulps;
    }
    return out;
}

// --- one operand

struct Unary {
    enum class Rule : uint8_t { Float, Rounding, Numeric, Bits, Other } rule;
    std::function<long double(long double)> f;
    std::function<double(double)> exact; ///< of what is rounded once: sqrt, reciprocal
    double ulps;
    std::function<int64_t(int64_t, int bits)> whole = nullptr; ///< null: one_whole
};

Unary by_reference(Unary::Rule rule, ir::Op op) {
    return {rule, [op](long double x) -> long double { return reference(op, static_cast<double>(x)); },
            [op](double x) { return reference(op, x); }, kUlpsOfReference,
            [rule, op](int64_t x, int bits) {
                return rule == Unary::Rule::Rounding ? x : reference_of_integers(op, integer_of(bits), x);
            }};
}
std::map<std::string, Unary> with_those_of_the_tables(std::map<std::string, Unary> all) {
#define LZ_UNARY(name, op, rule) all.try_emplace(#name, by_reference(Unary::Rule::rule, ir::Op::op));
#include "lazuli/ops/functions.def"
    return all;
}

#define LZ_ONE(rule, f, ulps)                                                                                \
    Unary {                                                                                                  \
        Unary::Rule::rule, []([[maybe_unused]] long double x) -> long double { return f; },                  \
            []([[maybe_unused]] double x) -> double { return f; }, ulps                                      \
    }

/// In place of units: sums of terms that may cancel, which `terms_of` bounds.
constexpr double kBounded = -1;

const std::map<std::string, Unary> &unaries() {
    static const std::map<std::string, Unary> all = with_those_of_the_tables({
        {"exp", LZ_ONE(Float, std::exp(x), 2)},
        {"expm1", LZ_ONE(Float, std::expm1(x), 2)},
        {"log", LZ_ONE(Float, std::log(x), 2)},
        {"log1p", LZ_ONE(Float, std::log1p(x), 2)},
        {"log2", LZ_ONE(Float, std::log2(x), 2)},
        {"sqrt", LZ_ONE(Float, std::sqrt(x), 0)},
        {"rsqrt", LZ_ONE(Float, 1 / std::sqrt(x), 2)},
        {"sin", LZ_ONE(Float, std::sin(x), 2)},
        {"cos", LZ_ONE(Float, std::cos(x), 2)},
        {"tan", LZ_ONE(Float, std::tan(x), 2)},
        {"asin", LZ_ONE(Float, std::asin(x), 2)},
        {"acos", LZ_ONE(Float, std::acos(x), 2)},
        {"atan", LZ_ONE(Float, std::atan(x), 2)},
        {"sinh", LZ_ONE(Float, std::sinh(x), 2)},
        {"cosh", LZ_ONE(Float, std::cosh(x), 2)},
        {"tanh", LZ_ONE(Float, std::tanh(x), 2)},
        {"erf", LZ_ONE(Float, std::erf(x), 2)},
        {"sigmoid", LZ_ONE(Float, 1 / (1 + std::exp(-x)), 3)},
        {"floor", LZ_ONE(Rounding, std::floor(x), 0)},
        {"ceil", LZ_ONE(Rounding, std::ceil(x), 0)},
        {"round", LZ_ONE(Rounding, std::nearbyint(x), 0)},
        {"trunc", LZ_ONE(Rounding, std::trunc(x), 0)},
        {"neg", LZ_ONE(Numeric, -x, 0)},
        {"abs", LZ_ONE(Numeric, std::fabs(x), 0)},
        {"sign", LZ_ONE(Numeric, static_cast<double>(x > 0) - static_cast<double>(x < 0), 0)},
        {"bitwise_not", LZ_ONE(Bits, 0, 0)},
        {"relu", LZ_ONE(Other, (x <= 0 ? 0 : x), 0)},
        {"silu", LZ_ONE(Float, x / (1 + std::exp(-x)), 4)},
        {"square", LZ_ONE(Other, x * x, 0)},
        {"reciprocal", LZ_ONE(Float, 1 / x, 0)},
        {"log10", LZ_ONE(Float, std::log10(x), 4)},
        {"exp2", LZ_ONE(Float, std::exp2(x), 2)},
        {"erfc", LZ_ONE(Float, std::erfc(x), 16)},
        {"lgamma", LZ_ONE(Float, log_gamma(x), kBounded)},
        {"digamma", LZ_ONE(Float, digamma(x), kBounded)},
        {"logical_not", LZ_ONE(Other, 0, 0)},
    });
    return all;
}

int64_t one_whole(const std::string &name, DType t, int64_t x) {
    if (name == "neg")
        return minus(0, x);
    if (name == "abs")
        return x < 0 ? minus(0, x) : x;
    if (name == "sign")
        return x > 0 ? 1 : x < 0 ? -1 : 0;
    if (name == "bitwise_not")
        return t == boolean ? !x : ~x;
    if (name == "relu")
        return x < 0 ? 0 : x;
    if (name == "square")
        return times(x, x);
    return x; // rounding
}

Array one(const Oracle &o, const std::string &name, const Unary &op, int handle) {
    Array x = o.value(handle);
    if (name == "logical_not")
        return map(converted(x, boolean), boolean, [](Element e) { return Element{.i = !e.i}; });
    if (!is_float(x.dtype)) {
        if (op.rule == Unary::Rule::Float) {
            x = converted(x, o.default_dtype);
        } else {
            if (x.dtype == boolean && name == "square")
                x = converted(x, i64);
            if (x.dtype == boolean && name != "sign" && op.rule != Unary::Rule::Bits && name != "relu")
                throw Mistake(ErrorType::DType, "of a bool");
            return map(x, x.dtype, [&](Element e) {
                const int64_t i = op.whole ? op.whole(e.i, bits_of(x.dtype)) : one_whole(name, x.dtype, e.i);
                return Element{.i = wrapped(x.dtype, i)};
            });
        }
    }
    if (op.rule == Unary::Rule::Bits)
        throw Mistake(ErrorType::DType, "bits of a float");
    Array out = map(x, x.dtype, [&](Element e) {
        if (x.dtype == f64 && op.ulps == 0)
            return Element{.f = op.exact(e.f)};
        const long double y = op.f(static_cast<long double>(e.f));
        if (x.dtype == f64)
            return Element{.f = static_cast<double>(y)};
        // By way of the dtype of the computation.
        return Element{.f = rounded(x.dtype, static_cast<double>(static_cast<float>(y)))};
    });
    if (op.ulps == kBounded && x.trust == Trust::Exact) {
        out.trust = Trust::Close;
        const double eps = x.dtype == f64 ? 0x1p-52 : 0x1p-23;
        const double own = x.dtype == f16 ? 0x1p-11 : x.dtype == bf16 ? 0x1p-8 : 0;
        for (size_t k = 0; k < x.at.size(); ++k) {
            const double bound = 16 * eps * terms_of(x.at[k].f) + own * std::fabs(out.at[k].f);
            out.absolute.push_back(std::isfinite(bound) ? bound : 0);
        }
    }
    if (op.ulps > 0 && x.trust == Trust::Exact) {
        out.trust = Trust::Close;
        out.ulps = op.ulps;
    }
    return out;
}

// --- making them

bool make_unary(Maker &m, Statement &s, bool in_place) {
    const auto x = m.any();
    if (!x)
        return false;
    s.args = {Arg::of(*x)};
    if (!in_place)
        s.out = {m.target()};
    return true;
}

bool make_binary(Maker &m, Statement &s, Rule rule, bool in_place, bool first_is_tensor) {
    const bool bits = (rule == Rule::Bits || rule == Rule::Shift) && !m.once_in(20);
    const auto x = m.any([&](const Array &v) { return !bits || !is_float(v.dtype); });
    if (!x)
        return false;
    Arg other;
    const int64_t kind = m.below(8);
    if (kind < 3) {
        other.number = m.number();
    } else {
        const Array &v = m.oracle.value(*x);
        const auto fits = [&](const Array &w) { return fits_beside(v, w); };
        std::optional<int> y;
        if (automatic_transfers() && kind > 3) // from elsewhere, if there is one
            y = m.any([&](const Array &w) { return w.device != v.device && fits(w); });
        if (!y)
            y = kind == 3 && m.once_in(4) ? m.any() : m.any(fits);
        if (!y)
            return false;
        other = Arg::of(*y);
    }
    s.args = {Arg::of(*x), other};
    if (!first_is_tensor && m.once_in(2))
        std::swap(s.args[0], s.args[1]);
    if (!in_place)
        s.out = {m.target()};
    return true;
}

} // namespace

bool fits_beside(const Array &x, const Array &y) {
    try {
        broadcast(x.shape, y.shape);
        return x.trust == Trust::Exact && y.trust == Trust::Exact &&
               (meets(x, y) || (y.device < 0 && y.shape.empty()));
    } catch (const Mistake &) {
        return false;
    }
}

Array computed(const Oracle &o, const std::string &name, const std::vector<Arg> &args) {
    return two(o, name, binaries().at(name), false, args);
}

void assign(Oracle &o, int handle, const Array &value) {
    const Array &x = o.value(handle);
    if (is_float(value.dtype) && !is_float(x.dtype))
        throw Mistake(ErrorType::DType, "a float does not become an integer in place");
    if (!is_float(value.dtype) && value.dtype != boolean && x.dtype == boolean)
        throw Mistake(ErrorType::DType, "an integer does not become a bool in place");
    if (value.shape != x.shape && broadcast(value.shape, x.shape) != x.shape)
        throw Mistake(ErrorType::Shape, "an in-place form keeps its shape");
    // Only a number on the CPU can meet this: it is not brought to where the other operand is.
    if (value.device >= 0 && value.device != x.device && !automatic_transfers())
        throw Mistake(ErrorType::Device, "an in-place form keeps its device", true);
    Array now = converted(broadcast_to(value, x.shape), x.dtype);
    now.device = x.device;
    o.change(handle, std::move(now));
}

void add_elementwise_rows(std::vector<Row> &rows) {
    const auto unary = [&](const std::string &function, std::string text, std::function<void(Call &)> run,
                           bool in_place, bool empties) {
        const Unary &op = unaries().at(function);
        rows.push_back({std::move(text), std::move(run),
                        [&op, function, in_place](Oracle &o, const Statement &s) {
                            Array value = one(o, function, op, s.args[0].handle);
                            if (in_place)
                                assign(o, s.args[0].handle, value);
                            else
                                o.set(s.out[0], std::move(value));
                        },
                        [in_place](Maker &m, Statement &s) { return make_unary(m, s, in_place); }, 1,
                        empties});
    };
    const auto binary = [&](const std::string &function, bool compare, std::string text,
                            std::function<void(Call &)> run, bool in_place, bool empties,
                            bool first_is_tensor, int weight) {
        const Binary &op = (compare ? comparisons() : binaries()).at(function);
        rows.push_back({std::move(text), std::move(run),
                        [&op, function, compare, in_place](Oracle &o, const Statement &s) {
                            Array value = two(o, function, op, compare, s.args);
                            if (in_place)
                                assign(o, s.args[0].handle, value);
                            else
                                o.set(s.out[0], std::move(value));
                        },
                        [&op, in_place, first_is_tensor](Maker &m, Statement &s) {
                            return make_binary(m, s, op.rule, in_place, first_is_tensor);
                        },
                        weight, empties});
    };
#define LZ_UNARY(name, ...) LZ_UNARY_COMPOSED(name)
#define LZ_UNARY_COMPOSED(name)                                                                              \
    unary(#name, LZ_CALL(lz::name(T0, loc)), false, false);                                                  \
    unary(#name, LZ_CALL(M0.name(loc)), false, true);                                                        \
    unary(#name, LZ_CALL(T0.name##_(loc)), true, false);
#define LZ_BINARY(name, ...)                                                                                 \
    binary(#name, false, LZ_CALL(lz::name(P0, P1, loc)), false, false, false, 2);                            \
    binary(#name, false, LZ_CALL(lz::name(Q0, P1, loc)), false, true, true, 1);                              \
    binary(#name, false, LZ_CALL(T0.name(P1, loc)), false, false, true, 1);                                  \
    binary(#name, false, LZ_CALL(T0.name##_(P1, loc)), true, false, true, 1);
#define LZ_COMPARISON(name, ...)                                                                             \
    binary(#name, true, LZ_CALL(lz::name(P0, P1, loc)), false, false, false, 1);                             \
    binary(#name, true, LZ_CALL(M0.name(P1, loc)), false, true, true, 1);
#define loc c.loc
#include "lazuli/ops/functions.def"
#define LZ_OPERATOR(symbol, name, compare)                                                                   \
    binary(#name, compare, LZ_CALL(P0 symbol P1), false, false, false, 3);
    LZ_OPERATOR(+, add, false)
    LZ_OPERATOR(-, sub, false)
    LZ_OPERATOR(*, mul, false)
    LZ_OPERATOR(/, div, false)
    LZ_OPERATOR(%, remainder, false)
    LZ_OPERATOR(&, bitwise_and, false)
    LZ_OPERATOR(|, bitwise_or, false)
    LZ_OPERATOR(^, bitwise_xor, false)
    LZ_OPERATOR(<<, bitwise_left_shift, false)
    LZ_OPERATOR(>>, bitwise_right_shift, false)
    LZ_OPERATOR(==, eq, true)
    LZ_OPERATOR(!=, ne, true)
    LZ_OPERATOR(<, lt, true)
    LZ_OPERATOR(<=, le, true)
    LZ_OPERATOR(>, gt, true)
    LZ_OPERATOR(>=, ge, true)
#define LZ_COMPOUND(symbol, name) binary(#name, false, LZ_CALL(T0 symbol P1), true, false, true, 2);
    LZ_COMPOUND(+=, add)
    LZ_COMPOUND(-=, sub)
    LZ_COMPOUND(*=, mul)
    LZ_COMPOUND(/=, div)
    LZ_COMPOUND(%=, remainder)
    LZ_COMPOUND(&=, bitwise_and)
    LZ_COMPOUND(|=, bitwise_or)
    LZ_COMPOUND(^=, bitwise_xor)
    LZ_COMPOUND(<<=, bitwise_left_shift)
    LZ_COMPOUND(>>=, bitwise_right_shift)
#undef loc
}

} // namespace lz::test::calls
