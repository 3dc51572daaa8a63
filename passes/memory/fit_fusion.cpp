#include "passes/memory/fit_fusion.h"

#include "ir/text/sentences.h"
#include "passes/memory/plan_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

/// Bytes beyond the memory of GPUs.
int64_t bytes_beyond_memory(const Target &target, const std::function<int64_t(Device)> &needed) {
    int64_t bytes = 0;
    for (const DeviceInfo &device : target.devices)
        if (device.device != kCpu && device.memory_bytes > 0)
            bytes += std::max<int64_t>(needed(device.device) - device.memory_bytes, 0);
    return bytes;
}

int64_t missing_bytes(const Program &program, const Target &target) {
    return bytes_beyond_memory(target, [&](Device device) {
        return planned_bytes(program.arenas, program.buffers, program.results, device);
    });
}

int64_t missing_bytes(const Graph &graph, const Target &target) {
    return bytes_beyond_memory(target, [&](Device device) {
        int64_t bytes = 0;
        for (const Value &v : graph.values())
            bytes += v.type.device == device ? v.type.bytes() : 0;
        return bytes;
    });
}

} // namespace

Graph graph_to_fit(const Graph &graph, const Target &target) {
    return target.modes.fuse && missing_bytes(graph, target) > 0 ? graph : Graph();
}

void fit_fusion(Program &program, Graph &graph, Graph unfused, const Target &target, bool explained,
                const CompileFused &compile) {
    const int64_t missing = missing_bytes(program, target);
    if (missing == 0 || unfused.nodes().empty())
        return;
    Target apart = target;
    apart.modes.fuse = false;
    Program other = compile(unfused, apart);
    if (missing_bytes(other, target) >= missing)
        return;
    if (explained)
        other.notes.push_back(fmt::format("Every operation is its own kernel, because fused they would "
                                          "need {} more than GPUs have.",
                                          bytes_text(missing)));
    program = std::move(other);
    graph = std::move(unfused);
}

} // namespace lz::passes
