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
    Strided,    ///< stride is an argument
};

std::string_view name(StrideClass c);

} // namespace lz::ir
