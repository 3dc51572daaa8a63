#pragma once
/// Names in the text form of Kernel IR that are not in a table of their own. Printer and parser share them.

#include "ir/kernel/kernel.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lz::ir {

class TextScanner;

inline constexpr std::array<std::string_view, 5> kArgRoles = {"extent", "stride", "offset", "block", "other"};
inline constexpr std::array<std::string_view, 5> kBufferModes = {"in", "out", "inout", "temp", "worker"};
inline constexpr std::array<std::string_view, 6> kReduceOps = {"add", "mul",    "max",
                                                               "min", "argmax", "argmin"};
inline constexpr std::array<std::string_view, 2> kLoopOrders = {"lanes", "sequential"};
inline constexpr std::array<std::string_view, 2> kInnerTiers = {"tiny", "any"};
inline constexpr std::array<std::string_view, 2> kStoreTiers = {"cached", "streaming"};
inline constexpr std::array<std::string_view, 4> kCudaShapes = {"points", "rows", "tiles", "product"};
inline constexpr std::array<std::string_view, 3> kRowTiers = {"memory", "shared", "registers"};
inline constexpr std::array<std::string_view, 4> kSegmentTiers = {"one", "table", "large", "memory"};

/// A constant in storage format as text: `1.5`, `-inf`, `nan`, `true`; `0x7fc00001` for other NaNs.
std::string constant_text(DType dtype, uint64_t bits);

/// The block of a kernel without header, each line after `indent` spaces.
std::string print_kernel_block(const Kernel &kernel, int indent, bool sources);

/// Reads such a block, from the word `kernel` on.
Kernel parse_kernel_block(TextScanner &scanner);

} // namespace lz::ir
