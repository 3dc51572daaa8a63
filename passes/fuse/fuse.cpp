#include "passes/fuse/fuse.h"

#include "passes/fuse/effects.h"
#include "passes/fuse/partition/partition.h"
#include "passes/fuse/partition/single.h"
#include "passes/fuse/products.h"
#include "passes/fuse/rebuild.h"
#include "passes/fuse/short_axes.h"
#include "passes/simplify/rewrite.h"

namespace lz::passes {

ir::Graph fuse(ir::Graph recorded, const ir::Target &target, FusionNotes *notes, ir::Graph *recycled) {
    const std::optional<ir::Graph> unrolled =
        target.modes.fuse ? unroll_short_axes(recorded, target) : std::nullopt;
    const ir::Graph &short_axes = unrolled ? *unrolled : recorded;
    const std::optional<ir::Graph> prepared = prepare_products(short_axes, target);
    const ir::Graph &products = prepared ? *prepared : short_axes;
    const std::optional<ir::Graph> ordered = order_effects(products);
    const ir::Graph &graph = ordered ? *ordered : products;
    const size_t known = notes ? notes->kept_apart.size() : 0;
    const Partition partition =
        target.modes.fuse ? partition_fused(graph, target, notes) : partition_single(graph, target);
    std::vector<ir::NodeId> node_of;
    ir::Graph fused = remade(recorded, recycled, [&](ir::Graph memory) {
        return rebuild(graph, partition, target, node_of, std::move(memory));
    });
    if (notes)
        for (size_t i = known; i < notes->kept_apart.size(); ++i) {
            FusionNote &note = notes->kept_apart[i];
            note.producer = node_of[note.producer];
            note.consumer = node_of[note.consumer];
        }
    return fused;
}

} // namespace lz::passes
