#pragma once
/// simplify: algebra, constants and view composition, by a table of rules (rules.cpp).
///
/// Property: no rule of the table applies anywhere. No rule changes a bit of any result (S29), NaN, signed
/// zeros and infinities included. Only literals are visible as numbers: a `constant` is the user's, its value
/// may be another when the Program runs again, so no rule looks at it.
///
/// Without it the frontend's compositions (a mean is a sum times a literal, a transpose of a transpose) would
/// cost what they spell out, and `eliminate_common` would take different spellings for different values. It
/// stands after the device passes, whose errors name operations as the user wrote them, and before
/// `eliminate_common`. What the user put on a stream of a GPU becomes no value that was made elsewhere: it is
/// work of that stream (S41), and stays, unless it is a view that nobody holds.

#include "ir/graph/graph.h"

#include <span>
#include <string_view>
#include <vector>

namespace lz::passes {

/// Gives the graph back as it is when no rule applies. Linear in the size of the graph: nodes are visited
/// once, in order, and a node that a rule makes is simplified as it is made. `recycled`: as
/// PassContext::recycled.
ir::Graph simplify(ir::Graph graph, ir::Graph *recycled = nullptr);

/// Names of all rules, in the order in which they are tried: each has a test of this name.
std::vector<std::string_view> simplify_rule_names();

} // namespace lz::passes
