#pragma once
/// Runs what `fuse` and `lower_clusters` make of a graph by the kernel interpreter: an oracle that needs no
/// code generation, no memory plan and no runtime. Library steps are run by the graph interpreter.

#include "ir/interpreter/interpreter.h"
#include "ir/interpreter/kernel.h"
#include "ir/kernel/compiled_kernel.h"
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
    /// `graph` is what `fuse` returned.
    LoweredRun(const ir::Graph &graph, std::span<const ir::HostTensor> inputs) : graph_(graph) {
        for (size_t i = 0; i < graph.params.size(); ++i)
            memory_[graph.params[i].value] = inputs[i].bytes;
    }

    std::vector<ir::HostTensor> run(std::span<const passes::LoweredStep> steps) {
        for (const passes::LoweredStep &step : steps) {
            written_.clear();
            if (step.kind == ir::StepKind::Launch)
                for (const passes::LoweredSegment &segment : step.segments)
                    launch(step, segment);
            else if (step.kind == ir::StepKind::Copy)
                copy(step);
            else if (step.symbol == passes::kConcat)
                concat(step);
            else
                library(step);
        }
        std::vector<ir::HostTensor> results;
        for (const ir::ValueId r : graph_.results)
            results.push_back({graph_.type(r), at(r)});
        return results;
    }

private:
    std::vector<std::byte> &at(ir::ValueId v) {
        const auto it = memory_.find(v);
        if (it == memory_.end())
            throw std::runtime_error("value " + std::to_string(v) + " is read before it is written");
        return it->second;
    }

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

    void launch(const passes::LoweredStep &step, const passes::LoweredSegment &segment) {
        std::vector<void *> buffers;
        std::vector<std::vector<std::byte>> temps;
        temps.reserve(segment.buffers.size());
        for (const passes::LoweredBuffer &b : segment.buffers) {
            if (b.mode == ir::BufferMode::In) {
                buffers.push_back(at(b.value).data());
            } else if (b.mode == ir::BufferMode::Worker) {
                buffers.push_back(nullptr);
            } else if (b.mode == ir::BufferMode::Out && !written_.insert(b.value).second) {
                buffers.push_back(at(b.value).data()); // another part of it
            } else {
                // What is not written shows.
                std::vector<std::byte> bytes(static_cast<size_t>(b.bytes) + 1, std::byte{0xa5});
                if (b.mode == ir::BufferMode::InOut && b.bytes > 0)
                    std::memcpy(bytes.data(), at(b.replaces).data(), static_cast<size_t>(b.bytes));
                if (b.mode == ir::BufferMode::Temp) {
                    temps.push_back(std::move(bytes));
                    buffers.push_back(temps.back().data());
                } else {
                    bytes.pop_back();
                    bytes.reserve(bytes.size() + 1);
                    buffers.push_back((memory_[b.value] = std::move(bytes)).data());
                }
            }
        }
        std::vector<int64_t> args;
        for (const ir::ArgSpec &a : segment.args)
            args.push_back(number(a));
        std::vector<uint64_t> scalars;
        for (const ir::ScalarSpec &s : segment.scalars)
            scalars.push_back(scalar(s));
        std::vector<std::byte> worker(static_cast<size_t>(step.worker_bytes) + 64);
        std::vector<ir::Fault> faults(step.kernel->instrs.size()); // enough for its checks
        ir::KernelFrame frame{buffers.data(), args.data(), scalars.data(), faults.data()};
        ir::interpret(step.kernel, frame, worker.data());
    }

    int64_t number(const ir::ArgSpec &a) const {
        int64_t sum = a.constant;
        for (const auto &t : a.terms)
            sum += t.coefficient * word(t.word);
        return sum;
    }

    void copy(const passes::LoweredStep &step) {
        const std::vector<std::byte> &from = at(step.operands[0].value);
        const int64_t begin = step.copy.from_begin + (step.ints.empty() ? 0 : number(step.ints[0]));
        if (begin < 0 || begin + step.copy.bytes > static_cast<int64_t>(from.size()))
            throw std::runtime_error("a copy reads past the end");
        memory_[step.operands[1].value] = {from.begin() + begin, from.begin() + begin + step.copy.bytes};
    }

    void library(const passes::LoweredStep &step) {
        const ir::Node &node = graph_.node(step.node);
        ir::GraphBuilder b;
        std::vector<ir::ValueId> operands;
        std::vector<ir::HostTensor> inputs;
        for (size_t i = 0; i < node.operand_count; ++i) {
            const ir::TensorType &type = graph_.type(graph_.operands(node)[i]);
            operands.push_back(b.param(type, "x" + std::to_string(i)));
            inputs.push_back({type, at(step.operands[i].value)});
            if (node.op == ir::Op::Scatter && i == 1)
                inputs.back().bytes = repeated(step, type, inputs.back().bytes);
        }
        const ir::ValueId first =
            b.add(node.op, operands, graph_.attrs(node).structural, graph_.attrs(node).runtime);
        for (uint32_t k = 0; k < node.result_count; ++k)
            b.graph().results.push_back(first + k);
        const auto results = ir::interpret(b.graph(), inputs);
        for (uint32_t k = 0; k < node.result_count; ++k)
            memory_[graph_.result(node, k)] = results[k].bytes;
    }

    void concat(const passes::LoweredStep &step) {
        const passes::LoweredBuffer &out = step.operands.back();
        memory_[out.value].resize(static_cast<size_t>(out.bytes));
        std::vector<std::byte *> buffers;
        for (const passes::LoweredBuffer &b : step.operands)
            buffers.push_back(at(b.value).data());
        std::vector<int64_t> ints;
        for (const ir::ArgSpec &spec : step.ints)
            ints.push_back(number(spec));
        concat_naively(buffers, ints);
    }

    /// The index of a scatter from what the library is given, by its strides.
    static std::vector<std::byte> repeated(const passes::LoweredStep &step, const ir::TensorType &type,
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
    std::map<ir::ValueId, std::vector<std::byte>> memory_;
    std::set<ir::ValueId> written_; // by the step at hand
};

/// Fuses (or not), lowers, verifies and runs.
inline std::vector<ir::HostTensor> run_lowered(const ir::Graph &graph, std::span<const ir::HostTensor> inputs,
                                               bool fuse, int *launches = nullptr) {
    ir::Target target = ir::test_target(8);
    target.modes.fuse = fuse;
    const ir::Graph fused = passes::fuse(graph, target);
    ir::verify(fused);
    const auto steps = passes::lower_clusters(fused, target);
    for (const passes::LoweredStep &step : steps)
        if (step.kind == ir::StepKind::Launch)
            ir::verify(step.kernel);
    if (launches)
        *launches = static_cast<int>(steps.size());
    return LoweredRun(fused, inputs).run(steps);
}

} // namespace lz::test
