/// Kernels of 2^31 + 3 rows, in the interpreter of PTX: of the grid only the last blocks are run, and of the
/// memory only what they may touch is there. tests/gpu/device_test.cpp has a whole tensor on a device.

#include "codegen/cuda/source.h"
#include "emitted/emitted.h"
#include "ir/math/expand.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "tests/support/cuda/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace lz::test {
namespace {

using namespace ir;

constexpr int64_t kRows = (int64_t{1} << 31) + 3, kLast = 65536 + 3, kBefore = kRows - kLast;

using Bytes8 = std::vector<uint8_t>;

/// Results of the last rows of one kernel of u8, whose operand has `width` bytes of each; `x`: of those rows.
/// A result of another row is 0xcd.
Bytes8 run_last_rows(const std::string &text, int64_t width, const Bytes8 &x, int64_t blocks, int shift) {
    const Program program = passes::compile(parse_graph(text), cuda_test_target(1)).program;
    EXPECT_EQ(program.kernels.size(), 1U);
    const Step &step = *std::ranges::find(program.steps, StepKind::Launch, &Step::kind);
    Launch l{program.kernels[step.kernel], {}, {}, {}, 0};
    for (const ArgSpec &a : step.segments.at(0).args)
        l.args.push_back(a.constant);
    expand_math(l.kernel);
    if (shift > 0)
        l = unaligned(std::move(l));
    EXPECT_EQ(l.kernel.phases.size(), 1U);
    EXPECT_FALSE(l.kernel.phases[0].cuda().index32);

    const auto beside = static_cast<size_t>(shift);
    DeviceMemory memory;
    std::vector<void *> pointers;
    uint64_t out = 0;
    for (const KBuffer &buffer : l.kernel.buffers) {
        const bool operand = buffer.mode == BufferMode::In;
        Bytes8 bytes(beside + static_cast<size_t>(operand ? kLast * width : kLast), 0xcd);
        if (operand)
            std::ranges::copy(x, bytes.begin() + shift);
        const uint64_t at = memory.put(bytes);
        const auto before = static_cast<uint64_t>(operand ? kBefore * width : kBefore);
        pointers.push_back(reinterpret_cast<void *>(at + beside - before)); // of row 0, which is not there
        if (!operand)
            out = at;
    }
    const KernelFrame frame{pointers.data(), l.args.data(), nullptr, nullptr};
    const CompiledPhase phase = codegen::cuda::make_source(l.kernel).phases[0];
    const int64_t items = work_items(l.kernel, l.kernel.phases[0], l.args);
    PtxProgram code(ptx_of(l));
    const ptx::Kernel &entry = code.module().kernels.at(phase.symbol);
    std::vector<unsigned char> parameters(entry.parameter_bytes);
    std::vector<void *> values(phase.parameters.size());
    point_parameters(phase, frame, items, values);
    for (size_t i = 0; i < values.size(); ++i)
        std::memcpy(parameters.data() + entry.parameters.at(i).at, values[i], entry.parameters[i].bytes);
    code.dynamic_shared = phase.shared_bytes;
    code.first = static_cast<uint64_t>(items - blocks);
    const auto grid = static_cast<uint32_t>(phase.blocks(items, INT32_MAX));
    EXPECT_EQ(grid, items);
    code.launch(phase.symbol, {grid, 1, 1}, {phase.threads, 1, 1}, memory, parameters);
    Bytes8 found = memory.get<uint8_t>(out);
    found.erase(found.begin(), found.begin() + shift);
    return found;
}

/// Some of the results are those of the last blocks, the last row's among them, and each that is there is
/// what `f` makes of the row.
void expect_last_rows(const std::string &text, int64_t width, int64_t blocks,
                      const std::function<uint8_t(const uint8_t *)> &f) {
    Bytes8 x(static_cast<size_t>(kLast * width));
    for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<uint8_t>((i * 7 + i / 251) % 50);
    for (const int shift : {0, 1}) {
        const Bytes8 found = run_last_rows(text, width, x, blocks, shift);
        const auto begin = std::ranges::find_if(found, [](uint8_t y) { return y != 0xcd; });
        const int64_t computed = found.end() - begin;
        EXPECT_GT(computed, 3) << "rows beyond 2^31 were not computed";
        for (int64_t i = kLast - computed; i < kLast; ++i)
            ASSERT_EQ(found[static_cast<size_t>(i)], f(&x[static_cast<size_t>(i * width)]))
                << "row " << kBefore + i << ", " << shift << " bytes beside an aligned address";
    }
}

TEST(FarItems, RowsBeyondTwoToThe31AreComputed) {
    if (!why_not_run().empty())
        GTEST_SKIP() << why_not_run();
    expect_last_rows(R"(lazuli 1
graph @g(%x: u8[2147483651] @cuda:0) {
  %0 = add %x, %x : u8[2147483651] @cuda:0
  return %0
}
)",
                     1, 3, [](const uint8_t *x) { return static_cast<uint8_t>(*x + *x); });
    // One thread has a row of three.
    expect_last_rows(R"(lazuli 1
graph @g(%x: u8[2147483651,3] @cuda:0) {
  %0 = max %x {axes=[1]} : u8[2147483651] @cuda:0
  return %0
}
)",
                     3, 9, [](const uint8_t *x) { return std::max({x[0], x[1], x[2]}); });
}

} // namespace
} // namespace lz::test
