#include "tests/support/run_naively.h"

#include "ir/kernel_interpreter.h"

#include <bit>
#include <cstring>
#include <stdexcept>

namespace lz::test {

using namespace ir;

namespace {

int64_t value_of(const ArgSpec &spec, const Graph &graph) {
    int64_t value = spec.constant;
    for (const ArgSpec::Term &term : spec.terms)
        value += term.coefficient * graph.runtime_words()[term.word];
    return value;
}

uint64_t slot_of(const ScalarSpec &spec, const Graph &graph) {
    const int64_t word = graph.runtime_words()[spec.word];
    if (!is_float(spec.dtype))
        return static_cast<uint64_t>(word);
    const double value = scalar_double(word);
    switch (spec.dtype) {
    case DType::F64:
        return std::bit_cast<uint64_t>(value);
    case DType::F16:
        return std::bit_cast<uint32_t>(half_to_float(float_to_half(static_cast<float>(value))));
    case DType::BF16:
        return std::bit_cast<uint32_t>(bfloat_to_float(float_to_bfloat(static_cast<float>(value))));
    default:
        return std::bit_cast<uint32_t>(static_cast<float>(value));
    }
}

using Memory = std::vector<std::byte>;

} // namespace

std::vector<HostTensor> run_naively(const Graph &graph, const Program &program,
                                    std::span<const HostTensor> inputs) {
    constexpr std::byte kGarbage{0xA5};
    std::vector<Memory> input_memory, result_memory;
    for (const HostTensor &input : inputs)
        input_memory.push_back(input.bytes);
    for (ValueId v : graph.results)
        result_memory.emplace_back(static_cast<size_t>(graph.type(v).bytes()), kGarbage);
    std::vector<Memory> arenas;
    for (const ArenaDesc &arena : program.arenas)
        arenas.emplace_back(static_cast<size_t>(arena.bytes) + 1, kGarbage);

    const auto memory_of = [&](uint32_t b) -> std::byte * {
        const BufferDesc &desc = program.buffers[b];
        if (desc.kind == BufferKind::Arena)
            return desc.bytes == 0 ? nullptr : arenas[desc.arena].data() + desc.offset;
        if (desc.kind == BufferKind::Input)
            return input_memory[desc.index].data();
        return desc.donor >= 0 ? input_memory[program.buffers[static_cast<size_t>(desc.donor)].index].data()
                               : result_memory[desc.index].data();
    };

    for (const Step &step : program.steps) {
        if (step.kind == StepKind::Copy) {
            if (step.copy.bytes > 0)
                std::memmove(memory_of(step.operands[1]) + step.copy.to_begin,
                             memory_of(step.operands[0]) + step.copy.from_begin,
                             static_cast<size_t>(step.copy.bytes));
            continue;
        }
        if (step.kind == StepKind::RecordEvent || step.kind == StepKind::WaitEvent)
            continue;
        if (step.kind != StepKind::Launch)
            throw std::runtime_error("run_naively has no library");
        Memory worker(static_cast<size_t>(step.worker_bytes) + 1, kGarbage);
        for (const Segment &segment : step.segments) {
            std::vector<void *> buffers;
            for (uint32_t b : segment.buffers)
                buffers.push_back(b == kNone ? nullptr : memory_of(b));
            std::vector<int64_t> args;
            for (const ArgSpec &arg : segment.args)
                args.push_back(value_of(arg, graph));
            std::vector<uint64_t> scalars;
            for (const ScalarSpec &scalar : segment.scalars)
                scalars.push_back(slot_of(scalar, graph));
            Fault fault;
            const KernelFrame frame{buffers.data(), args.data(), scalars.data(), &fault};
            interpret(program.kernels[step.kernel], frame, worker.data());
        }
    }

    std::vector<HostTensor> results;
    for (size_t r = 0; r < graph.results.size(); ++r) {
        const TensorType &type = graph.type(graph.results[r]);
        const std::byte *from = memory_of(program.results[r]);
        results.push_back({type, Memory(from, from + type.bytes())});
    }
    return results;
}

} // namespace lz::test
