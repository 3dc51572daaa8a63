// Graphs and their nodes.

#include "tests/support/cuda/driver/graphs/graph.h"

#include "tests/support/cuda/driver/memory/memory.h"
#include "tests/support/cuda/driver/modules/launch.h"
#include "tests/support/cuda/driver/streams/event.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::fake_cuda {

Handles<CUgraph, Graph> &graphs() {
    static auto *const all = new Handles<CUgraph, Graph>("graph");
    return *all;
}

Handles<CUgraphNode, Node> &nodes() {
    static auto *const all = new Handles<CUgraphNode, Node>("node");
    return *all;
}

Node &add_node(Graph &graph, CUgraphNodeType type, const Context &context, Work work,
               std::vector<Node *> after) {
    auto node = std::make_shared<Node>();
    node->graph = &graph;
    node->type = type;
    node->context = &context;
    node->work = std::move(work);
    node->after = std::move(after);
    node->handle = nodes().add(node);
    graph.nodes.push_back(node);
    return *node;
}

void destroy_graph(CUgraph handle) {
    const auto graph = graphs().remove(handle);
    for (const auto &node : graph->nodes)
        nodes().remove(node->handle);
}

CUgraphNodeType type_of(const Work &work) {
    struct Types {
        CUgraphNodeType operator()(const KernelWork &) const { return CU_GRAPH_NODE_TYPE_KERNEL; }
        CUgraphNodeType operator()(const CopyWork &) const { return CU_GRAPH_NODE_TYPE_MEMCPY; }
        CUgraphNodeType operator()(const FillWork &) const { return CU_GRAPH_NODE_TYPE_MEMSET; }
        CUgraphNodeType operator()(const HostWork &) const { return CU_GRAPH_NODE_TYPE_HOST; }
        CUgraphNodeType operator()(const CallWork &) const { return CU_GRAPH_NODE_TYPE_KERNEL; }
        CUgraphNodeType operator()(const RecordWork &) const { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
        CUgraphNodeType operator()(const WaitWork &) const { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
        CUgraphNodeType operator()(const EmptyWork &) const { return CU_GRAPH_NODE_TYPE_EMPTY; }
        CUgraphNodeType operator()(const FreeWork &) const { return none(); }
        CUgraphNodeType operator()(const GraphWork &) const { return CU_GRAPH_NODE_TYPE_GRAPH; }
        CUgraphNodeType operator()(const ValueWaitWork &) const { return none(); }
        CUgraphNodeType operator()(const ValueWriteWork &) const { return none(); }
        static CUgraphNodeType none() {
            refuse(CUDA_ERROR_NOT_SUPPORTED, "the fake driver has no such nodes");
        }
    };
    return std::visit(Types{}, work);
}

KernelWork kernel_node_work(Lock &lock, const CUDA_KERNEL_NODE_PARAMS *p, Context &context) {
    need(p, "nodeParams");
    return kernel_work(lock,
                       {p->func ? p->func : reinterpret_cast<CUfunction>(p->kern),
                        {p->gridDimX, p->gridDimY, p->gridDimZ},
                        {p->blockDimX, p->blockDimY, p->blockDimZ},
                        p->sharedMemBytes,
                        p->kernelParams,
                        p->extra},
                       context);
}

namespace {

/// One side of a copy of one row.
uint64_t side(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t bytes,
              const Context &context, const char *name) {
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        need(host, name);
        return reinterpret_cast<uint64_t>(host) + x;
    case CU_MEMORYTYPE_DEVICE:
        check_range(device + x, bytes, context, name);
        return device + x;
    case CU_MEMORYTYPE_UNIFIED:
        if (address_space().holds(device))
            check_range(device + x, bytes, context, name);
        return device + x;
    default:
        refuse(CUDA_ERROR_NOT_SUPPORTED, "arrays are not there");
    }
}

std::vector<Node *> nodes_of(const Graph &graph, const CUgraphNode *handles, size_t count) {
    std::vector<Node *> list;
    if (count != 0)
        need(handles, "dependencies");
    for (size_t i = 0; i < count; ++i) {
        if (!nodes().has(handles[i]) || nodes().get(handles[i])->graph != &graph)
            refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("dependency {} is no node of the graph", i));
        Node *node = nodes().get(handles[i]).get();
        if (std::ranges::find(list, node) != list.end())
            refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("dependency {} is given twice", i));
        list.push_back(node);
    }
    return list;
}

/// The body of the functions cuGraphAdd...Node: make(lock, context) is the node's work.
template <class F>
CUresult add(const char *function, CUgraphNode *node, CUgraph handle, const CUgraphNode *after, size_t count,
             F &&make) {
    return call(function, [&](Lock &lock) {
        Context &context = current_context();
        need(node, "phGraphNode");
        const auto graph = graphs().get(handle);
        auto dependencies = nodes_of(*graph, after, count);
        Work work = make(lock, context);
        const CUgraphNodeType type = type_of(work);
        *node = add_node(*graph, type, context, std::move(work), std::move(dependencies)).handle;
    });
}

/// Writes handles as the driver does: with no array, how many there are.
template <class L>
void list_handles(const L &list, CUgraphNode *to, size_t *count) {
    need(count, "count");
    if (to)
        for (size_t i = 0; i < *count; ++i)
            to[i] = i < list.size() ? list[i]->handle : nullptr;
    *count = to ? std::min(*count, list.size()) : list.size();
}

} // namespace

CopyWork copy_node_work(const CUDA_MEMCPY3D *p, const Context &context) {
    need(p, "copyParams");
    if (p->Height > 1 || p->Depth > 1 || p->srcY || p->srcZ || p->dstY || p->dstZ)
        refuse(CUDA_ERROR_NOT_SUPPORTED, "the fake driver copies one row");
    if (p->WidthInBytes == 0 || p->Height == 0 || p->Depth == 0)
        refuse(CUDA_ERROR_INVALID_VALUE, "nothing is copied");
    return {side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->WidthInBytes, context, "dst"),
            side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->WidthInBytes, context, "src"),
            p->WidthInBytes, nullptr};
}

FillWork fill_node_work(const CUDA_MEMSET_NODE_PARAMS *p, const Context &context) {
    need(p, "memsetParams");
    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || p->dst % p->elementSize != 0 ||
        p->width == 0 || p->height == 0 || (p->height > 1 && p->pitch < p->width * p->elementSize))
        refuse(CUDA_ERROR_INVALID_VALUE, "sizes, alignment or pitch of the fill");
    check_range(p->dst, (p->height - 1) * p->pitch + p->width * p->elementSize, context, "dst");
    return {p->dst, p->value, p->elementSize, p->width, p->height, p->pitch};
}

} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    return call(__func__, [&](Lock &) {
        need(graph, "phGraph");
        if (flags != 0)
            refuse(CUDA_ERROR_INVALID_VALUE, "flags have to be 0");
        auto g = std::make_shared<Graph>();
        g->handle = *graph = graphs().add(g);
    });
}

CUresult cuGraphDestroy(CUgraph graph) {
    return call(__func__, [&](Lock &) { destroy_graph(graph); });
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS *params) {
    return add(__func__, node, graph, after, count,
               [&](Lock &lock, Context &c) -> Work { return kernel_node_work(lock, params, c); });
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                              const CUDA_MEMCPY3D *params, CUcontext context) {
    return add(__func__, node, graph, after, count,
               [&](Lock &, Context &) -> Work { return copy_node_work(params, context_of(context)); });
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context) {
    return add(__func__, node, graph, after, count,
               [&](Lock &, Context &) -> Work { return fill_node_work(params, context_of(context)); });
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                            const CUDA_HOST_NODE_PARAMS *params) {
    return add(__func__, node, graph, after, count, [&](Lock &, Context &) -> Work {
        need(params, "nodeParams");
        need(params->fn, "fn");
        return HostWork{params->fn, params->userData};
    });
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count) {
    return add(__func__, node, graph, after, count, [](Lock &, Context &) -> Work { return EmptyWork{}; });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                  CUgraph child) {
    return add(__func__, node, graph, after, count, [&](Lock &, Context &) -> Work {
        if (child == graph)
            refuse(CUDA_ERROR_INVALID_VALUE, "a graph within itself");
        return child_work(child);
    });
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                   CUevent event) {
    return add(__func__, node, graph, after, count,
               [&](Lock &, Context &) -> Work { return RecordWork{nullptr, events().get(event)}; });
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                 CUevent event) {
    return add(__func__, node, graph, after, count,
               [&](Lock &, Context &) -> Work { return WaitWork{nullptr, events().get(event)}; });
}

#if CUDA_VERSION >= 12030
CUresult cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *, size_t count) {
    return call(__func__, [&](Lock &) {
        const auto graph = graphs().get(handle);
        for (size_t i = 0; i < count; ++i) {
            need(from, "from");
            need(to, "to");
            Node *const first = nodes_of(*graph, from + i, 1)[0], *const second =
                                                                      nodes_of(*graph, to + i, 1)[0];
            if (first == second || std::ranges::find(second->after, first) != second->after.end())
                refuse(CUDA_ERROR_INVALID_VALUE, "a node before itself, or an edge that is there");
            second->after.push_back(first);
        }
    });
}
#endif

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *to, size_t *count) {
    return call(__func__, [&](Lock &) { list_handles(graphs().get(graph)->nodes, to, count); });
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *to, size_t *count) {
    return call(__func__, [&](Lock &) {
        auto roots = graphs().get(graph)->nodes;
        std::erase_if(roots, [](const auto &n) { return !n->after.empty(); });
        list_handles(roots, to, count);
    });
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    return call(__func__, [&](Lock &) {
        need(type, "type");
        *type = nodes().get(node)->type;
    });
}

#if CUDA_VERSION >= 12030
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *to, CUgraphEdgeData *edges,
                                       size_t *count) {
    return call(__func__, [&](Lock &) {
        list_handles(nodes().get(node)->after, to, count);
        if (edges)
            std::fill_n(edges, *count, CUgraphEdgeData{});
    });
}
#endif

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *params) {
    return call(__func__, [&](Lock &lock) {
        const auto node = nodes().get(handle);
        if (node->type != CU_GRAPH_NODE_TYPE_KERNEL)
            refuse(CUDA_ERROR_INVALID_VALUE, "this is no node of a kernel");
        node->work = kernel_node_work(lock, params, current_context());
    });
}
