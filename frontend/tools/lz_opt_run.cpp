#include "lz_opt_run.h"

#include "codegen/cache/kernel_cache.h"
#include "codegen/cpu.h"
#include "codegen/host.h"
#include "codegen/interpreter.h"
#include "frontend/engine/devices.h"
#include "ir/diagnostic.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/user_event.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>

namespace lz::tools {

using namespace ir;

namespace {

/// Memory for as long as a run needs it, with who uses it.
class DeviceMemory {
public:
    DeviceMemory(runtime::CachingAllocator &allocator, int64_t bytes, runtime::StreamId stream)
        : allocator_(&allocator), memory_(allocator.allocate(static_cast<size_t>(bytes), stream)) {}
    DeviceMemory(const DeviceMemory &) = delete;
    DeviceMemory &operator=(const DeviceMemory &) = delete;
    ~DeviceMemory() { allocator_->free(memory_); }
    void *get() const { return memory_; }
    ir::MemoryUse &use() { return use_; }

private:
    runtime::CachingAllocator *allocator_;
    void *memory_;
    ir::MemoryUse use_;
};

engine::Options machine_options(const Target &target, std::optional<uint64_t> delay) {
    engine::Options options;
    options.virtual_gpus = static_cast<int>(target.devices.size()) - 1;
    options.virtual_delay = delay;
    return options;
}

/// The target's devices, its peers and the streams that a Program names.
class Machine {
public:
    Machine(const Target &target, const Program &program, std::optional<uint64_t> delay)
        : devices_(machine_options(target, delay)) {
        for (const DeviceInfo &a : target.devices)
            for (const DeviceInfo &b : target.devices)
                if (target.may_access(a.device, b.device))
                    backend(a.device).set_peer_access(backend(b.device), true);
        int32_t last = kFirstUserStream - 1;
        for (const Step &step : program.steps)
            last = std::max(last, step.stream);
        for (const runtime::DeviceSlot &slot : devices_.slots())
            for (int32_t s = kFirstUserStream; slot.backend->device() != kCpu && s <= last; ++s)
                slot.backend->create_stream(0);
    }

    runtime::Backend &backend(Device device) { return devices_.backend(device); }
    runtime::CachingAllocator &allocator(Device device) { return devices_.allocator(device); }
    const std::vector<runtime::DeviceSlot> &slots() const { return devices_.slots(); }

    void copy(void *to, const void *from, int64_t bytes, Device device) {
        if (bytes == 0)
            return;
        if (device == kCpu) {
            std::memcpy(to, from, static_cast<size_t>(bytes));
            return;
        }
        backend(device).copy(to, from, static_cast<size_t>(bytes), kDefaultStream);
        wait({{device, kDefaultStream}, backend(device).record(kDefaultStream)});
    }
    void wait(const Point &point) {
        backend(point.stream.device).synchronize(point.stream.stream, point.tick);
    }

private:
    engine::Devices devices_;
};

/// Runtime words of effects are numbers in the text and addresses when it runs.
class Effects {
public:
    explicit Effects(const Graph &graph)
        : words_(graph.runtime_words().begin(), graph.runtime_words().end()) {
        for (const Node &node : graph.nodes()) {
            if (node.op != Op::RecordEvent && node.op != Op::WaitEvent && node.op != Op::HostCallback)
                continue;
            int64_t &word = words_[node.runtime_begin];
            if (node.op == Op::HostCallback) {
                word = runtime::effect_word(&callback_);
            } else {
                auto &event = events_[graph.runtime_words()[node.runtime_begin]];
                if (!event)
                    event = std::make_unique<runtime::UserEvent>(false);
                word = runtime::effect_word(event.get());
            }
        }
    }
    std::span<const int64_t> words() const { return words_; }

private:
    std::vector<int64_t> words_;
    std::map<int64_t, std::unique_ptr<runtime::UserEvent>> events_;
    runtime::UserCallback callback_{[] {}};
};

constexpr size_t kPrinted = 64;

std::string number(DType dtype, double v) {
    if (dtype == DType::Bool)
        return v != 0 ? "true" : "false";
    return is_float(dtype) ? fmt::format("{:.7g}", v) : fmt::format("{}", static_cast<int64_t>(v));
}

/// How far compiled and interpreted may be apart: the interpreter sums in double, kernels in the accumulation
/// dtype.
double tolerance(DType dtype) {
    switch (dtype) {
    case DType::F16:
        return 4e-3;
    case DType::BF16:
        return 3e-2;
    case DType::F32:
        return 2e-5;
    case DType::F64:
        return 1e-12;
    default:
        return 0;
    }
}

bool close(DType dtype, double expected, double actual, double scale) {
    if (expected == actual || (std::isnan(expected) && std::isnan(actual)))
        return true;
    return std::fabs(expected - actual) <= tolerance(dtype) * std::max(std::fabs(expected), scale);
}

} // namespace

std::vector<HostTensor> inputs_of(const Graph &graph) {
    std::vector<HostTensor> inputs;
    for (const Param &p : graph.params)
        inputs.push_back(materialize_param(graph, p));
    return inputs;
}

std::vector<HostTensor> run_program(const Graph &graph, const Program &program, const Target &target,
                                    std::span<const HostTensor> inputs, std::optional<uint64_t> delay) try {
    Machine machine(target, program, delay);
    const std::unique_ptr<codegen::Compiler> compiler = codegen::cpu_jit_available()
                                                            ? codegen::make_llvm_compiler(target.host().isa)
                                                            : codegen::make_interpreter();
    codegen::KernelCache cache({});
    std::vector<runtime::ProgramKernel> kernels = runtime::kernels_of(program);
    std::vector<codegen::KernelRequest> requests;
    for (const runtime::ProgramKernel &k : kernels)
        requests.push_back({&program.kernels[k.kernel], compiler.get(), &machine.backend(k.device)});
    const std::vector<codegen::CachedKernelPtr> cached = cache.get_all(requests);
    for (size_t k = 0; k < kernels.size(); ++k)
        kernels[k].code = *cached[k];

    const Effects effects(graph);
    const runtime::LoadedProgram loaded(program, std::move(kernels), machine.slots());

    std::deque<DeviceMemory> blocks;
    std::vector<void *> input_memory, result_memory;
    std::vector<ir::MemoryUse *> input_uses, result_uses;
    for (const HostTensor &input : inputs) {
        const Device device = input.type.device;
        DeviceMemory &block =
            blocks.emplace_back(machine.allocator(device), input.type.bytes(), kDefaultStream);
        machine.copy(block.get(), input.bytes.data(), input.type.bytes(), device);
        input_memory.push_back(block.get());
        input_uses.push_back(&block.use());
    }
    for (size_t r = 0; r < graph.results.size(); ++r) {
        if (const int donor = program.buffers[program.results[r]].donor; donor >= 0) {
            const uint32_t input = program.buffers[static_cast<size_t>(donor)].index;
            result_memory.push_back(input_memory[input]);
            result_uses.push_back(input_uses[input]);
            continue;
        }
        const TensorType &type = graph.type(graph.results[r]);
        DeviceMemory &block =
            blocks.emplace_back(machine.allocator(type.device), type.bytes(), loaded.result_home(r).stream);
        result_memory.push_back(block.get());
        result_uses.push_back(&block.use());
    }
    std::vector<Point> ends;
    Bindings bindings{input_memory, result_memory, effects.words()};
    if (!loaded.cpu_only()) {
        bindings.input_uses = input_uses;
        bindings.result_uses = result_uses;
        bindings.ends = &ends;
    }
    Launched launched = runtime::run(loaded, bindings);
    for (const Point &end : ends)
        machine.wait(end);
    if (launched.flight) {
        launched.flight->wait();
        RunReport later = launched.flight->finish({});
        std::ranges::move(later.failures, std::back_inserter(launched.report.failures));
    }
    if (!launched.report.ok())
        throw launched.report.failures.front().failure;

    std::vector<HostTensor> results;
    for (size_t r = 0; r < graph.results.size(); ++r) {
        const TensorType &type = graph.type(graph.results[r]);
        HostTensor &result =
            results.emplace_back(type, std::vector<std::byte>(static_cast<size_t>(type.bytes())));
        machine.copy(result.bytes.data(), result_memory[r], type.bytes(), type.device);
    }
    return results;
} catch (const Failure &failure) { // with the line of the operation to blame
    for (const Node &node : graph.nodes())
        if (!failure.loc().known() && node.recorded != kNone && node.recorded == failure.node())
            throw Failure(failure.kind(), failure.message(), node.loc, failure.node());
    throw;
}

std::string print_results(std::span<const HostTensor> results) {
    std::string text;
    for (size_t r = 0; r < results.size(); ++r) {
        const std::vector<double> values = to_doubles(results[r]);
        text += fmt::format("result {}: {} = [", r, to_string(results[r].type));
        for (size_t k = 0; k < values.size(); ++k) {
            if (values.size() > kPrinted && k == kPrinted / 2) {
                text += ", ...";
                k = values.size() - kPrinted / 2;
            }
            text += (k == 0 ? "" : ", ") + number(results[r].type.dtype, values[k]);
        }
        text += "]\n";
    }
    return text;
}

std::string compare_results(std::span<const HostTensor> expected, std::span<const HostTensor> actual) {
    for (size_t r = 0; r < expected.size(); ++r) {
        const DType dtype = expected[r].type.dtype;
        const std::vector<double> want = to_doubles(expected[r]), got = to_doubles(actual[r]);
        double largest = 0;
        for (double v : want)
            largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
        for (size_t k = 0; k < want.size(); ++k)
            if (!close(dtype, want[k], got[k], largest))
                return fmt::format("element {} of result {} ({}) is {:.9g}; the interpreter says {:.9g}", k,
                                   r, to_string(expected[r].type), got[k], want[k]);
    }
    return {};
}

} // namespace lz::tools
