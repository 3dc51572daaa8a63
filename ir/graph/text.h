#pragma once
/// What the printer and the parser of Graph IR share. Internal to `ir/graph_*.cpp`.

#include "ir/graph/graph.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lz::ir {

/// Attributes that the text does not repeat because the type after the colon says them.
enum class Implied : uint8_t { No, DType, Shape, Device, Results };
Implied implied(const OpInfo &row, const AttrInfo &attr);

/// Number printed after `%` of each value that is not a parameter, and after `!` of each node without
/// results.
std::vector<uint32_t> value_numbers(const Graph &graph);
std::vector<uint32_t> effect_numbers(const Graph &graph);

/// Longest list of elements that is printed as decimal numbers; longer ones are hexadecimal.
inline constexpr int64_t kMaxListed = 16;
/// The elements as `[1, 2.5]`, or an empty string where numbers would not say all bits (other NaNs than the
/// usual one, bools that are neither 0 nor 1).
std::string listed_elements(DType dtype, std::span<const std::byte> bytes);

} // namespace lz::ir
