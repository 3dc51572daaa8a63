#pragma once
/// Numbers in the sentences that users read.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lz::ir {

/// `4096 bytes`, `12.0 KiB`.
std::string bytes_text(int64_t bytes);
/// `1 kernel`, `2 kernels`.
std::string plural(size_t n, std::string_view noun);

} // namespace lz::ir
