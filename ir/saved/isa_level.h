#pragma once
/// What the machine code in a saved program asks of a processor.

#include <cstdint>
#include <string_view>

namespace lz::ir {

/// Each asks for what those before it ask for, and more.
enum class IsaLevel : uint8_t {
    V3,     ///< x86-64-v3: AVX2, FMA, F16C
    V4,     ///< x86-64-v4: AVX-512 F, BW, CD, DQ, VL
    V4Bf16, ///< and products of bf16 (AVX512_BF16)
    V4Amx,  ///< and tiles of bf16 and of bytes (AMX-TILE, AMX-BF16, AMX-INT8)
};
inline constexpr uint8_t kIsaLevels = 4;

/// `x86-64-v4+amx`, as files and messages spell it.
std::string_view name(IsaLevel level);
/// Whether this processor runs code of that level. False on all that are no x86-64. Any thread.
bool runs_here(IsaLevel level);

} // namespace lz::ir
