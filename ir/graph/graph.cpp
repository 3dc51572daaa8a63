#include "ir/graph/graph.h"

#include <iterator>

namespace lz::ir {

namespace {
// In the order of ClusterKind.
constexpr std::string_view kClusterNames[] = {"loop", "row",     "reduce", "contraction", "scan",
                                              "sort", "scatter", "call",   "transfer",    "effect"};
static_assert(std::size(kClusterNames) == static_cast<size_t>(ClusterKind::Effect) + 1);
// In the order of TransferCause.
constexpr std::string_view kCauseNames[] = {"user", "scalar", "peer", "side", "return"};
static_assert(std::size(kCauseNames) == static_cast<size_t>(TransferCause::Return) + 1);
} // namespace

std::string_view name(TransferCause cause) {
    return kCauseNames[static_cast<size_t>(cause)];
}

std::string_view name(ClusterKind kind) {
    return kClusterNames[static_cast<size_t>(kind)];
}

} // namespace lz::ir
