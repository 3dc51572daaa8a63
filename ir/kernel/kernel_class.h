#pragma once
/// The closed list of what a kernel is specialised on besides its body. Everything else (extents, strides,
/// offsets, scalars, block sizes) is an argument, so sizes within one class share one compiled kernel.

#include <cstdint>
#include <string_view>

namespace lz::ir {

/// How an operand moves along one axis.
enum class StrideClass : uint8_t {
    Broadcast,  ///< stride 0
    Contiguous, ///< stride 1
    Reversed,   ///< stride -1, an argument too; along the vectorised axis alone
    Strided,    ///< stride is an argument
};

/// Tier of the extent of the vectorised axis.
enum class InnerTier : uint8_t {
    Tiny, ///< 2 to 16
    Any,  ///< everything else; tails are masks
};
constexpr InnerTier inner_tier(int64_t extent) {
    return extent <= 16 && extent > 1 ? InnerTier::Tiny : InnerTier::Any;
}

std::string_view name(StrideClass c);
std::string_view name(InnerTier t);

} // namespace lz::ir
