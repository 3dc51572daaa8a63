#include "compare.h"

#include "ir/text.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cmath>
#include <cstring>

namespace lz::test {
namespace {

double epsilon(ir::DType dtype) {
    switch (dtype) {
    case ir::DType::F16:
        return 0x1p-10;
    case ir::DType::BF16:
        return 0x1p-7;
    case ir::DType::F32:
        return 0x1p-23;
    case ir::DType::F64:
        return 0x1p-46; // transcendental functions are compared with libm's
    default:
        return 0;
    }
}

} // namespace

std::vector<ir::HostTensor> inputs_of(const ir::Graph &graph) {
    std::vector<ir::HostTensor> inputs;
    uint64_t seed = 1;
    for (ir::Param param : graph.params) {
        if (param.init == ir::InitKind::None) {
            param.init = ir::InitKind::Random;
            param.seed = seed;
        }
        inputs.push_back(ir::materialize_param(graph, param));
        ++seed;
    }
    return inputs;
}

std::vector<ir::HostTensor> run_compiled(const ir::Graph &graph, const std::vector<ir::HostTensor> &inputs) {
    engine::Engine &engine = engine::Engine::get();
    const std::string text = ir::print(graph);
    std::vector<uint64_t> key(text.size() / 8 + 2);
    std::memcpy(key.data(), text.data(), text.size());
    key.back() = text.size();
    const uint64_t hash = XXH3_64bits(key.data(), key.size() * 8);
    engine::ExecutablePtr executable = engine.find(key, hash);
    if (!executable)
        executable = engine.compile(key, hash, graph);

    std::vector<ir::HostTensor> copies = inputs; // donated ones may be overwritten
    std::vector<void *> in, out;
    // Storage the way the engine has it: aligned.
    std::vector<void *> owned;
    for (const ir::HostTensor &t : copies) {
        void *memory = engine.allocate(t.type.bytes(), ir::kCpu);
        if (!t.bytes.empty())
            std::memcpy(memory, t.bytes.data(), t.bytes.size());
        owned.push_back(memory);
        in.push_back(memory);
    }
    for (size_t r = 0; r < graph.results.size(); ++r) {
        const int donor = engine.donor(*executable, r);
        if (donor < 0)
            owned.push_back(engine.allocate(graph.type(graph.results[r]).bytes(), ir::kCpu));
        out.push_back(donor < 0 ? owned.back() : in[static_cast<size_t>(donor)]);
    }
    const engine::RunReport report = engine.run(*executable, {in, out, graph.runtime_words()});
    std::vector<ir::HostTensor> results;
    for (size_t r = 0; r < out.size(); ++r) {
        ir::HostTensor t{graph.type(graph.results[r]), {}};
        t.bytes.resize(static_cast<size_t>(t.type.bytes()));
        if (!t.bytes.empty())
            std::memcpy(t.bytes.data(), out[r], t.bytes.size());
        results.push_back(std::move(t));
    }
    for (void *memory : owned)
        engine.free(memory, ir::kCpu);
    if (!report.ok())
        throw report.failures[0].failure;
    return results;
}

std::string different_bits(const std::vector<ir::HostTensor> &a, const std::vector<ir::HostTensor> &b) {
    for (size_t r = 0; r < a.size(); ++r) {
        const auto size = static_cast<size_t>(ir::size_of(a[r].type.dtype));
        for (size_t i = 0; i < a[r].bytes.size() / size; ++i)
            if (std::memcmp(a[r].bytes.data() + i * size, b[r].bytes.data() + i * size, size) != 0) {
                const double x = ir::to_doubles(a[r])[i], y = ir::to_doubles(b[r])[i];
                if (std::isnan(x) && std::isnan(y)) // payloads are not promised
                    continue;
                return fmt::format("result {} ({}) differs at element {}: {:.17g} against {:.17g}", r,
                                   ir::to_string(a[r].type), i, x, y);
            }
    }
    return "";
}

std::string different_values(const std::vector<ir::HostTensor> &got, const std::vector<ir::HostTensor> &want,
                             double tolerance) {
    for (size_t r = 0; r < want.size(); ++r) {
        const std::vector<double> x = ir::to_doubles(got[r]), y = ir::to_doubles(want[r]);
        double scale = 1;
        for (const double v : y)
            if (std::isfinite(v))
                scale = std::max(scale, std::fabs(v));
        const double allowed = tolerance * epsilon(want[r].type.dtype) * scale;
        for (size_t i = 0; i < y.size(); ++i) {
            const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
            if (!same && !(std::fabs(x[i] - y[i]) <= allowed))
                return fmt::format(
                    "result {} ({}) differs at element {}: got {:.17g}, want {:.17g}, allowed {:.3g}", r,
                    ir::to_string(want[r].type), i, x[i], y[i], allowed);
        }
    }
    return "";
}

std::string check(const ir::Graph &graph, double tolerance) {
    try {
        const std::vector<ir::HostTensor> inputs = inputs_of(graph);
        const std::string difference =
            different_values(run_compiled(graph, inputs), ir::interpret(graph, inputs), tolerance);
        return difference.empty() ? "" : difference + "\n" + ir::print(graph);
    } catch (const ir::Failure &failure) {
        return failure.message() + "\n" + ir::print(graph);
    }
}

} // namespace lz::test
