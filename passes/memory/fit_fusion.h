#pragma once
/// fit_fusion: gives up fusion where a Program would need more memory than a GPU has.
///
/// Property: if one operation a kernel needs less than the Program that was made, and that is too much, every
/// operation is its own kernel (S52). A kernel needs all its operands at once, so that a program which fits
/// when it is run one operation after the other could otherwise fail with OutOfMemory because it was made
/// fast.
///
/// It is a pair of functions around the passes from `fuse` on: what a Program needs is known at the end,
/// after `plan_memory`, and the graph that is fused otherwise is the one before `fuse`.

#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/target.h"

#include <functional>

namespace lz::passes {

/// Before `fuse`: a copy of the graph if its values together are more than a GPU has, else an empty one.
ir::Graph graph_to_fit(const ir::Graph &graph, const ir::Target &target);

/// Runs the passes from `fuse` on over the graph, which becomes what `fuse` makes of it.
using CompileFused = std::function<ir::Program(ir::Graph &graph, const ir::Target &target)>;

/// After the last pass: `program` is what became of `graph`, `unfused` what `graph_to_fit` gave. Where the
/// Program does not fit, `compile` makes another one without fusion, which takes its place if it needs less.
/// `explained`: it then says why in its notes.
void fit_fusion(ir::Program &program, ir::Graph &graph, ir::Graph unfused, const ir::Target &target,
                bool explained, const CompileFused &compile);

} // namespace lz::passes
