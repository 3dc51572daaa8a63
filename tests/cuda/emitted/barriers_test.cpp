// Each barrier of each kind of kernel that the emitter makes is needed, and the interpreter of PTX sees that
// it is missing.

#include "emitted/emitted.h"
#include "kernels.h"

#include "tests/support/cuda/device_memory.h"

#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

struct Kind {
    const char *name;
    Launch launch;
};

/// A reduction of each row; in chunks, or in one. What is sought is stored with its place.
Launch reduced(ReduceOp op, DType t, int64_t rows, int64_t length, int64_t chunk) {
    KernelBuilder b;
    const AxisId r = b.axis(), i = b.axis();
    const ArgId step = b.arg(ArgRole::Stride);
    const uint16_t in = b.buffer(t, BufferMode::In), out = b.buffer(t, BufferMode::Out);
    const bool sought = op == ReduceOp::ArgMax;
    const uint16_t places = sought ? b.buffer(DType::I64, BufferMode::Out) : out;
    b.begin_phase({r}, false);
    const uint32_t loop = b.begin_loop(i, LoopOrder::Lanes, chunk);
    b.reduce(op, b.load({in, kNoArg, {{r, StrideClass::Strided, step}, along(i)}, {}, kNoValue}),
             sought ? b.axis_index(i) : kNoValue);
    b.end_loop();
    b.store(contiguous(out, r), b.loop_result(loop, 0));
    if (sought)
        b.store(contiguous(places, r), b.loop_result(loop, 0, 1));
    b.end_phase();
    std::vector<int64_t> elements(sought ? 3 : 2, rows);
    elements[0] = rows * length;
    return {b.take(), {rows, length, length}, {}, elements, 0};
}

/// Rows of a block each.
Launch whole_rows(const Launch &l) {
    Launch made = scheduled(l);
    EXPECT_EQ(made.kernel.phases.size(), 1U);
    EXPECT_GT(made.kernel.phases[0].cuda().row_threads, 32);
    return made;
}

std::vector<Kind> kinds() {
    return {
        {"tiles", scheduled(transpose_kernel(100, 90))},
        {"a product", scheduled(product(DType::I32, 40, 30, 50, false))},
        {"sums of rows", whole_rows(reduced(ReduceOp::Add, DType::F32, 5, 5000, kLaneChunk))},
        {"one chunk across groups", whole_rows(reduced(ReduceOp::Max, DType::F32, 5, 5000, 0))},
        {"places of the largest", whole_rows(reduced(ReduceOp::ArgMax, DType::F32, 5, 5000, 0))},
    };
}

/// Whether a run of it shows that something is missing.
bool is_missed(const Launch &l, const std::vector<Outcome> &oracles, const std::string &ptx) {
    for (const int shift : {0, 1})
        for (uint64_t seed = 1; seed <= oracles.size(); ++seed)
            try {
                CudaRun run{.shift = shift, .most_blocks = 2, .seed = seed, .corners = false};
                run.ptx = ptx.c_str();
                if (!cuda_difference(l, oracles[seed - 1], run_cuda(l, run)).empty())
                    return true;
            } catch (const ptx::Fault &) {
                return true;
            }
    return false;
}

TEST(EmittedBarriers, EachThatIsDeletedIsMissed) {
    if (!why_not_run().empty())
        GTEST_SKIP() << why_not_run();
    for (const auto &[name, launch] : kinds()) {
        SCOPED_TRACE(name);
        const std::string text = ptx_of(launch);
        std::vector<Outcome> oracles;
        for (uint64_t seed = 1; seed <= 3; ++seed)
            oracles.push_back(run_interpreted(launch, seed, false));
        EXPECT_FALSE(is_missed(launch, oracles, text)) << "nothing is deleted";
        int deleted = 0;
        for (const char *what : {"bar.sync", "barrier.sync", "bar.warp.sync"})
            for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
                std::string mutated = text;
                mutated.erase(at, mutated.find(';', at) + 1 - at);
                EXPECT_TRUE(is_missed(launch, oracles, mutated))
                    << "nobody misses the `" << what << "` at byte " << at << "\n"
                    << cuda_text(launch) << mutated;
                ++deleted;
            }
        EXPECT_GE(deleted, 1);
    }
}

} // namespace
} // namespace lz::test
