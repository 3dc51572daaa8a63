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
    kCount
};
constexpr std::array<std::string_view, kCount> kNames{"%tid.x",       "%tid.y",       "%tid.z",
                                                      "%ntid.x",      "%ntid.y",      "%ntid.z",
                                                      "%ctaid.x",     "%ctaid.y",     "%ctaid.z",
                                                      "%nctaid.x",    "%nctaid.y",    "%nctaid.z",
                                                      "%laneid",      "%warpid",      "%nwarpid",
                                                      "%lanemask_eq", "%lanemask_lt", "%lanemask_le",
                                                      "%lanemask_gt", "%lanemask_ge", "%dynamic_smem_size"};

uint32_t value(uint32_t which, uint32_t warp, uint32_t lane, const Launch &l, Dim block) {
    const uint32_t thread = warp * kWarpSize + lane;
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
