#pragma once
/// What a library's product may do with its result before it stores it.

#include "ir/graph/graph.h"

#include <functional>
#include <optional>

namespace lz::passes {

/// Bits of the last integer of the library's function `dot`.
enum Epilogue : int {
    kNoEpilogue = 0,
    kEpilogueRelu = 1, ///< the larger of the value and 0
    kEpilogueBias = 2, ///< plus a vector along the columns, before anything else
    kEpilogueGelu = 4, ///< the approximation by tanh, for gelu by erf, too
};

struct ProductEpilogue {
    int64_t what = kNoEpilogue; ///< of Epilogue
    ir::ValueId bias = ir::kNone;
    int nodes = 0; ///< that it stands for: operations, not views and makers
};

/// How `stored` is made of the product, if a library can make all of it. `inside`: whether a value is
/// computed here; what is not is read from memory. Only what keeps the bits: a product is rounded when it is
/// stored, so that a bias is added to f32 alone, and an approximation is not what the user wrote; under
/// `fast_math` both are. Of f64 the library has none.
std::optional<ProductEpilogue> product_epilogue(const ir::Graph &graph, const ir::Node &dot,
                                                ir::ValueId stored,
                                                const std::function<bool(ir::ValueId)> &inside,
                                                bool fast_math);

} // namespace lz::passes
