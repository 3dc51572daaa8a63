#include "lz_opt_run.h"

#include "codegen/codegen.h"
#include "codegen/kernel_cache.h"
#include "ir/diagnostic.h"
#include "runtime/caching_allocator.h"
#include "runtime/cpu_backend.h"
#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace lz::tools {

using namespace ir;

namespace {

/// Memory of the allocator for as long as a run needs it.
class Block {
public:
    Block(runtime::CachingAllocator &allocator, int64_t bytes)
        : allocator_(&allocator), memory_(allocator.allocate(static_cast<size_t>(bytes))) {}
    Block(Block &&other) noexcept
        : allocator_(other.allocator_), memory_(std::exchange(other.memory_, nullptr)) {}
    ~Block() { allocator_->free(memory_); }
    void *get() const { return memory_; }

private:
    runtime::CachingAllocator *allocator_;
    void *memory_;
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
                                    std::span<const HostTensor> inputs) {
    codegen::KernelCache cache(target.cpu, {});
    std::vector<runtime::LoadedKernel> kernels;
    for (const codegen::LoadedKernelPtr &kernel : cache.get_all(program.kernels))
        kernels.push_back({kernel->module, kernel->symbols});

    runtime::CpuBackend backend(codegen::cpu_loader());
    runtime::CachingAllocator allocator(backend);
    std::vector<runtime::DeviceSlot> devices{{&backend, &allocator, nullptr}};
    const runtime::LoadedProgram loaded(program, std::move(kernels), std::move(devices));

    std::vector<Block> blocks;
    blocks.reserve(inputs.size() + graph.results.size());
    std::vector<void *> input_memory, result_memory;
    for (const HostTensor &input : inputs) {
        blocks.emplace_back(allocator, input.type.bytes());
        if (!input.bytes.empty())
            std::memcpy(blocks.back().get(), input.bytes.data(), input.bytes.size());
        input_memory.push_back(blocks.back().get());
    }
    for (size_t r = 0; r < graph.results.size(); ++r) {
        if (const int donor = program.buffers[program.results[r]].donor; donor >= 0) {
            result_memory.push_back(input_memory[program.buffers[static_cast<size_t>(donor)].index]);
            continue;
        }
        blocks.emplace_back(allocator, graph.type(graph.results[r]).bytes());
        result_memory.push_back(blocks.back().get());
    }
    const runtime::RunReport report =
        runtime::run(loaded, {input_memory, result_memory, graph.runtime_words()}).report;
    if (!report.ok())
        throw report.failures.front().failure;

    std::vector<HostTensor> results;
    for (size_t r = 0; r < graph.results.size(); ++r) {
        const TensorType &type = graph.type(graph.results[r]);
        HostTensor &result =
            results.emplace_back(type, std::vector<std::byte>(static_cast<size_t>(type.bytes())));
        if (!result.bytes.empty())
            std::memcpy(result.bytes.data(), result_memory[r], result.bytes.size());
    }
    return results;
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
