#pragma once
/// Bits of words in a recording's key.

#include "ir/types/dtype.h"

#include <cstdint>

namespace lz::detail {

// The low byte of what is no operation.
inline constexpr uint64_t kInputTag = 0xff, kArgumentTag = 0xfe, kOverwrittenTag = 0xfd,
                          kKeptTag = 0xfc; // an input's number follows
inline constexpr uint64_t kProjectionBit = uint64_t{1} << 8, kWantedBit = uint64_t{1} << 15;
inline constexpr uint64_t kDonatedBit = uint64_t{1} << 63;

/// An element as the runtime word of a constant (ir/op.h).
int64_t word_of_element(const void *memory, ir::DType dtype);

} // namespace lz::detail
