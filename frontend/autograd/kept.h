#pragma once
/// What the operations behind a tensor keep for backward.

#include <string>

namespace lz {
class Tensor;
}

namespace lz::detail {

/// For `explain`: bytes of the values that are kept until backward has come by, and which lines keep them, a
/// sentence a line, the most first. Not counted are leaves and what has no history: they are there in any
/// case. Empty where nothing is kept.
std::string explain_kept(const Tensor &tensor);

} // namespace lz::detail
