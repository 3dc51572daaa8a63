#pragma once
/// Device functions that emitted kernels call, as text.

#include <string>
#include <string_view>

namespace lz::codegen::cuda {

/// The functions that a text calls, and those that these call, in an order in which they compile.
std::string prelude_for(std::string_view text);

/// Whether a text has a word of C++ in it.
bool uses(std::string_view text, std::string_view word);

} // namespace lz::codegen::cuda
