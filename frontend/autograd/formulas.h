#pragma once
/// Gradients that are more than a formula: what the rows of gradients.def call. `call` is the operation,
/// `input` the operand, `g` the gradient of the result.

#include "frontend/autograd/rule_call.h"

namespace lz::detail {

// Elementwise (formulas/elementwise.cpp).
/// y * x^(y-1), and 0 where y is 0.
Value pow_of_base(const Value &g, const Value &x, const Value &y);
/// out * log(x), and 0 where x is 0 and y is not negative.
Value pow_of_exponent(const Value &g, const Value &x, const Value &y, const Value &out);
/// a / (x * x + y * y), and 0 where x and y are.
Value over_squares(const Value &a, const Value &x, const Value &y);

// Views (formulas/views.cpp).
Value permuted_back(const RuleCall &call, const Value &g);
Value flipped(const Value &g, std::span<const int64_t> axes);
/// `sum` with g added to the part that the Slice reads.
Value added_to_slice(const RuleCall &call, const Value &sum, const Value &g);
Value unpadded(const RuleCall &call, size_t input, const Value &g);
/// The sum of g over the padding.
Value padding_of(const RuleCall &call, const Value &g);
/// Words behind the attributes: the operands' extents along the axis.
Value part_of_concat(const RuleCall &call, size_t input, const Value &g);
/// g with zeros in the place of the update. Words behind the attributes: the update's extents.
Value without_slice(const RuleCall &call, const Value &g);
Value updated_slice(const RuleCall &call, const Value &g);

// Reductions and scans (formulas/reductions.cpp).
/// g spread over the axes that were reduced.
Value unreduced(const RuleCall &call, size_t input, const Value &g);
/// g times the product of all others, from both sides, so that zeros are no special case.
Value gradient_of_prod(const RuleCall &call, size_t input, const Value &g, const Value &x);
/// To the elements that equal the extreme, in equal shares.
Value gradient_of_extreme(const RuleCall &call, size_t input, const Value &g, const Value &x,
                          const Value &out);
/// Of each element the sum from it to the end of the axis.
Value summed_from_end(const Value &g, int64_t axis);
/// Right at and behind the first zero, too.
Value gradient_of_cumprod(const RuleCall &call, const Value &g, const Value &x, const Value &out);

// Products, lookups, orders (formulas/lookups.cpp).
Value dot_of_lhs(const RuleCall &call, const Value &g, const Value &rhs);
Value dot_of_rhs(const RuleCall &call, const Value &g, const Value &lhs);
/// `sum` with g added where the Gather read.
Value scattered_into(const RuleCall &call, const Value &sum, const Value &index, const Value &g);
/// `sum` with g added where the parts of the Window lie.
Value added_to_windows(const RuleCall &call, const Value &sum, const Value &g);
/// g where nothing was put (Scatter "put"), or all of it ("add").
Value without_scattered(const RuleCall &call, const Value &g, const Value &index);
/// g where each element of the source went; 0 for one that a later one overwrote.
Value gathered_source(const RuleCall &call, const Value &g, const Value &index);
/// g put back where the sorted elements came from.
Value unsorted(const RuleCall &call, size_t input, const Value &g, const Value &order);
/// Of several gradients that go to one place, their sum.
Value added_to_places(const RuleCall &call, size_t input, const Value &g, const Value &places);

} // namespace lz::detail
