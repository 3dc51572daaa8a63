#pragma once
/// order_steps: an order of the steps in which fewer bytes are alive at once.
///
/// Property: the steps of a Program on one device stand in an order that keeps every dependence, and in which
/// the most bytes of intermediates that are alive at a time are no more than in the order in which they were
/// recorded. That order is kept where another one saves less than a sixty-fourth part, or fewer bytes than
/// least_alive are alive.
///
/// Without it a value that backward makes from much and reads late, or one that is made early and could be
/// made late (a mask, a gradient of a bias), is there at the worst moment: what a training step needs is then
/// decided by the order in which rules of gradients happen to record their parts.
///
/// It stands after `lower_clusters`, which knows what is stored, and before `assign_streams`, to whose
/// streams the order is that of their steps. What the user ordered by streams and effects stays as it is; so
/// do Programs of several devices, whose copies are issued early to overlap; and steps that can fail keep
/// their order, so that of several failures the one of the first line is told.

#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/streams/dependences.h"

namespace lz::passes {

/// Takes and leaves a Program at Stage::Lowered. Whether the order has changed, and with it the dependences.
/// O(n log n) in the number of operands.
bool order_steps(ir::Program &program, const Dependences &dependences, const ir::Target &target);

} // namespace lz::passes
