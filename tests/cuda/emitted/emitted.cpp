#include "emitted/emitted.h"
#include "ir/kernel/verify.h"
#include "ir/math/expand.h"

#include "codegen/cuda/source.h"
#include "ir/diagnostic.h"
#include "ir/text/text.h"
#include "passes/schedule/cuda.h"
#include "tests/support/cuda/device_memory.h"

#include <algorithm>
#include <bit>
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
        if (is_hidden_by_corners(on_cuda.kernel))
            expect_bits(on_cuda, what + " without corners", {.corners = false});
    } catch (const Failure &failure) {
        // The language has one chunk for lanes, and one for what is folded in order.
        if (failure.message().find("another number of elements") == std::string::npos)
            ADD_FAILURE() << what << ": " << failure.message() << "\n" << print(on_cuda.kernel);
    }
}

namespace {

/// What a step launches, on buffers of its sizes.
std::vector<Launch> launches_of(const Program &program, const Step &step, std::span<const int64_t> words) {
    const Kernel &kernel = program.kernels[step.kernel];
    std::vector<Launch> segments;
    for (const Segment &from : step.segments) {
        Launch l{kernel, {}, {}, {}, static_cast<size_t>(step.worker_bytes)};
        for (const ArgSpec &a : from.args) {
            int64_t value = a.constant;
            for (const ArgSpec::Term &t : a.terms)
                value += words[t.word] * t.coefficient;
            l.args.push_back(value);
        }
        for (const ScalarSpec &s : from.scalars) {
            const DType compute = info(s.dtype).compute;
            const double value = std::bit_cast<double>(words[s.word]);
            auto slot = static_cast<uint64_t>(words[s.word]);
            if (compute == DType::F32)
                slot = std::bit_cast<uint32_t>(static_cast<float>(value));
            l.scalars.push_back(slot);
        }
        int64_t most = 0; // elements, of which a worker has a row at most
        for (size_t b = 0; b < kernel.buffers.size(); ++b) {
            const bool worker = kernel.buffers[b].mode == BufferMode::Worker;
            const int64_t bytes = worker ? 0 : program.buffers[from.buffers[b]].bytes;
            l.elements.push_back(bytes / size_of(kernel.buffers[b].dtype));
            most = std::max(most, l.elements.back());
        }
        for (const KBuffer &buffer : kernel.buffers)
            if (buffer.mode == BufferMode::Worker)
                l.worker_bytes += static_cast<size_t>(most * size_of(buffer.dtype)) + 512;
        expand_math(l.kernel);
        segments.push_back(std::move(l));
    }
    return segments;
}

} // namespace

void expect_program(const Program &program, std::span<const int64_t> words, const std::string &what,
                    const CudaRun &run) {
    for (const Step &step : program.steps) {
        if (step.kind != StepKind::Launch || step.device.kind != DeviceKind::Cuda)
            continue;
        const Kernel &kernel = program.kernels[step.kernel];
        if (std::ranges::any_of(kernel.phases, [](const Phase &p) {
                return p.contraction && is_float(p.contraction->dtype) && !p.contraction->ascending;
            }))
            continue;
        const std::vector<Launch> segments = launches_of(program, step, words);
        try {
            const auto found = run_cuda(segments, run);
            for (size_t s = 0; s < segments.size(); ++s) {
                const std::string difference = cuda_difference(
                    segments[s], run_interpreted(segments[s], run.seed + s, run.corners), found[s]);
                ASSERT_EQ(difference, "") << what << "\n" << print(kernel) << cuda_text(segments[0]);
            }
        } catch (const ptx::Fault &fault) {
            FAIL() << what << ": " << fault.what() << "\n" << print(kernel) << cuda_text(segments[0]);
        }
    }
}

} // namespace lz::test
