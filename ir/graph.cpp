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

const char *Graph::intern(std::string_view file) {
    if (!files_)
        files_ = std::make_shared<FilePool>();
    const std::lock_guard lock(files_->mutex);
    return files_->names.emplace(file).first->c_str();
}

void Graph::share_files(const Graph &from) {
    if (!files_)
        files_ = from.files_;
}

} // namespace lz::ir
