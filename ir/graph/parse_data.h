#pragma once
/// The data of a parameter in the text of a graph.

#include "ir/graph/graph.h"

namespace lz::ir {

class TextScanner;

/// Reads `random(seed)` or `dense<...>`, what stands behind a parameter's `=`, into `param`, which is of this
/// type. Throws what the scanner throws where the text has something else, or not as many elements.
void parse_data(TextScanner &scanner, const TensorType &type, Param &param);

} // namespace lz::ir
