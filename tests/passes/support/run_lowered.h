#pragma once
/// Runs what `fuse` and `lower_clusters` make of a graph by the kernel interpreter: an oracle that needs no
/// code generation, no memory plan and no runtime. Library steps are run by the graph interpreter.

#include "ir/graph/builder.h"
#include "ir/graph/verify.h"
#include "ir/interpreter/interpreter.h"
#include "ir/interpreter/kernel.h"
#include "ir/kernel/compiled_kernel.h"
#include "ir/program/verify.h"
#include "passes/fuse/fuse.h"
#include "passes/lower/lower_clusters.h"
#include "tests/support/concat_naively.h"

#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>

namespace lz::test {

class LoweredRun {
public:
    /// `graph` is what `fuse` returned, `program` what lower_clusters made of it.
    LoweredRun(const ir::Graph &graph, const ir::Program &program, std::span<const ir::HostTensor> inputs)
        : graph_(graph), program_(program) {
        for (uint32_t i = 0; i < inputs.size(); ++i)
            memory_[i] = inputs[i].bytes;
    }

    std::vector<ir::HostTensor> run() {
        for (uint32_t s = 0; s < program_.steps.size(); ++s) {
            const ir::Step &step = program_.steps[s];
            written_.clear();
            if (step.kind == ir::StepKind::Launch)
                for (const ir::Segment &segment : step.segments)
                    launch(step, segment);
            else if (step.kind == ir::StepKind::Copy)
                copy(step);
            else if (step.symbol == passes::kConcat)
                concat(step);
            else
                library(step);
        }
        std::vector<ir::HostTensor> results;
        for (size_t r = 0; r < graph_.results.size(); ++r)
            results.push_back({graph_.type(graph_.results[r]), at(program_.results[r])});
        return results;
    }

private:
    std::vector<std::byte> &at(uint32_t buffer) {
        const auto it = memory_.find(buffer);
        if (it == memory_.end())
            throw std::runtime_error("buffer " + std::to_string(buffer) + " is read before it is written");
        return it->second;
    }
    size_t bytes_of(uint32_t buffer) const { return static_cast<size_t>(program_.buffers[buffer].bytes); }

    int64_t word(uint32_t position) const { return graph_.runtime_words()[position]; }

    uint64_t scalar(const ir::ScalarSpec &spec) const {
        const int64_t w = word(spec.word);
        if (!ir::is_float(spec.dtype))
            return static_cast<uint64_t>(w);
        const double value = ir::scalar_double(w);
        if (spec.dtype == ir::DType::F64)
            return std::bit_cast<uint64_t>(value);
        auto rounded = static_cast<float>(value);
        if (spec.dtype == ir::DType::F16)
            rounded = ir::half_to_float(ir::float_to_half(rounded));
        if (spec.dtype == ir::DType::BF16)
            rounded = ir::bfloat_to_float(ir::float_to_bfloat(rounded));
        return std::bit_cast<uint32_t>(rounded);
    }

    void launch(const ir::Step &step, const ir::Segment &segment) {
        const ir::Kernel &kernel = program_.kernels[step.kernel];
        std::vector<void *> buffers;
        for (size_t k = 0; k < segment.buffers.size(); ++k) {
            const uint32_t buffer = segment.buffers[k];
            const ir::BufferMode mode = kernel.buffers[k].mode;
            if (mode == ir::BufferMode::Worker) {
                buffers.push_back(nullptr);
            } else if (mode == ir::BufferMode::In || !written_.insert(buffer).second) {
                buffers.push_back(at(buffer).data()); // read, or another part of it
            } else {
                // What is not written shows.
                std::vector<std::byte> bytes(bytes_of(buffer) + 1, std::byte{0xa5});
                const uint32_t replaces = program_.draft.buffers[buffer].replaces;
                if (mode == ir::BufferMode::InOut && bytes_of(buffer) > 0)
                    std::memcpy(bytes.data(), at(replaces).data(), bytes_of(buffer));
                bytes.pop_back();
                bytes.reserve(bytes.size() + 1);
                buffers.push_back((memory_[buffer] = std::move(bytes)).data());
            }
        }
        std::vector<int64_t> args;
        for (const ir::ArgSpec &a : segment.args)
            args.push_back(number(a));
        std::vector<uint64_t> scalars;
        for (const ir::ScalarSpec &s : segment.scalars)
            scalars.push_back(scalar(s));
        std::vector<std::byte> worker(static_cast<size_t>(step.worker_bytes) + 64);
        std::vector<ir::Fault> faults(kernel.instrs.size()); // enough for its checks
        ir::KernelFrame frame{buffers.data(), args.data(), scalars.data(), faults.data()};
        ir::interpret(kernel, frame, worker.data());
    }

    int64_t number(const ir::ArgSpec &a) const {
        int64_t sum = a.constant;
        for (const auto &t : a.terms)
            sum += t.coefficient * word(t.word);
        return sum;
    }

    void copy(const ir::Step &step) {
        const std::vector<std::byte> &from = at(step.operands[0]);
        const int64_t begin = step.copy.from_begin + (step.ints.empty() ? 0 : number(step.ints[0]));
        if (begin < 0 || begin + step.copy.bytes > static_cast<int64_t>(from.size()))
            throw std::runtime_error("a copy reads past the end");
        memory_[step.operands[1]] = {from.begin() + begin, from.begin() + begin + step.copy.bytes};
    }

    void library(const ir::Step &step) {
        const ir::Node &node = graph_.node(step.node);
        ir::GraphBuilder b;
        std::vector<ir::ValueId> operands;
        std::vector<ir::HostTensor> inputs;
        for (size_t i = 0; i < node.operand_count; ++i) {
            const ir::TensorType &type = graph_.type(graph_.operands(node)[i]);
            operands.push_back(b.param(type, "x" + std::to_string(i)));
            inputs.push_back({type, at(step.operands[i])});
            if (node.op == ir::Op::Scatter && i == 1)
                inputs.back().bytes = repeated(step, type, inputs.back().bytes);
        }
        const ir::ValueId first =
            b.add(node.op, operands, graph_.attrs(node).structural, graph_.attrs(node).runtime);
        for (uint32_t k = 0; k < node.result_count; ++k)
            b.graph().results.push_back(first + k);
        const auto results = ir::interpret(b.graph(), inputs);
        for (uint32_t k = 0; k < node.result_count; ++k) // operands first
            memory_[step.operands[node.operand_count + k]] = results[k].bytes;
    }

    void concat(const ir::Step &step) {
        memory_[step.operands.back()].resize(bytes_of(step.operands.back()));
        std::vector<std::byte *> buffers;
        for (const uint32_t buffer : step.operands)
            buffers.push_back(at(buffer).data());
        std::vector<int64_t> ints;
        for (const ir::ArgSpec &spec : step.ints)
            ints.push_back(number(spec));
        concat_naively(buffers, ints);
    }

    /// The index of a scatter from what the library is given, by its strides.
    static std::vector<std::byte> repeated(const ir::Step &step, const ir::TensorType &type,
                                           const std::vector<std::byte> &bytes) {
        const auto integer = [&](size_t i) { return step.ints[i].constant; };
        int64_t inner = 1, along = type.shape[static_cast<int>(integer(2))];
        for (int d = static_cast<int>(integer(2)) + 1; d < type.shape.rank(); ++d)
            inner *= type.shape[d];
        const int64_t size = ir::size_of(type.dtype);
        std::vector<std::byte> all;
        for (int64_t i = 0; i < type.numel(); ++i) {
            const int64_t at =
                i / inner / along * integer(5) + i / inner % along * integer(6) + i % inner * integer(7);
            all.insert(all.end(), bytes.begin() + at * size, bytes.begin() + (at + 1) * size);
        }
        return all;
    }

    const ir::Graph &graph_;
    const ir::Program &program_;
    std::map<uint32_t, std::vector<std::byte>> memory_; // by buffer
    std::set<uint32_t> written_;                        // by the step at hand
};

/// Fuses (or not), lowers, verifies and runs; with `cut` further kernels cost nothing, so that index
/// spaces are cut at every border.
inline std::vector<ir::HostTensor> run_lowered(const ir::Graph &graph, std::span<const ir::HostTensor> inputs,
                                               bool fuse, int *launches = nullptr, bool cut = false) {
    ir::Target target = ir::test_target(8);
    target.modes.fuse = fuse;
    for (ir::DeviceInfo &device : target.devices)
        device.launch_seconds = cut ? 0 : device.launch_seconds;
    const ir::Graph fused = passes::fuse(graph, target);
    ir::verify(fused);
    const ir::Program program = passes::lower_clusters(fused, target);
    ir::verify(program);
    if (launches)
        *launches = static_cast<int>(program.steps.size());
    return LoweredRun(fused, program, inputs).run();
}

} // namespace lz::test
