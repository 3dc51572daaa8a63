#pragma once
/// Nodes with the same runtime words, whatever these are in another run.

#include "ir/graph/graph.h"

#include <span>

namespace lz::ir {

/// `node` has the words of `with`, an earlier node.
struct SharedWords {
    NodeId node, with;
};

/// The same graph, in which these nodes have the words of others (Node::runtime_begin): what a part's update
/// writes is then known to be what the slice with the same words reads. Positions of words stay what they
/// were. Throws Failure(Internal) unless the words are equal.
Graph share_words(Graph graph, std::span<const SharedWords> shared);

} // namespace lz::ir
