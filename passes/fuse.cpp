#include "passes/fuse.h"

#include "passes/fuse_partition.h"

namespace lz::passes {

ir::Graph fuse(const ir::Graph &graph, const ir::Target &target, FusionNotes *notes) {
    const size_t known = notes ? notes->kept_apart.size() : 0;
    const Partition partition =
        target.modes.fuse ? partition_fused(graph, target, notes) : partition_single(graph);
    std::vector<ir::NodeId> node_of;
    ir::Graph fused = rebuild(graph, partition, target.modes.fuse, node_of);
    if (notes)
        for (size_t i = known; i < notes->kept_apart.size(); ++i) {
            FusionNote &note = notes->kept_apart[i];
            note.producer = node_of[note.producer];
            note.consumer = node_of[note.consumer];
        }
    return fused;
}

} // namespace lz::passes
