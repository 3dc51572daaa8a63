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

/// The sum of each row.
Launch sums(int64_t rows, int64_t length) {
    KernelBuilder b;
    const AxisId r = b.axis(), i = b.axis();
    const ArgId step = b.arg(ArgRole::Stride);
    const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::Out);
    b.begin_phase({r}, false);
    const uint32_t loop = b.begin_loop(i, LoopOrder::Lanes, kLaneChunk);
    b.reduce(ReduceOp::Add, b.load({in, kNoArg, {{r, StrideClass::Strided, step}, along(i)}, {}, kNoValue}));
    b.end_loop();
    b.store(contiguous(out, r), b.loop_result(loop, 0));
    b.end_phase();
    return {b.take(), {rows, length, length}, {}, {rows * length, rows}, 0};
}

std::vector<Kind> kinds() {
    return {{"sums of rows", scheduled(sums(5, 5000))},
            {"tiles", scheduled(transpose_kernel(100, 90))},
            {"a product", scheduled(product(DType::I32, 40, 30, 50, false))}};
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
