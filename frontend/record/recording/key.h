#pragma once
/// Bits of words in a recording's key.

#include <cstdint>

namespace lz::detail {

// The low byte of what is no operation.
inline constexpr uint64_t kInputTag = 0xff, kArgumentTag = 0xfe, kOverwrittenTag = 0xfd;
inline constexpr uint64_t kProjectionBit = uint64_t{1} << 8, kWantedBit = uint64_t{1} << 15;
inline constexpr uint64_t kDonatedBit = uint64_t{1} << 63;

} // namespace lz::detail
