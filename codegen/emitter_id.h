#pragma once

#include <string_view>

namespace lz::codegen {

/// A hash of the sources that decide which code is made of a kernel (cmake/hash_emitter.cmake), 16
/// hexadecimal digits: keys of kernels on disk hold it, so that none is run that another emitter made.
std::string_view emitter_id();

} // namespace lz::codegen
