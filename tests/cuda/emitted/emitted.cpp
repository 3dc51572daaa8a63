#include "emitted/emitted.h"
#include "ir/kernel/verify.h"
#include "ir/math/expand.h"

#include "codegen/cuda/source.h"
#include "ir/diagnostic.h"
#include "ir/text/text.h"
#include "passes/schedule/cuda.h"
#include "tests/support/cuda/device_memory.h"

#include <span>
#include <utility>

namespace lz::test {

using namespace ir;

Launch scheduled(const Launch &l, const CudaLimits &limits) {
    return std::move(scheduled(std::span(&l, 1), limits)[0]);
}

std::vector<Launch> scheduled(std::span<const Launch> segments, const CudaLimits &limits) {
    passes::LoweredStep step;
    Kernel kernel = segments[0].kernel;
    for (Phase &phase : kernel.phases)
        phase.schedule = {};
    expand_math(kernel);
    step.kernel = std::move(kernel);
    for (const Launch &l : segments) {
        passes::LoweredSegment &segment = step.segments.emplace_back();
        for (size_t b = 0; b < l.kernel.buffers.size(); ++b) {
            const KBuffer &buffer = l.kernel.buffers[b];
            segment.buffers.push_back({buffer.mode, kNone, kNone, l.elements[b] * size_of(buffer.dtype)});
        }
        for (const int64_t a : l.args)
            segment.args.push_back({a, {}});
    }
    passes::schedule_cuda(step, limits);
    verify(step.kernel);
    std::vector<Launch> all;
    for (size_t s = 0; s < segments.size(); ++s) {
        const passes::LoweredSegment &segment = step.segments[s];
        Launch &to = all.emplace_back(Launch{step.kernel, {}, segments[s].scalars, {}, 0});
        for (const ArgSpec &a : segment.args)
            to.args.push_back(a.constant);
        for (size_t b = 0; b < segment.buffers.size(); ++b) {
            to.elements.push_back(segment.buffers[b].bytes / size_of(to.kernel.buffers[b].dtype));
            if (to.kernel.buffers[b].mode == BufferMode::Worker)
                to.worker_bytes += static_cast<size_t>(segment.buffers[b].bytes) + 512;
        }
    }
    return all;
}

Launch unaligned(Launch l) {
    l.kernel = any_address(std::move(l.kernel));
    return l;
}

Outcome run_cuda(const Launch &l, const CudaRun &run) {
    return std::move(run_cuda(std::span(&l, 1), run)[0]);
}

std::string cuda_text(const Launch &l) {
    return codegen::cuda::make_source(l.kernel).text;
}

std::string cuda_difference(const Launch &l, const Outcome &interpreted, const Outcome &cuda) {
    Launch compared = l;
    for (const Phase &phase : l.kernel.phases)
        if (phase.cuda().scratch_bytes != kNoArg) // only blocks of a device have a part of it
            compared.elements[phase.cuda().scratch] = 0;
    std::string found = difference(compared, interpreted, cuda);
    if (found.empty() && interpreted.faults != cuda.faults)
        found = "other checks failed";
    return found;
}

void expect_bits(const Launch &l, const std::string &what, const CudaRun &run) {
    const Outcome oracle = run_interpreted(l, run.seed, run.corners);
    const auto text = [&](const CudaRun &how) { return cuda_text(how.shift == 0 ? l : unaligned(l)); };
    const auto expect = [&](const CudaRun &how, const char *name) {
        try {
            const std::string found = cuda_difference(l, oracle, run_cuda(l, how));
            EXPECT_EQ(found, "") << what << ", " << name << "\n" << (found.empty() ? "" : text(how));
        } catch (const ptx::Fault &fault) {
            ADD_FAILURE() << what << ", " << name << ": " << fault.what() << "\n" << text(how);
        }
    };
    expect(run, "aligned");
    CudaRun beside = run;
    beside.shift = 1;
    beside.most_blocks = 1000;
    expect(beside, "beside aligned addresses");
}

void expect_equal(const Launch &l, const std::string &what) {
    if (!why_not_run().empty())
        GTEST_SKIP() << why_not_run();
    const Launch on_cuda = scheduled(l);
    try {
        expect_bits(on_cuda, what);
    } catch (const Failure &failure) {
        // The language has one chunk for lanes, and one for what is folded in order.
        if (failure.message().find("another number of elements") == std::string::npos)
            ADD_FAILURE() << what << ": " << failure.message() << "\n" << print(on_cuda.kernel);
    }
}

} // namespace lz::test
