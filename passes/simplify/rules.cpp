// The table of rules: each a line at the end of this file, a function of a few lines, and a test of its name.
// A rule is here only if it gives the same bits for every operand; what looks obvious and is missing changes
// some: x * 0 (NaN, -0), x + 0.0 (-0.0), x - x (NaN), x * -1 (the sign of NaN), pow(x, 0.5) (-0.0 and -inf),
// (x + a) + b (rounding). Nor does a rule forget an operand whose numbers make no difference, as in i * 0 or
// i - i: what depends on a failed value fails with it (S26). What is written over whole is no such operand.
#include "passes/simplify/rules.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace lz::passes {

using namespace ir;

namespace {

// ---- arithmetic with literals

/// x if the other operand is a literal for which `neutral` holds.
template <class Pred>
ValueId other_operand(const Candidate &c, Pred neutral) {
    for (size_t k = 0; k < 2; ++k)
        if (const auto literal = c.literal(c.operand(k)); literal && neutral(*literal))
            return c.same_type(c.operand(1 - k));
    return kNone;
}

template <class Pred>
ValueId first_operand(const Candidate &c, Pred neutral) {
    const auto literal = c.literal(c.operand(1));
    return literal && neutral(*literal) ? c.same_type(c.operand(0)) : kNone;
}

bool is_one(const LiteralValue &l) {
    return l.is(1);
}
bool is_integer_zero(const LiteralValue &l) {
    return !is_float(l.dtype) && l.integer == 0;
}
bool is_all_ones(const LiteralValue &l) {
    return l.dtype == DType::Bool ? l.integer == 1
           : l.dtype == DType::U8 ? l.integer == 255
                                  : !is_float(l.dtype) && l.integer == -1;
}
/// The zero that adding leaves every float alone with: -0.0 + -0.0 is -0.0.
bool is_added_zero(const LiteralValue &l) {
    return is_float(l.dtype) ? l.real == 0 && std::signbit(l.real) : l.integer == 0;
}
bool is_subtracted_zero(const LiteralValue &l) {
    return is_float(l.dtype) ? l.real == 0 && !std::signbit(l.real) : l.integer == 0;
}

ValueId mul_one(const Candidate &c) {
    return other_operand(c, is_one);
}
ValueId div_one(const Candidate &c) {
    return first_operand(c, is_one);
}
ValueId add_zero(const Candidate &c) {
    return other_operand(c, is_added_zero);
}
ValueId sub_zero(const Candidate &c) {
    return first_operand(c, is_subtracted_zero);
}
ValueId integer_zero_sub(const Candidate &c) {
    const auto literal = c.literal(c.operand(0));
    if (!literal || !is_integer_zero(*literal) || c.operand_type(1) != c.result_type())
        return kNone;
    return c.make(Op::Neg, {c.operand(1)});
}

/// Dividing by a power of two rounds the same real number as multiplying by its reciprocal, if that is exact.
ValueId div_power_of_two(const Candidate &c) {
    const auto literal = c.literal(c.operand(1));
    if (!literal || !is_float(literal->dtype) || !std::isnormal(literal->real))
        return kNone;
    int exponent = 0;
    if (std::fabs(std::frexp(literal->real, &exponent)) != 0.5)
        return kNone;
    const double reciprocal = 1 / literal->real;
    // f16 is the narrowest range: its normal numbers reach from 2^-14 to 2^15. Kernels compute it in f32.
    const int limit = literal->dtype == DType::F16 ? 14 : literal->dtype == DType::F64 ? 1021 : 125;
    if (std::abs(exponent - 1) > limit)
        return kNone;
    const ValueId factor = c.make_literal(c.operand_type(1), scalar_word(reciprocal));
    return c.make(Op::Mul, {c.operand(0), factor});
}

ValueId minimum_infinity(const Candidate &c) {
    return other_operand(c, [](const LiteralValue &l) { return is_float(l.dtype) && l.real == INFINITY; });
}
ValueId maximum_infinity(const Candidate &c) {
    return other_operand(c, [](const LiteralValue &l) { return is_float(l.dtype) && l.real == -INFINITY; });
}

ValueId or_zero(const Candidate &c) {
    return other_operand(c, is_integer_zero);
}
ValueId and_ones(const Candidate &c) {
    return other_operand(c, is_all_ones);
}
ValueId shift_zero(const Candidate &c) {
    return first_operand(c, is_integer_zero);
}

// The exponent of `pow` is structural where the user wrote a number, so every cut of a program sees the same.
ValueId pow_one(const Candidate &c) {
    return first_operand(c, is_one);
}
ValueId pow_two(const Candidate &c) {
    const auto exponent = c.literal(c.operand(1));
    return exponent && exponent->is(2) && c.operand_type() == c.result_type()
               ? c.make(Op::Mul, {c.operand(0), c.operand(0)})
               : kNone;
}

// ---- operations that undo or repeat each other

ValueId undo(const Candidate &c) {
    const Node *inner = c.made_by(c.operand(), c.op());
    return inner ? c.operand_of(*inner) : kNone;
}
ValueId repeat(const Candidate &c) {
    return c.made_by(c.operand(), c.op()) ? c.operand() : kNone;
}
ValueId abs_neg(const Candidate &c) {
    const Node *inner = c.made_by(c.operand(), Op::Neg);
    return inner && c.result_type().dtype != DType::U8 // there neg wraps and abs changes nothing
               ? c.make(Op::Abs, {c.operand_of(*inner)})
               : kNone;
}
ValueId same_operands(const Candidate &c) {
    return c.operand(0) == c.operand(1) ? c.operand(0) : kNone;
}

// ---- selection and truth

/// Only where nothing can be lost with the other one.
ValueId select_literal(const Candidate &c) {
    const auto condition = c.literal(c.operand(0));
    const size_t taken = condition && condition->integer != 0 ? 1 : 2;
    return condition && c.is_made(c.operand(3 - taken)) ? c.same_type(c.operand(taken)) : kNone;
}
ValueId select_not(const Candidate &c) {
    const Node *inner = c.made_by(c.operand(0), Op::Not);
    return inner ? c.make(Op::Select, {c.operand_of(*inner), c.operand(2), c.operand(1)}) : kNone;
}
/// x == true and x != false are x.
template <int Truth>
ValueId compare_truth(const Candidate &c) {
    return other_operand(c,
                         [](const LiteralValue &l) { return l.dtype == DType::Bool && l.integer == Truth; });
}

// ---- casts

/// Whether every value of `from` is a value of `to`.
bool embeds(DType from, DType to) {
    if (from == to || from == DType::Bool)
        return true;
    // Bits of the significand, the sign apart.
    constexpr auto digits = [](DType t) {
        switch (t) {
        case DType::Bool:
            return 1;
        case DType::F16:
            return 11;
        case DType::BF16:
            return 8;
        case DType::F32:
            return 24;
        case DType::F64:
            return 53;
        default:
            return 8 * size_of(t) - (t == DType::U8 ? 0 : 1);
        }
    };
    if (is_float(from))
        return is_float(to) && size_of(to) > size_of(from);
    if (is_float(to))
        return to != DType::F16 ? digits(from) <= digits(to) : digits(from) <= 8;
    return digits(from) <= digits(to) && (from == DType::U8 || is_signed(to));
}

ValueId cast_same(const Candidate &c) {
    return c.same_type(c.operand());
}
/// cast(cast(x, middle), to) is cast(x, to) when x fits `middle`: both convert the same number. Not where an
/// integer comes to a narrower one through a float, which saturates where the direct way wraps, and not where
/// a wide integer comes to a half type, which is rounded twice on either way.
ValueId cast_cast(const Candidate &c) {
    const Node *inner = c.made_by(c.operand(), Op::Cast);
    if (!inner)
        return kNone;
    const ValueId x = c.operand_of(*inner);
    const DType from = c.type_of(x).dtype, middle = c.operand_type().dtype;
    const DType to = c.attrs.dtype(attr::kCastDType);
    if (!embeds(from, middle))
        return kNone;
    if (!is_float(from) && is_float(middle) && !is_float(to) && to != DType::Bool && !embeds(from, to))
        return kNone;
    if (!is_float(from) && is_half(to) && size_of(from) > 2)
        return kNone;
    return c.make(Op::Cast, {x}, {static_cast<int64_t>(to)});
}

/// What a cast is made from, if it makes v, below a permute too.
struct Cast {
    ValueId from = kNone;
    const Node *permute = nullptr;
};
Cast cast_below(const Candidate &c, ValueId v) {
    const Node *const permute = c.made_by(v, Op::Permute);
    const Node *const cast = c.made_by(permute ? c.operand_of(*permute) : v, Op::Cast);
    return {cast ? c.operand_of(*cast) : kNone, permute};
}
/// A product of integers that were made wider is one of the narrow ones, summed into the wide dtype.
ValueId dot_casts(const Candidate &c) {
    const Cast lhs = cast_below(c, c.operand(0)), rhs = cast_below(c, c.operand(1));
    if (lhs.from == kNone || rhs.from == kNone)
        return kNone;
    const DType from = c.type_of(lhs.from).dtype, to = c.attrs.dtype(attr::kDotDType);
    if (!is_integer(from) || c.type_of(rhs.from).dtype != from ||
        !can_hold_products(c.operand_type().dtype, from) || !can_hold_products(to, from))
        return kNone;
    const auto narrow = [&](const Cast &cast) {
        return cast.permute
                   ? c.make(Op::Permute, std::span(&cast.from, 1), c.attrs_of(*cast.permute).structural)
                   : cast.from;
    };
    const ValueId operands[] = {narrow(lhs), narrow(rhs)};
    return c.make(Op::Dot, operands, c.attrs.structural);
}

// ---- views

ValueId view_same(const Candidate &c) {
    return c.same_type(c.operand());
}
ValueId reshape_reshape(const Candidate &c) {
    const Node *inner = c.made_by(c.operand(), Op::Reshape);
    return inner ? c.make(Op::Reshape, std::array{c.operand_of(*inner)}, c.attrs.structural) : kNone;
}
ValueId permute_identity(const Candidate &c) {
    const auto axes = c.attrs.ints(attr::kAxes);
    for (size_t k = 0; k < axes.size(); ++k)
        if (axes[k] != static_cast<int64_t>(k))
            return kNone;
    return c.operand();
}
ValueId permute_permute(const Candidate &c) {
    const Node *inner = c.made_by(c.operand(), Op::Permute);
    if (!inner)
        return kNone;
    const auto outer_axes = c.attrs.ints(attr::kAxes), inner_axes = c.attrs_of(*inner).ints(attr::kAxes);
    std::vector<int64_t> words{static_cast<int64_t>(outer_axes.size())};
    for (int64_t axis : outer_axes)
        words.push_back(inner_axes[static_cast<size_t>(axis)]);
    return c.make(Op::Permute, std::array{c.operand_of(*inner)}, words);
}
ValueId broadcast_broadcast(const Candidate &c) {
    const Node *inner = c.made_by(c.operand(), Op::Broadcast);
    return inner ? c.make(Op::Broadcast, std::array{c.operand_of(*inner)}, c.attrs.structural) : kNone;
}
/// A slice of the operand's size with steps of one starts at zero, whatever the runtime words say: they are
/// in range.
ValueId slice_whole(const Candidate &c) {
    const auto steps = c.attrs.ints(attr::kSliceSteps);
    return std::ranges::all_of(steps, [](int64_t s) { return s == 1; }) ? c.same_type(c.operand()) : kNone;
}
ValueId update_whole(const Candidate &c) {
    const auto steps = c.attrs.ints(attr::kUpdateSteps);
    return std::ranges::all_of(steps, [](int64_t s) { return s == 1; }) ? c.same_type(c.operand(1)) : kNone;
}
/// No kernel would run for it, by which a failure of the operand could be passed on.
ValueId update_nothing(const Candidate &c) {
    return c.type_of(c.operand(1)).numel() == 0 ? c.operand() : kNone;
}
ValueId flip_units(const Candidate &c) {
    const Shape &shape = c.operand_type().shape;
    const auto axes = c.attrs.ints(attr::kAxes);
    return std::ranges::all_of(axes, [&](int64_t axis) { return shape[static_cast<int>(axis)] <= 1; })
               ? c.operand()
               : kNone;
}
ValueId flip_flip(const Candidate &c) {
    const Node *inner = c.made_by(c.operand(), Op::Flip);
    return inner && std::ranges::is_permutation(c.attrs.ints(attr::kAxes),
                                                c.attrs_of(*inner).ints(attr::kAxes))
               ? c.operand_of(*inner)
               : kNone;
}
ValueId pad_nothing(const Candidate &c) {
    return c.same_type(c.operand());
}
ValueId concat_one(const Candidate &c) {
    return c.operands.size() == 1 ? c.operand() : kNone;
}
ValueId concat_empty(const Candidate &c) {
    std::vector<ValueId> filled;
    for (ValueId v : c.operands)
        if (c.type_of(v).numel() != 0)
            filled.push_back(v);
    if (filled.empty() || filled.size() == c.operands.size())
        return kNone;
    return c.make(Op::Concat, filled, c.attrs.structural);
}
ValueId transfer_home(const Candidate &c) {
    return c.same_type(c.operand());
}

// ---- reductions

/// Over axes of extent one there is nothing to add up: the identities leave every value alone.
ValueId reduce_units(const Candidate &c) {
    const Shape &shape = c.operand_type().shape;
    for (int64_t axis : c.attrs.ints(attr::kAxes))
        if (shape[static_cast<int>(axis)] != 1)
            return kNone;
    const TensorType result = c.result_type();
    if (result.dtype != c.operand_type().dtype)
        return kNone;
    std::vector<int64_t> words{result.shape.rank()};
    words.insert(words.end(), result.shape.begin(), result.shape.end());
    return c.make(Op::Reshape, std::array{c.operand()}, words);
}

// ---- literals

ValueId fold(const Candidate &c) {
    std::array<LiteralValue, 2> values;
    if (c.operands.empty() || c.operands.size() > values.size())
        return kNone;
    for (size_t k = 0; k < c.operands.size(); ++k) {
        const auto literal = c.literal(c.operand(k));
        if (!literal)
            return kNone;
        values[k] = *literal;
    }
    const TensorType type = c.result_type();
    const auto word = fold_literals(c.op(), type.dtype, std::span(values).first(c.operands.size()));
    return word ? c.make_literal(type, *word) : kNone;
}
/// Every element of a literal is the same, wherever a view puts it.
ValueId view_of_literal(const Candidate &c) {
    const auto literal = c.literal(c.operand());
    if (!literal)
        return kNone;
    return c.make_literal(c.result_type(),
                          is_float(literal->dtype) ? scalar_word(literal->real) : literal->integer);
}

constexpr Rule kRules[] = {
    // literals among themselves
    {"fold-arithmetic", Op::Add, fold},
    {"fold-arithmetic", Op::Sub, fold},
    {"fold-arithmetic", Op::Mul, fold},
    {"fold-arithmetic", Op::Div, fold},
    {"fold-arithmetic", Op::Neg, fold},
    {"fold-arithmetic", Op::Abs, fold},
    {"fold-arithmetic", Op::Sqrt, fold},
    {"fold-arithmetic", Op::Minimum, fold},
    {"fold-arithmetic", Op::Maximum, fold},
    {"fold-rounding", Op::Floor, fold},
    {"fold-rounding", Op::Ceil, fold},
    {"fold-rounding", Op::Round, fold},
    {"fold-rounding", Op::Trunc, fold},
    {"fold-comparison", Op::Eq, fold},
    {"fold-comparison", Op::Ne, fold},
    {"fold-comparison", Op::Lt, fold},
    {"fold-comparison", Op::Le, fold},
    {"fold-comparison", Op::Gt, fold},
    {"fold-comparison", Op::Ge, fold},
    {"fold-bits", Op::And, fold},
    {"fold-bits", Op::Or, fold},
    {"fold-bits", Op::Xor, fold},
    {"fold-bits", Op::Not, fold},
    {"fold-cast", Op::Cast, fold},
    {"view-of-literal", Op::Reshape, view_of_literal},
    {"view-of-literal", Op::Permute, view_of_literal},
    {"view-of-literal", Op::Broadcast, view_of_literal},
    {"view-of-literal", Op::Slice, view_of_literal},
    {"view-of-literal", Op::Flip, view_of_literal},
    {"view-of-literal", Op::Window, view_of_literal},
    {"view-of-literal", Op::Transfer, view_of_literal},
    // arithmetic
    {"mul-one", Op::Mul, mul_one},                       // x * 1 -> x
    {"div-one", Op::Div, div_one},                       // x / 1 -> x
    {"div-power-of-two", Op::Div, div_power_of_two},     // x / 4.0 -> x * 0.25
    {"add-zero", Op::Add, add_zero},                     // x + -0.0 -> x, i + 0 -> i
    {"sub-zero", Op::Sub, sub_zero},                     // x - 0.0 -> x
    {"integer-zero-sub", Op::Sub, integer_zero_sub},     // 0 - i -> neg i
    {"minimum-infinity", Op::Minimum, minimum_infinity}, // minimum(x, inf) -> x
    {"maximum-infinity", Op::Maximum, maximum_infinity}, // maximum(x, -inf) -> x
    {"minimum-same", Op::Minimum, same_operands},
    {"maximum-same", Op::Maximum, same_operands},
    {"or-zero", Op::Or, or_zero}, // i | 0 -> i
    {"xor-zero", Op::Xor, or_zero},
    {"and-ones", Op::And, and_ones}, // i & -1 -> i
    {"and-same", Op::And, same_operands},
    {"or-same", Op::Or, same_operands},
    {"shift-zero", Op::Shl, shift_zero},
    {"shift-zero", Op::Shr, shift_zero},
    {"pow-one", Op::Pow, pow_one},
    {"pow-two", Op::Pow, pow_two}, // pow(x, 2) -> x * x
    {"neg-neg", Op::Neg, undo},
    {"not-not", Op::Not, undo},
    {"abs-abs", Op::Abs, repeat},
    {"abs-neg", Op::Abs, abs_neg}, // abs(neg x) -> abs x
    // selection and truth
    {"select-literal", Op::Select, select_literal},
    {"select-not", Op::Select, select_not}, // select(not c, x, y) -> select(c, y, x)
    {"eq-true", Op::Eq, compare_truth<1>},
    {"ne-false", Op::Ne, compare_truth<0>},
    // casts
    {"cast-same", Op::Cast, cast_same},
    {"cast-cast", Op::Cast, cast_cast},
    // products
    {"dot-casts", Op::Dot, dot_casts}, // dot(i32 of i8, i32 of i8) -> dot(i8, i8), summed in i32
    // views
    {"reshape-same", Op::Reshape, view_same},
    {"reshape-reshape", Op::Reshape, reshape_reshape},
    {"permute-identity", Op::Permute, permute_identity},
    {"permute-permute", Op::Permute, permute_permute},
    {"broadcast-same", Op::Broadcast, view_same},
    {"broadcast-broadcast", Op::Broadcast, broadcast_broadcast},
    {"slice-whole", Op::Slice, slice_whole},
    {"update-whole", Op::UpdateSlice, update_whole},
    {"update-nothing", Op::UpdateSlice, update_nothing}, // of a part without elements
    {"flip-units", Op::Flip, flip_units},
    {"flip-flip", Op::Flip, flip_flip},
    {"pad-nothing", Op::Pad, pad_nothing},
    {"concat-one", Op::Concat, concat_one},
    {"concat-empty", Op::Concat, concat_empty},
    {"transfer-home", Op::Transfer, transfer_home},
    // reductions
    {"reduce-units", Op::ReduceSum, reduce_units},
    {"reduce-units", Op::ReduceProd, reduce_units},
    {"reduce-units", Op::ReduceMax, reduce_units},
    {"reduce-units", Op::ReduceMin, reduce_units},
};

} // namespace

std::span<const Rule> simplify_rules() {
    return kRules;
}

} // namespace lz::passes
