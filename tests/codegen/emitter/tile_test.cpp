#include "ir/kernel/builder.h"
#include "tests/support/kernel_run.h"

#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

/// out[r, c] = turned[c, r] + straight[r, c], where rows of `out` and `straight` lie `stride` apart.
Launch transpose_and_add(DType t, int64_t rows, int64_t columns, int64_t stride, int64_t block,
                         StoreTier stores) {
    KernelBuilder b;
    const AxisId batch = b.axis(), r = b.axis(), c = b.axis();
    const ArgId turned_row = b.arg(ArgRole::Stride), row = b.arg(ArgRole::Stride),
                plane = b.arg(ArgRole::Stride);
    const ArgId tile = b.arg(ArgRole::Block), across = b.arg(ArgRole::Block);
    const uint16_t turned = b.buffer(t, BufferMode::In), straight = b.buffer(t, BufferMode::In);
    const uint16_t out = b.buffer(t, BufferMode::Out);
    Phase &phase = b.begin_phase({batch, r, c}, true);
    phase.on_cpu().block = tile;
    phase.on_cpu().tile_axis = r;
    phase.on_cpu().tile_block = across;
    phase.on_cpu().stores = stores;
    const auto at = [&](uint16_t buffer) {
        return Access{buffer,
                      kNoArg,
                      {{batch, StrideClass::Strided, plane},
                       {r, StrideClass::Strided, row},
                       {c, StrideClass::Contiguous, kNoArg}},
                      {},
                      kNoValue};
    };
    const KValue x = b.load({turned,
                             kNoArg,
                             {{batch, StrideClass::Strided, plane},
                              {r, StrideClass::Contiguous, kNoArg},
                              {c, StrideClass::Strided, turned_row}},
                             {},
                             kNoValue});
    const KValue y = b.load(at(straight));
    b.store(at(out), t == DType::Bool ? b.bit_xor(x, y) : is_half(t) ? x : b.add(x, y));
    b.end_phase();
    const int64_t size = std::max(rows * stride, columns * (rows + 3)) + 8;
    return {b.take(),
            {2, rows, columns, rows + 3, stride, size, block, block},
            {},
            {2 * size, 2 * size, 2 * size},
            0};
}

TEST(EmitterTile, TransposedOperandsGiveTheInterpretersBitsAtEveryShape) {
    for (const auto &[rows, columns] : {std::pair{1, 1}, {16, 16}, {17, 64}, {64, 64}, {40, 200}, {130, 70}})
        for (const StoreTier stores : {StoreTier::Cached, StoreTier::Streaming})
            expect_equal(transpose_and_add(DType::F32, rows, columns, columns, 64, stores), "transpose");
}

/// Fewer rows or columns than a register has lanes, as the channels of images are.
TEST(EmitterTile, NarrowOperandsAreNothingButEdges) {
    for (const int64_t few : {1, 3, 7, 10})
        for (const int64_t many : {8, 101})
            for (const InnerTier inner : {InnerTier::Any, InnerTier::Tiny}) {
                const DType t = few % 2 == 0 ? DType::F64 : few == 7 ? DType::U8 : DType::F32;
                Launch narrow = transpose_and_add(t, many, few, few + 1, 64, StoreTier::Cached),
                       low = transpose_and_add(t, few, many, many + 3, 64, StoreTier::Cached);
                narrow.kernel.phases[0].on_cpu().inner = inner;
                expect_equal(narrow, "few columns");
                expect_equal(low, "few rows");
            }
}

TEST(EmitterTile, StreamingStoresMayBeUnaligned) {
    expect_equal(transpose_and_add(DType::F32, 40, 130, 137, 64, StoreTier::Streaming), "unaligned rows");
    expect_equal(transpose_and_add(DType::F32, 40, 130, 144, 64, StoreTier::Streaming), "aligned rows");
}

TEST(EmitterTile, EveryDtypeIsTransposed) {
    for (int t = 0; t < kNumDTypes; ++t)
        expect_equal(transpose_and_add(static_cast<DType>(t), 70, 140, 141, 64, StoreTier::Cached),
                     std::string(name(static_cast<DType>(t))));
}

} // namespace
} // namespace lz::test
