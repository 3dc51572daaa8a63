#pragma once

#include <string_view>

namespace lz::codegen {

/// A hash of what decides which code is made of a kernel, its sources and the sanitizer of the build
/// (cmake/hash_emitter.cmake), 16 hexadecimal digits: keys of kernels on disk hold it, so that none is run
/// that another emitter made.
std::string_view emitter_id();

} // namespace lz::codegen
