#include "tests/support/cuda/ptx/special.h"

#include "tests/support/cuda/ptx/warp.h"

#include <array>

namespace lz::ptx {
namespace {

enum Special : uint32_t {
    TidX,
    TidY,
    TidZ,
    NtidX,
    NtidY,
    NtidZ,
    CtaidX,
    CtaidY,
    CtaidZ,
    NctaidX,
    NctaidY,
    NctaidZ,
    Lane,
    WarpIndex,
    Warps,
    LanesEqual,
    LanesLess,
    LanesLessEqual,
    LanesGreater,
    LanesGreaterEqual,
    DynamicShared,
    ClusterRank,
    ClusterBlocks,
    ClusterCtaidX,
    ClusterCtaidY,
    ClusterCtaidZ,
    ClusterNctaidX,
    ClusterNctaidY,
    ClusterNctaidZ,
    ClusteridX,
    ClusteridY,
    ClusteridZ,
    NclusteridX,
    NclusteridY,
    NclusteridZ,
    kCount
};
constexpr std::array<std::string_view, kCount> kNames{"%tid.x",
                                                      "%tid.y",
                                                      "%tid.z",
                                                      "%ntid.x",
                                                      "%ntid.y",
                                                      "%ntid.z",
                                                      "%ctaid.x",
                                                      "%ctaid.y",
                                                      "%ctaid.z",
                                                      "%nctaid.x",
                                                      "%nctaid.y",
                                                      "%nctaid.z",
                                                      "%laneid",
                                                      "%warpid",
                                                      "%nwarpid",
                                                      "%lanemask_eq",
                                                      "%lanemask_lt",
                                                      "%lanemask_le",
                                                      "%lanemask_gt",
                                                      "%lanemask_ge",
                                                      "%dynamic_smem_size",
                                                      "%cluster_ctarank",
                                                      "%cluster_nctarank",
                                                      "%cluster_ctaid.x",
                                                      "%cluster_ctaid.y",
                                                      "%cluster_ctaid.z",
                                                      "%cluster_nctaid.x",
                                                      "%cluster_nctaid.y",
                                                      "%cluster_nctaid.z",
                                                      "%clusterid.x",
                                                      "%clusterid.y",
                                                      "%clusterid.z",
                                                      "%nclusterid.x",
                                                      "%nclusterid.y",
                                                      "%nclusterid.z"};

uint32_t value(uint32_t which, uint32_t warp, uint32_t lane, const Launch &l, Dim block) {
    const uint32_t thread = warp * kWarpSize + lane;
    const Dim c = l.cluster;
    switch (which) {
    case TidX:
        return thread % l.block.x;
    case TidY:
        return thread / l.block.x % l.block.y;
    case TidZ:
        return thread / l.block.x / l.block.y;
    case NtidX:
        return l.block.x;
    case NtidY:
        return l.block.y;
    case NtidZ:
        return l.block.z;
    case CtaidX:
        return block.x;
    case CtaidY:
        return block.y;
    case CtaidZ:
        return block.z;
    case NctaidX:
        return l.grid.x;
    case NctaidY:
        return l.grid.y;
    case NctaidZ:
        return l.grid.z;
    case Lane:
        return lane;
    case WarpIndex:
        return warp;
    case Warps:
        return static_cast<uint32_t>((l.block.count() + kWarpSize - 1) / kWarpSize);
    case LanesEqual:
        return 1u << lane;
    case LanesLess:
        return (1u << lane) - 1;
    case LanesLessEqual:
        return (2u << lane) - 1;
    case LanesGreater:
        return ~((2u << lane) - 1);
    case LanesGreaterEqual:
        return ~((1u << lane) - 1);
    case ClusterRank:
        return block.x % c.x + (block.y % c.y + block.z % c.z * c.y) * c.x;
    case ClusterBlocks:
        return static_cast<uint32_t>(c.count());
    case ClusterCtaidX:
        return block.x % c.x;
    case ClusterCtaidY:
        return block.y % c.y;
    case ClusterCtaidZ:
        return block.z % c.z;
    case ClusterNctaidX:
        return c.x;
    case ClusterNctaidY:
        return c.y;
    case ClusterNctaidZ:
        return c.z;
    case ClusteridX:
        return block.x / c.x;
    case ClusteridY:
        return block.y / c.y;
    case ClusteridZ:
        return block.z / c.z;
    case NclusteridX:
        return l.grid.x / c.x;
    case NclusteridY:
        return l.grid.y / c.y;
    case NclusteridZ:
        return l.grid.z / c.z;
    default:
        return l.dynamic_shared;
    }
}

} // namespace

std::optional<uint32_t> special_number(std::string_view name) {
    for (uint32_t i = 0; i < kCount; ++i)
        if (kNames[i] == name)
            return i;
    return std::nullopt;
}

void set_special(Warp &w, const Operand &to, uint32_t which, const Launch &launch, Dim block) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane)
        w.lanes<uint32_t>(to)[lane] = value(which, w.index, lane, launch, block);
}

} // namespace lz::ptx
