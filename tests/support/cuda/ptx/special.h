#pragma once
/// The numbers that each thread has by itself: %tid.x, %laneid ...

#include <cstdint>
#include <optional>
#include <string_view>

namespace lz::ptx {

/// Which of them a name is; nothing if it is none of those that the interpreter knows.
std::optional<uint32_t> special_number(std::string_view name);

} // namespace lz::ptx
