#include "passes/fuse.h"

#include "passes/fuse_effects.h"
#include "passes/fuse_partition.h"
#include "passes/fuse_products.h"

namespace lz::passes {

ir::Graph fuse(const ir::Graph &recorded, const ir::Target &target, FusionNotes *notes) {
    const std::optional<ir::Graph> permuted = permute_operands(recorded);
    const std::optional<ir::Graph> ordered = order_effects(permuted ? *permuted : recorded);
    const ir::Graph &graph = ordered ? *ordered : permuted ? *permuted : recorded;
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
