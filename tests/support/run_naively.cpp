#include "tests/support/run_naively.h"

#include "ir/interpreter/kernel.h"
#include "tests/support/concat_naively.h"
#include "tests/support/random/graph.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
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
constexpr std::byte kGarbage{0xA5};

class NaiveRun {
public:
    NaiveRun(const Graph &graph, const Program &program, std::span<const HostTensor> inputs)
        : graph_(graph), program_(program) {
        for (const HostTensor &input : inputs)
            inputs_.push_back(input.bytes);
        for (const ValueId v : graph.results)
            results_.emplace_back(static_cast<size_t>(graph.type(v).bytes()), kGarbage);
        for (const ArenaDesc &arena : program.arenas)
            arenas_.emplace_back(static_cast<size_t>(arena.bytes) + 1, kGarbage);
    }

    void run(const Step &step) {
        if (step.kind == StepKind::Copy) {
            if (step.copy.bytes > 0)
                std::memmove(memory_of(step.operands[1]) + step.copy.to_begin,
                             memory_of(step.operands[0]) + step.copy.from_begin +
                                 (step.ints.empty() ? 0 : value_of(step.ints[0], graph_)),
                             static_cast<size_t>(step.copy.bytes));
        } else if (step.kind == StepKind::Launch) {
            for (const Segment &segment : step.segments)
                launch(step, segment);
        } else if (step.kind == StepKind::Library && step.symbol == "concat") {
            std::vector<std::byte *> buffers;
            for (const uint32_t b : step.operands)
                buffers.push_back(memory_of(b));
            std::vector<int64_t> ints;
            for (const ArgSpec &spec : step.ints)
                ints.push_back(value_of(spec, graph_));
            concat_naively(buffers, ints);
        } else if (step.kind == StepKind::Library) {
            throw std::runtime_error("run_naively has no library call but concat");
        }
    }

    std::vector<HostTensor> results() {
        std::vector<HostTensor> results;
        for (size_t r = 0; r < graph_.results.size(); ++r) {
            const TensorType &type = graph_.type(graph_.results[r]);
            const std::byte *from = memory_of(program_.results[r]);
            results.push_back({type, Memory(from, from + type.bytes())});
        }
        return results;
    }

private:
    std::byte *memory_of(uint32_t b) {
        const BufferDesc &desc = program_.buffers[b];
        if (desc.kind == BufferKind::Arena)
            return desc.bytes == 0 ? nullptr : arenas_[desc.arena].data() + desc.offset;
        if (desc.kind == BufferKind::Input)
            return inputs_[desc.index].data();
        return desc.donor >= 0 ? inputs_[program_.buffers[static_cast<size_t>(desc.donor)].index].data()
                               : results_[desc.index].data();
    }

    void launch(const Step &step, const Segment &segment) {
        Memory worker(static_cast<size_t>(step.worker_bytes) + 1, kGarbage);
        std::vector<void *> buffers;
        for (const uint32_t b : segment.buffers)
            buffers.push_back(b == kNone ? nullptr : memory_of(b));
        std::vector<int64_t> args;
        for (const ArgSpec &arg : segment.args)
            args.push_back(value_of(arg, graph_));
        std::vector<uint64_t> scalars;
        for (const ScalarSpec &scalar : segment.scalars)
            scalars.push_back(slot_of(scalar, graph_));
        std::vector<Fault> faults(program_.kernels[step.kernel].instrs.size()); // enough for its checks
        const KernelFrame frame{buffers.data(), args.data(), scalars.data(), faults.data()};
        interpret(program_.kernels[step.kernel], frame, worker.data());
    }

    const Graph &graph_;
    const Program &program_;
    std::vector<Memory> inputs_, results_, arenas_;
};

} // namespace

std::vector<HostTensor> run_naively(const Graph &graph, const Program &program,
                                    std::span<const HostTensor> inputs) {
    NaiveRun run(graph, program, inputs);
    for (const Step &step : program.steps)
        run.run(step);
    return run.results();
}

std::vector<HostTensor> run_in_any_order(const Graph &graph, const Program &program,
                                         std::span<const HostTensor> inputs, uint64_t seed) {
    NaiveRun run(graph, program, inputs);
    std::vector<std::pair<StreamRef, std::deque<const Step *>>> queues;
    for (const Step &step : program.steps) {
        const StreamRef stream{step.device, step.stream};
        auto found = std::ranges::find(queues, stream, &decltype(queues)::value_type::first);
        if (found == queues.end())
            found = queues.insert(queues.end(), {stream, {}});
        found->second.push_back(&step);
    }
    std::vector<bool> recorded(program.num_events, false);
    Random random(seed);
    for (size_t idle = 0; !queues.empty();) {
        const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(queues.size())));
        auto &queue = queues[at].second;
        bool moved = false;
        for (bool more = true; more && !queue.empty(); more = more && random.chance(25)) {
            const Step &step = *queue.front();
            if (step.kind == StepKind::WaitEvent && step.event != kNone && !recorded[step.event])
                break;
            if (step.kind == StepKind::RecordEvent && step.event != kNone)
                recorded[step.event] = true;
            run.run(step);
            queue.pop_front();
            moved = true;
        }
        if (queue.empty())
            queues.erase(queues.begin() + static_cast<std::ptrdiff_t>(at));
        idle = moved ? 0 : idle + 1;
        if (idle > 100000)
            throw std::runtime_error("the streams of a Program wait for each other");
    }
    return run.results();
}

} // namespace lz::test
