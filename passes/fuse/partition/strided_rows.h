#pragma once
/// Permutes that rows of several passes read.

#include "ir/graph/graph.h"
#include "ir/target.h"

#include <vector>

namespace lz::passes {

/// By node: permutes whose result is stored, although they cost nothing inside another kernel. A kernel of
/// rows that is not done with a row at its reduction (softmax, layer norm) reads each row again; where a
/// permute has put the elements of a row apart in memory, each pass then moves a cache line, or a sector of a
/// GPU's, for one element of it. A transpose in tiles and rows that are dense move less. What the device
/// finds in its nearest caches stays as it is (RowLimits::least_permuted).
std::vector<bool> permutes_below_rows(const ir::Graph &graph, const ir::Target &target);

} // namespace lz::passes
