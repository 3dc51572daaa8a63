#pragma once
/// Handwritten Programs whose kernels are C++ functions.

#include "runtime/allocator/caching_allocator.h"
#include "runtime/cpu/backend.h"
#include "runtime/executor/executor.h"

#include <map>

namespace lz::runtime::test {

/// A module of C++ functions by symbol.
class FunctionModule final : public Module {
public:
    explicit FunctionModule(std::map<std::string, ir::PhaseEntry> entries) : entries_(std::move(entries)) {}
    void *entry(const std::string &symbol) const override {
        auto it = entries_.find(symbol);
        LZ_CHECK(it != entries_.end(), "no symbol " + symbol);
        return reinterpret_cast<void *>(it->second);
    }

private:
    std::map<std::string, ir::PhaseEntry> entries_;
};

/// An ir::Segment of which a test writes what it needs.
struct Part {
    std::vector<uint32_t> buffers = {};
    std::vector<ir::ArgSpec> args = {};
    std::vector<ir::ScalarSpec> scalars = {};
    std::vector<int64_t> items = {};
    std::vector<uint32_t> checks = {};
};

/// Puts a Program together; buffers are f64 arrays on the CPU.
class ProgramBuilder {
public:
    ProgramBuilder() { program.arenas.resize(1); }

    uint32_t input(int64_t elements) { return buffer(ir::BufferKind::Input, inputs_++, 0, elements); }
    uint32_t result(int64_t elements) {
        auto index = static_cast<uint32_t>(program.results.size());
        program.results.push_back(buffer(ir::BufferKind::Result, index, 0, elements));
        return program.results.back();
    }
    /// At `offset`, or behind all others.
    uint32_t arena(int64_t elements, int64_t offset = -1) {
        if (offset < 0)
            offset = (program.arenas[0].bytes + 63) / 64 * 64;
        program.arenas[0].bytes = std::max(program.arenas[0].bytes, offset + elements * 8);
        return buffer(ir::BufferKind::Arena, 0, offset, elements);
    }

    /// A kernel with these buffers, `args` arguments, f64 scalars, and one function a phase.
    uint32_t kernel(std::vector<ir::BufferMode> modes, size_t args, std::vector<ir::DType> scalars,
                    std::vector<ir::PhaseEntry> phases, int checks = 0) {
        ir::Kernel k;
        k.name = "k" + std::to_string(program.kernels.size());
        for (ir::BufferMode mode : modes)
            k.buffers.push_back({ir::DType::F64, mode});
        k.args.resize(args);
        for (ir::DType dtype : scalars)
            k.scalars.push_back({dtype});
        k.phases.resize(phases.size());
        add_body(k, checks);
        LoadedKernel &loaded = kernels.emplace_back();
        std::map<std::string, ir::PhaseEntry> entries;
        for (size_t p = 0; p < phases.size(); ++p) {
            loaded.phases.push_back({"phase" + std::to_string(p)});
            entries[loaded.phases.back().symbol] = phases[p];
        }
        loaded.module = std::make_shared<FunctionModule>(std::move(entries));
        program.kernels.push_back(std::move(k));
        return static_cast<uint32_t>(program.kernels.size() - 1);
    }

    ir::Step &step(ir::StepKind kind) {
        ir::Step &s = program.steps.emplace_back();
        s.kind = kind;
        s.recorded = {static_cast<uint32_t>(program.steps.size() - 1)};
        s.label = "step " + std::to_string(program.steps.size() - 1);
        return s;
    }
    ir::Step &launch(uint32_t kernel, const std::vector<Part> &parts, int64_t cost = 0) {
        ir::Step &s = step(ir::StepKind::Launch);
        s.kernel = kernel;
        for (const Part &part : parts) {
            ir::Segment &segment = s.segments.emplace_back();
            segment.buffers = part.buffers;
            segment.args = part.args;
            segment.scalars = part.scalars;
            segment.items = part.items;
            segment.checks = part.checks;
        }
        s.cost = cost;
        return s;
    }

    /// The functions as the code of a Program with these kernels.
    std::vector<ProgramKernel> code(const ir::Program &of) const {
        std::vector<ProgramKernel> all = kernels_of(of);
        for (ProgramKernel &k : all)
            k.code = kernels[k.kernel];
        return all;
    }
    std::unique_ptr<LoadedProgram> load(Backend &backend, CachingAllocator &allocator) {
        return std::make_unique<LoadedProgram>(program, code(program),
                                               std::vector<DeviceSlot>{{&backend, &allocator}});
    }

    ir::Program program;
    std::vector<LoadedKernel> kernels;

private:
    /// What the functions are taken to do: each result depends on all operands and checks.
    static void add_body(ir::Kernel &k, int checks) {
        if (k.phases.empty())
            return;
        const auto add = [&](ir::Instr instr) {
            k.phases.back().body.push_back({ir::Stmt::Instruction, static_cast<uint32_t>(k.instrs.size())});
            k.instrs.push_back(instr);
            return static_cast<ir::KValue>(k.instrs.size() - 1);
        };
        ir::KValue last = add({.op = ir::KOp::Const, .dtype = ir::DType::F64});
        const auto access = [&](ir::KOp op, size_t buffer) {
            k.accesses.emplace_back().buffer = static_cast<uint16_t>(buffer);
            return add({.op = op,
                        .dtype = ir::DType::F64,
                        .operands = {op == ir::KOp::Store ? last : ir::kNoValue, ir::kNoValue, ir::kNoValue},
                        .access = static_cast<uint32_t>(k.accesses.size() - 1)});
        };
        for (size_t b = 0; b < k.buffers.size(); ++b)
            if (k.buffers[b].mode == ir::BufferMode::In || k.buffers[b].mode == ir::BufferMode::InOut)
                last = add({.op = ir::KOp::Add,
                            .dtype = ir::DType::F64,
                            .operands = {last, access(ir::KOp::Load, b), ir::kNoValue}});
        for (int c = 0; c < checks; ++c)
            last = add({.op = ir::KOp::CheckIndex,
                        .dtype = ir::DType::I64,
                        .operands = {last, ir::kNoValue, ir::kNoValue},
                        .source = static_cast<uint32_t>(c)});
        for (size_t b = 0; b < k.buffers.size(); ++b)
            if (k.buffers[b].mode != ir::BufferMode::In)
                access(ir::KOp::Store, b);
    }

    uint32_t buffer(ir::BufferKind kind, uint32_t index, int64_t offset, int64_t elements) {
        ir::BufferDesc desc{};
        desc.kind = kind;
        desc.index = index;
        desc.offset = offset;
        desc.bytes = elements * 8;
        program.buffers.push_back(desc);
        return static_cast<uint32_t>(program.buffers.size() - 1);
    }
    uint32_t inputs_ = 0;
};

/// The k-th buffer as doubles.
inline double *doubles(const ir::KernelFrame *frame, int k) {
    return static_cast<double *>(frame->buffers[k]);
}

/// out[i] = in[i] + 1
inline void add_one(const ir::KernelFrame *frame, int64_t begin, int64_t end, void *) {
    for (int64_t i = begin; i < end; ++i)
        doubles(frame, 1)[i] = doubles(frame, 0)[i] + 1;
}
/// out[i] = a[i] + b[i]
inline void add(const ir::KernelFrame *frame, int64_t begin, int64_t end, void *) {
    for (int64_t i = begin; i < end; ++i)
        doubles(frame, 2)[i] = doubles(frame, 0)[i] + doubles(frame, 1)[i];
}
/// As add_one, with a check of each element as an index: out of range from args[0] on.
inline void add_one_checked(const ir::KernelFrame *frame, int64_t begin, int64_t end, void *) {
    for (int64_t i = begin; i < end; ++i) {
        auto index = static_cast<int64_t>(doubles(frame, 0)[i]);
        if (index >= frame->args[0]) {
            int32_t none = 0;
            if (frame->fault->code.compare_exchange_strong(
                    none, static_cast<int32_t>(ir::FaultCode::IndexOutOfRange))) {
                frame->fault->source = 1;
                frame->fault->value = index;
                frame->fault->limit = frame->args[0];
            }
        }
        doubles(frame, 1)[i] = doubles(frame, 0)[i] + 1;
    }
}

} // namespace lz::runtime::test
