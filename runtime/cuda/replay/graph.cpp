#include "runtime/cuda/replay/graph.h"

#include "runtime/streams/threads.h"

#include <algorithm>
#include <cstring>

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

void append(std::vector<uint64_t> &key, const void *words, size_t bytes) {
    if (bytes == 0)
        return;
    const size_t at = key.size();
    key.resize(at + bytes / sizeof(uint64_t));
    std::memcpy(key.data() + at, words, bytes);
}

/// Everything by which two calls of one step may differ.
void append_key(std::vector<uint64_t> &key, const LibraryArgs &args) {
    append(key, args.buffers.data(), args.buffers.size_bytes());
    append(key, args.ints.data(), args.ints.size_bytes());
    key.insert(key.end(), {reinterpret_cast<uintptr_t>(args.fault),
                           reinterpret_cast<uintptr_t>(args.scratch.data()), args.scratch.size()});
}

/// Appends what `words_of(launch, frame)` of all frames are. Those of a run lie one behind the other, in the
/// order of its launches, and are copied at once.
template <class F>
void append_frames(std::vector<uint64_t> &key, std::span<const Backend::Launch> launches, F words_of) {
    const std::byte *begin = nullptr, *end = nullptr;
    for (const Backend::Launch &launch : launches)
        for (uint32_t s = 0; s < launch.segments; ++s) {
            const std::span<const std::byte> words = std::as_bytes(words_of(launch, s));
            if (words.data() != end) {
                append(key, begin, static_cast<size_t>(end - begin));
                begin = end = words.data();
            }
            end += words.size();
        }
    append(key, begin, static_cast<size_t>(end - begin));
}

/// Everything by which two runs of the launches may differ: which entries they take and how many blocks
/// follows from it.
void append_key(std::vector<uint64_t> &key, std::span<const Backend::Launch> launches) {
    using Launch = Backend::Launch;
    append_frames(key, launches,
                  [](const Launch &l, uint32_t s) { return std::span(l.frames[s].buffers, l.buffers); });
    append_frames(key, launches,
                  [](const Launch &l, uint32_t s) { return std::span(l.frames[s].args, l.args); });
    append_frames(key, launches,
                  [](const Launch &l, uint32_t s) { return std::span(l.frames[s].scalars, l.scalars); });
    append_frames(key, launches, [](const Launch &l, uint32_t s) { return std::span(l.ends + s, 1); });
    for (const Launch &launch : launches)
        for (uint32_t s = 0; s < launch.segments; ++s)
            if (launch.frames[s].fault)
                key.push_back(reinterpret_cast<uintptr_t>(launch.frames[s].fault));
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
    if (!fill_key(replay, stream.number())) {
        never_ = true;
        return nullptr;
    }
    try {
        return find_or_make(replay, stream);
    } catch (const ir::Failure &) { // step by step it may work
        device_.group()->check();
        never_ = true;
        return nullptr;
    }
}

CUgraphExec GraphReplay::find_or_make(const Backend::Replay &replay, CudaStream &stream) {
    const auto found = std::ranges::find(instances_, key_, &Instance::key);
    if (found != instances_.end()) {
        found->used = ++clock_;
        return found->exec;
    }
    if (instances_.size() < kInstances) {
        instances_.reserve(kInstances);
        instances_.push_back(build(replay, stream));
        instances_.back().key = key_;
        instances_.back().used = ++clock_;
        return instances_.back().exec;
    }
    Instance &oldest = *std::ranges::min_element(instances_, {}, &Instance::used);
    oldest.key.clear(); // until it is known what it holds
    if (oldest.steps != replay.steps.size() || !update(oldest, replay, stream)) {
        Instance made = build(replay, stream);
        destroy(oldest);
        oldest = std::move(made);
    }
    oldest.key = key_;
    oldest.used = ++clock_;
    return oldest.exec;
}

/// False where the steps cannot be a graph.
bool GraphReplay::fill_key(const Backend::Replay &replay, StreamId stream) {
    key_.assign(1, replay.steps.size());
    append_key(key_, replay.launches);
    for (const Backend::Call &call : replay.calls) {
        if (!call.function.is_repeatable())
            return false;
        append_key(key_, call.args);
    }
    for (const Backend::Copy &copy : replay.copies)
        key_.insert(key_.end(), {reinterpret_cast<uintptr_t>(copy.to), reinterpret_cast<uintptr_t>(copy.from),
                                 copy.bytes});
    if (!has_tables_)
        has_tables_ = std::ranges::any_of(replay.launches, has_table);
    if (*has_tables_) // they are free when that stream has come to the instance's end
        key_.push_back(static_cast<uint64_t>(stream));
    return true;
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
