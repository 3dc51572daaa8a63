#include "runtime/cuda/replay/graph.h"

#include "runtime/streams/threads.h"

#include <algorithm>

namespace lz::runtime::cuda {

namespace {

using Kind = Backend::Replay::Kind;

CUDA_MEMCPY3D copy_of(const Backend::Copy &copy) {
    CUDA_MEMCPY3D params{};
    params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    params.srcDevice = reinterpret_cast<CUdeviceptr>(copy.from);
    params.dstDevice = reinterpret_cast<CUdeviceptr>(copy.to);
    params.WidthInBytes = copy.bytes;
    params.Height = params.Depth = 1;
    return params;
}

bool is_empty(const CudaDevice &device, const OwnedGraph &graph) {
    size_t count = 0;
    device.check(device.driver().cuGraphGetNodes(graph.get(), nullptr, &count), "asking what is captured");
    return count == 0;
}

} // namespace

GraphReplay::~GraphReplay() {
    if (in_forked_child())
        return;
    const Current current(device_.driver(), device_.context());
    for (Instance &instance : instances_)
        destroy(instance);
}

void GraphReplay::destroy(Instance &instance) const noexcept {
    if (instance.exec)
        device_.driver().cuGraphExecDestroy(instance.exec);
    if (instance.graph)
        device_.driver().cuGraphDestroy(instance.graph);
}

CUgraphExec GraphReplay::instance(const Backend::Replay &replay, CudaStream &stream) {
    if (never_ || !std::exchange(seen_, true))
        return nullptr;
    const auto found = std::ranges::find_if(
        instances_, [&](const Instance &instance) { return holds(instance, replay, stream.number()); });
    if (found != instances_.end()) {
        found->used = ++clock_;
        return found->exec;
    }
    replay.fill();
    if (!std::ranges::all_of(replay.calls,
                             [](const Backend::Call &call) { return call.function.is_repeatable(); })) {
        never_ = true;
        return nullptr;
    }
    try {
        return make(replay, stream);
    } catch (const ir::Failure &failure) { // step by step it may work
        device_.group()->check();
        // A kernel that was not made (entry_for) is asked for again by its step, and by the next run.
        never_ = failure.kind() != ir::ErrorKind::Compile;
        return nullptr;
    }
}

bool GraphReplay::holds(const Instance &instance, const Backend::Replay &replay, StreamId stream) {
    return instance.known && instance.steps == replay.steps.size() &&
           std::ranges::equal(instance.key, replay.key) &&
           (instance.tables.empty() || instance.stream == stream);
}

/// A new instance, or the oldest one with what the run has now.
CUgraphExec GraphReplay::make(const Backend::Replay &replay, CudaStream &stream) {
    instances_.reserve(kInstances);
    Instance *made = nullptr;
    if (instances_.size() < kInstances) {
        made = &instances_.emplace_back(build(replay, stream));
    } else {
        made = &*std::ranges::min_element(instances_, {}, &Instance::used);
        made->known = false;
        if (made->steps != replay.steps.size() || !update(*made, replay, stream)) {
            Instance other = build(replay, stream);
            destroy(*made);
            *made = std::move(other);
        }
        made->known = true;
    }
    made->key.assign(replay.key.begin(), replay.key.end());
    made->stream = stream.number();
    made->used = ++clock_;
    return made->exec;
}

CUDA_KERNEL_NODE_PARAMS GraphReplay::node_of(DriverLaunch &launch, Tables &tables, CudaStream &stream) const {
    if (const size_t bytes = launch.table_bytes(); bytes > 0) {
        tables.push_back(std::make_unique<PinnedBlocks::Lease>(pinned_, bytes, stream));
        launch.set_table(tables.back()->memory());
    }
    return launch.node();
}

GraphReplay::Instance GraphReplay::build(const Backend::Replay &replay, CudaStream &stream) const {
    const Driver &driver = device_.driver();
    Instance made;
    made.steps = replay.steps.size();
    // By stream: what the next node on it comes after.
    std::vector<std::vector<CUgraphNode>> before(replay.streams.size());
    std::vector<std::vector<CUgraphNode>> recorded(replay.event_ticks.size());
    try {
        device_.check(driver.cuGraphCreate(&made.graph, 0), "making a graph");
        const auto added = [&](uint32_t stream, CUgraphNode node) {
            before[stream] = {node};
            made.nodes.push_back(node);
        };
        for (const Backend::Replay::Step &step : replay.steps) {
            std::vector<CUgraphNode> &after = before[step.stream];
            switch (step.kind) {
            case Kind::Launch:
                for_each_driver_launch(device_, replay.launches[step.index], [&](DriverLaunch &launch) {
                    const CUDA_KERNEL_NODE_PARAMS params = node_of(launch, made.tables, stream);
                    CUgraphNode node = nullptr;
                    device_.check(
                        driver.cuGraphAddKernelNode(&node, made.graph, after.data(), after.size(), &params),
                        "adding a kernel to a graph");
                    added(step.stream, node);
                });
                break;
            case Kind::Copy: {
                const CUDA_MEMCPY3D params = copy_of(replay.copies[step.index]);
                if (params.WidthInBytes == 0)
                    break;
                CUgraphNode node = nullptr;
                device_.check(driver.cuGraphAddMemcpyNode(&node, made.graph, after.data(), after.size(),
                                                          &params, device_.context()),
                              "adding a copy to a graph");
                added(step.stream, node);
                break;
            }
            case Kind::Record:
                recorded[step.index] = after;
                break;
            case Kind::Wait:
                for (const CUgraphNode node : recorded[step.index])
                    if (std::ranges::find(after, node) == after.end())
                        after.push_back(node);
                break;
            case Kind::Call: {
                const OwnedGraph captured = capture_.capture(replay.calls[step.index]);
                if (is_empty(device_, captured)) {
                    made.nodes.push_back(nullptr);
                    break;
                }
                CUgraphNode node = nullptr;
                device_.check(driver.cuGraphAddChildGraphNode(&node, made.graph, after.data(), after.size(),
                                                              captured.get()),
                              "adding a library call to a graph");
                added(step.stream, node);
                break;
            }
            }
        }
        device_.check(driver.cuGraphInstantiateWithFlags(&made.exec, made.graph, 0), "making a graph ready");
    } catch (...) {
        destroy(made);
        throw;
    }
    return made;
}

/// False where the graph is not of this shape: then nobody knows what the instance holds.
bool GraphReplay::update(Instance &instance, const Backend::Replay &replay, CudaStream &stream) const {
    const Driver &driver = device_.driver();
    Tables tables;
    size_t next = 0;
    for (const Backend::Replay::Step &step : replay.steps) {
        if (step.kind == Kind::Launch)
            for_each_driver_launch(device_, replay.launches[step.index], [&](DriverLaunch &launch) {
                const CUDA_KERNEL_NODE_PARAMS params = node_of(launch, tables, stream);
                device_.check(
                    driver.cuGraphExecKernelNodeSetParams(instance.exec, instance.nodes[next++], &params),
                    "updating a graph");
            });
        if (step.kind == Kind::Copy && replay.copies[step.index].bytes > 0) {
            const CUDA_MEMCPY3D params = copy_of(replay.copies[step.index]);
            device_.check(driver.cuGraphExecMemcpyNodeSetParams(instance.exec, instance.nodes[next++],
                                                                &params, device_.context()),
                          "updating a graph");
        }
        if (step.kind == Kind::Call) {
            const OwnedGraph captured = capture_.capture(replay.calls[step.index]);
            CUgraphNode const node = instance.nodes[next++];
            if (is_empty(device_, captured) != (node == nullptr))
                return false;
            if (!node)
                continue;
            const CUresult result =
                driver.cuGraphExecChildGraphNodeSetParams(instance.exec, node, captured.get());
            if (is_sticky(result))
                device_.check(result, "updating a graph");
            if (result != CUDA_SUCCESS)
                return false;
        }
    }
    instance.tables = std::move(tables);
    return true;
}

} // namespace lz::runtime::cuda
