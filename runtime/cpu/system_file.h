#pragma once
/// Files in which the system says something.

#include <string>

namespace lz::runtime {

/// What a file of /proc, /sys or the like says, up to 64 KiB; empty where it cannot be read. In a small
/// fraction of the time that a stream of the C++ library needs for it.
std::string read_system_file(const std::string &path);

} // namespace lz::runtime
