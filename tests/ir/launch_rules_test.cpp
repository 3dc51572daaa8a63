/// How a kernel on a CUDA device gets its parameters.

#include "ir/diagnostic.h"
#include "ir/kernel/compiled_kernel.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace lz::ir {
namespace {

struct Frames {
    alignas(16) float memory[2][64] = {};
    std::array<std::array<void *, 2>, 2> buffers;
    std::array<std::array<int64_t, 2>, 2> args = {{{100, -8}, {200, 12}}};
    std::array<std::array<uint64_t, 1>, 2> scalars = {{{0x3f800000}, {0x40000000}}};
    std::array<Fault, 2> faults;
    std::array<KernelFrame, 2> frames;

    Frames() {
        for (size_t s = 0; s < 2; ++s) {
            buffers[s] = {memory[s], memory[s] + 16};
            frames[s] = {buffers[s].data(), args[s].data(), scalars[s].data(), &faults[s]};
        }
    }
};

CompiledPhase sample() {
    CompiledPhase phase;
    phase.symbol = "k";
    phase.parameters = {{LaunchParameter::Buffer, 8, 1, 0},
                        {LaunchParameter::Arg, 4, 1, 8},
                        {LaunchParameter::Scalar, 4, 0, 12},
                        {LaunchParameter::Fault, 8, 0, 16},
                        {LaunchParameter::Items, 8, 0, 24}};
    phase.record_bytes = 32;
    phase.table_bytes = 64;
    return phase;
}

template <class T>
T at(const void *from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

TEST(LaunchRules, ParametersAreReadWhereTheFrameHasThem) {
    const Frames f;
    const int64_t items = 7;
    std::array<void *, 5> p;
    point_parameters(sample(), f.frames[0], items, p);
    EXPECT_EQ(at<void *>(p[0]), f.buffers[0][1]);
    EXPECT_EQ(at<int32_t>(p[1]), -8);
    EXPECT_EQ(at<float>(p[2]), 1.0F);
    EXPECT_EQ(at<const Fault *>(p[3]), &f.faults[0]);
    EXPECT_EQ(at<int64_t>(p[4]), 7);
    EXPECT_THROW(point_parameters(sample(), f.frames[0], items, std::span(p).first(4)), Failure);
}

TEST(LaunchRules, ATableHasARecordForEachSegment) {
    const Frames f;
    const CompiledPhase phase = sample();
    EXPECT_EQ(phase.most_segments(), 2U);
    const int64_t ends[] = {3, 10};
    std::array<std::byte, 64> table;
    pack_table(phase, f.frames, ends, table.data());
    for (size_t s = 0; s < 2; ++s) {
        const std::byte *record = table.data() + s * 32;
        EXPECT_EQ(at<void *>(record), f.buffers[s][1]);
        EXPECT_EQ(at<int32_t>(record + 8), f.args[s][1]);
        EXPECT_EQ(at<float>(record + 12), s == 0 ? 1.0F : 2.0F);
        EXPECT_EQ(at<const Fault *>(record + 16), &f.faults[s]);
        EXPECT_EQ(at<int64_t>(record + 24), ends[s]);
    }
    CompiledPhase small = phase;
    small.table_bytes = 32;
    EXPECT_THROW(pack_table(small, f.frames, ends, table.data()), Failure) << "one record too many";
    small.table_bytes = 0;
    EXPECT_EQ(small.most_segments(), UINT32_MAX) << "in the device's memory";
}

TEST(LaunchRules, AllSegmentsHaveToBeAligned) {
    Frames f;
    CompiledPhase phase = sample();
    phase.alignments = {{LaunchAlignment::Buffer, 1, 0}, {LaunchAlignment::Arg, 4, 1}};
    EXPECT_TRUE(is_aligned(phase, f.frames)) << "-8 and 12 floats";
    f.args[1][1] = 13;
    EXPECT_FALSE(is_aligned(phase, f.frames));
    EXPECT_TRUE(is_aligned(phase, std::span(f.frames).first(1)));
    f.args[1][1] = 12;
    f.buffers[1][0] = f.memory[1] + 1;
    EXPECT_FALSE(is_aligned(phase, f.frames));
    phase.alignments = {{LaunchAlignment::Buffer, 1, 1}};
    EXPECT_TRUE(is_aligned(phase, f.frames)) << "of the buffers that are named";
}

} // namespace
} // namespace lz::ir
