#include "ir/graph.h"

#include <iterator>

namespace lz::ir {

namespace {
// In the order of ClusterKind.
constexpr std::string_view kClusterNames[] = {"loop", "row",     "reduce", "contraction", "scan",
                                              "sort", "scatter", "call",   "transfer",    "effect"};
static_assert(std::size(kClusterNames) == static_cast<size_t>(ClusterKind::Effect) + 1);
} // namespace

std::string_view name(ClusterKind kind) {
    return kClusterNames[static_cast<size_t>(kind)];
}

} // namespace lz::ir
