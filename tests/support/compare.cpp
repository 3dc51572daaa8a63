#include "tests/support/compare.h"

#include "frontend/engine/devices.h"
#include "ir/program/memory_use.h"
#include "ir/text/text.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
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

engine::ExecutablePtr compiled(const ir::Graph &graph) {
    engine::Engine &engine = engine::Engine::get();
    const std::string text = ir::print(graph);
    std::vector<uint64_t> key(text.size() / 8 + 2);
    std::memcpy(key.data(), text.data(), text.size());
    key.back() = text.size();
    const uint64_t hash = XXH3_64bits(key.data(), key.size() * 8);
    engine::ExecutablePtr executable = engine.find(key, hash);
    if (!executable)
        executable = engine.compile(key, hash, graph);
    return executable;
}

GraphRun::GraphRun(const ir::Graph &graph, const std::vector<ir::HostTensor> &inputs)
    : graph_(graph), executable_(compiled(graph)),
      words_(graph.runtime_words().begin(), graph.runtime_words().end()) {
    engine::Engine &engine = engine::Engine::get();
    for (const ir::HostTensor &t : inputs) {
        engine::ValueMemory &block = blocks_.emplace_back();
        engine.allocate(block, t.type.bytes(), {t.type.device, ir::kDefaultStream});
        upload(t, block);
        in_.push_back(&block);
    }
    for (size_t r = 0; r < graph.results.size(); ++r) {
        const int donor = engine.donor(*executable_, r);
        if (donor < 0)
            engine.allocate(blocks_.emplace_back(), graph.type(graph.results[r]).bytes(),
                            engine.result_home(*executable_, r));
        out_.push_back(donor < 0 ? &blocks_.back() : in_[static_cast<size_t>(donor)]);
    }
    bind_effects();
}

GraphRun::~GraphRun() {
    for (engine::ValueMemory &block : blocks_)
        engine::Engine::get().free(block);
}

void GraphRun::upload(const ir::HostTensor &t, engine::ValueMemory &block) {
    if (t.bytes.empty())
        return;
    if (t.type.device == ir::kCpu) {
        std::memcpy(block.data, t.bytes.data(), t.bytes.size());
        return;
    }
    // From memory that lives as long as the copy.
    const ir::StreamRef stream{t.type.device, ir::kDefaultStream};
    engine::Engine::get()
        .devices()
        .backend(t.type.device)
        .copy(block.data, t.bytes.data(), t.bytes.size(), 0);
    const ir::Point end = engine::record(stream);
    engine::Engine::track(block)->written(end);
    engine::synchronize({&end, 1});
}

/// Runtime words of effects are numbers in the graph's text and addresses when it runs.
void GraphRun::bind_effects() {
    for (const ir::Node &node : graph_.nodes()) {
        if (node.op != ir::Op::RecordEvent && node.op != ir::Op::WaitEvent && node.op != ir::Op::HostCallback)
            continue;
        int64_t &word = words_[node.runtime_begin];
        if (node.op == ir::Op::HostCallback) {
            callbacks_.push_back(std::make_unique<engine::Callback>([this] { ++called_; }));
            word = callbacks_.back()->word();
        } else {
            auto &event = events_[word];
            if (!event)
                event = std::make_unique<engine::EventHandle>(false);
            word = event->word();
        }
    }
}

void GraphRun::launch() {
    const auto pointers = [](const std::vector<engine::ValueMemory *> &of) {
        std::vector<void *> memory;
        for (const engine::ValueMemory *block : of)
            memory.push_back(block->data);
        return memory;
    };
    engine::Engine &engine = engine::Engine::get();
    const bool on_streams = !engine.cpu_only(*executable_);
    const auto uses = [&](const std::vector<engine::ValueMemory *> &of) {
        std::vector<ir::MemoryUse *> all;
        for (engine::ValueMemory *block : of)
            if (on_streams)
                all.push_back(engine::Engine::track(*block));
        return all;
    };
    const std::vector<void *> in_memory = pointers(in_), out_memory = pointers(out_);
    const std::vector<ir::MemoryUse *> in_uses = uses(in_), out_uses = uses(out_);
    launched_ = engine.run(*executable_, {in_memory, out_memory, words_, {}, in_uses, out_uses, &ends_});
}

ir::Interpreted GraphRun::outcome() {
    engine::Engine &engine = engine::Engine::get();
    engine::synchronize(ends_);
    if (launched_.flight) {
        ir::RunReport later = launched_.flight->finish({});
        for (auto &failed : later.failures)
            launched_.report.failures.push_back(std::move(failed));
    }
    ir::Interpreted out;
    std::vector<bool> lost(out_.size(), false);
    for (const auto &[failure, results] : launched_.report.failures) {
        out.failures.push_back({failure, results});
        for (const uint32_t r : results)
            lost[r] = true;
    }
    for (size_t r = 0; r < out_.size(); ++r) {
        ir::HostTensor &t = out.results.emplace_back(ir::HostTensor{graph_.type(graph_.results[r]), {}});
        if (lost[r])
            continue;
        t.bytes.resize(static_cast<size_t>(t.type.bytes()));
        if (t.bytes.empty()) {
        } else if (t.type.device == ir::kCpu) {
            std::memcpy(t.bytes.data(), out_[r]->data, t.bytes.size());
        } else {
            engine.devices().backend(t.type.device).copy(t.bytes.data(), out_[r]->data, t.bytes.size(), 0);
            const ir::Point end = engine::record({t.type.device, ir::kDefaultStream});
            engine::synchronize({&end, 1});
        }
    }
    return out;
}

std::vector<ir::HostTensor> GraphRun::results() {
    ir::Interpreted all = outcome();
    if (!all.failures.empty())
        throw all.failures[0].failure;
    return std::move(all.results);
}

std::vector<ir::HostTensor> run_compiled(const ir::Graph &graph, const std::vector<ir::HostTensor> &inputs) {
    GraphRun run(graph, inputs);
    run.launch();
    return run.results();
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

std::string wrong_result(size_t r, const ir::HostTensor &got, const ir::HostTensor &want,
                         const std::vector<double> &tolerance) {
    const std::vector<double> x = ir::to_doubles(got), y = ir::to_doubles(want);
    for (size_t i = 0; i < y.size(); ++i) {
        const double allowed = r < tolerance.size() ? tolerance[r] : 1e-2 * std::max(1.0, std::fabs(y[i]));
        const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
        const bool huge = !std::isfinite(y[i]) || std::fabs(y[i]) > 1e4; // see RandomGraph
        if (!same && !(std::fabs(x[i] - y[i]) <= allowed) && !(huge && tolerance.empty()))
            return fmt::format(
                "result {} ({}) differs at element {}: got {:.9g}, want {:.9g}, allowed {:.3g}", r,
                ir::to_string(want.type), i, x[i], y[i], allowed);
    }
    return "";
}

std::string
wrong(const ir::Graph &graph, const std::vector<double> &tolerance,
      const std::function<std::vector<ir::HostTensor>(const std::vector<ir::HostTensor> &)> &run) {
    const std::vector<ir::HostTensor> inputs = inputs_of(graph);
    std::vector<ir::HostTensor> want, got;
    try {
        want = ir::interpret(graph, inputs);
    } catch (const ir::Failure &) {
        return "";
    }
    try {
        got = run(inputs);
    } catch (const std::exception &error) {
        return error.what();
    }
    for (size_t r = 0; r < want.size(); ++r)
        if (const std::string what = wrong_result(r, got[r], want[r], tolerance); !what.empty())
            return what;
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
