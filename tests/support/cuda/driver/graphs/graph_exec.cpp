// Graphs as they run: instantiated, updated, launched.

#include "tests/support/cuda/driver/graphs/capture.h"
#include "tests/support/cuda/driver/graphs/graph.h"
#include "tests/support/cuda/driver/memory/memory.h"
#include "tests/support/cuda/driver/modules/module.h"
#include "tests/support/cuda/driver/settings.h"
#include "tests/support/cuda/driver/streams/event.h"
#include "tests/support/cuda/driver/streams/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lz::fake_cuda {

Handles<CUgraphExec, Exec> &execs() {
    static auto *const all = new Handles<CUgraphExec, Exec>("instantiated graph");
    return *all;
}

std::vector<size_t> topological_order(const GraphBody &body, std::mt19937_64 *rng) {
    const size_t count = body.nodes.size();
    std::vector<size_t> left(count), ready, order;
    std::vector<std::vector<size_t>> next(count);
    for (size_t i = 0; i < count; ++i) {
        left[i] = body.nodes[i].after.size();
        for (const size_t before : body.nodes[i].after)
            next[before].push_back(i);
        if (left[i] == 0)
            ready.push_back(i);
    }
    for (size_t first = 0; first < ready.size(); ++first) {
        if (rng)
            std::swap(ready[first], ready[first + (*rng)() % (ready.size() - first)]);
        order.push_back(ready[first]);
        for (const size_t i : next[ready[first]])
            if (--left[i] == 0)
                ready.push_back(i);
    }
    if (order.size() != count)
        order.clear();
    return order;
}

std::vector<size_t> launch_order(const GraphBody &body, std::mt19937_64 &rng) {
    return settings().seed == 0 ? body.order : topological_order(body, &rng);
}

std::shared_ptr<GraphBody> body_of(const Graph &graph) {
    auto body = std::make_shared<GraphBody>();
    for (const auto &node : graph.nodes) {
        GraphBody::Item item{node->handle, node->type, node->work, {}, true};
        for (const Node *before : node->after) {
            const auto at = std::ranges::find(graph.nodes, before, &std::shared_ptr<Node>::get);
            item.after.push_back(static_cast<size_t>(at - graph.nodes.begin()));
        }
        std::ranges::sort(item.after);
        body->nodes.push_back(std::move(item));
    }
    body->order = topological_order(*body, nullptr);
    if (body->order.size() != body->nodes.size())
        refuse(CUDA_ERROR_INVALID_VALUE, "the edges make a circle");
    return body;
}

GraphWork child_work(CUgraph graph) {
    GraphWork work{body_of(*graphs().get(graph)), {}};
    for (const GraphBody::Item &item : work.body->nodes)
        if (std::holds_alternative<RecordWork>(item.work) || std::holds_alternative<WaitWork>(item.work))
            refuse(CUDA_ERROR_NOT_SUPPORTED, "the fake driver has no events in graphs within graphs");
    work.records.resize(work.body->nodes.size());
    return work;
}

namespace {

void instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    const Context &context = current_context();
    need(exec, "phGraphExec");
    constexpr unsigned kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        refuse(CUDA_ERROR_NOT_SUPPORTED, "graphs are not launched by devices");
    if (flags & ~(unsigned long long){kKnown})
        refuse(CUDA_ERROR_INVALID_VALUE, "flags that are not known");
    auto e = std::make_shared<Exec>();
    e->context = &context;
    e->body = body_of(*graphs().get(graph));
    *exec = execs().add(std::move(e));
}

/// A body that no launch reads, or has read: a count of owners orders nothing.
GraphBody &own_body(Exec &exec) {
    if (std::exchange(exec.launched, false))
        exec.body = std::make_shared<GraphBody>(*exec.body);
    return *exec.body;
}

/// The node of an instantiated graph that was made of `node`; refuses others.
GraphBody::Item &item_of(Exec &exec, CUgraphNode node, CUgraphNodeType type) {
    GraphBody &body = own_body(exec);
    const auto found = std::ranges::find(body.nodes, node, &GraphBody::Item::origin);
    if (found == body.nodes.end())
        refuse(CUDA_ERROR_INVALID_VALUE, "the node was not in the graph when it was instantiated");
    if (found->type != type)
        refuse(CUDA_ERROR_INVALID_VALUE, "the node is of another type");
    return *found;
}

bool is_launch_of_library(const Work &work) {
    return std::holds_alternative<CallWork>(work);
}

CUgraphExecUpdateResult compare(const GraphBody &old, const GraphBody &now, CUgraphNode &wrong) {
    if (old.nodes.size() != now.nodes.size())
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < now.nodes.size(); ++i) {
        const auto &a = old.nodes[i], &b = now.nodes[i];
        wrong = b.origin;
        if (a.type != b.type || is_launch_of_library(a.work) != is_launch_of_library(b.work))
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (a.after != b.after)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        const auto *k = std::get_if<KernelWork>(&a.work), *l = std::get_if<KernelWork>(&b.work);
        if (k && l && k->function->module->context != l->function->module->context)
            return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    }
    wrong = nullptr;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

void launch(CUgraphExec handle, CUstream stream) {
    const auto s = stream_of(stream);
    const auto exec = execs().get(handle);
    if (s->capture)
        refuse_capturing(*s, "a launch of a graph");
    if (exec->context != s->context)
        refuse(CUDA_ERROR_INVALID_HANDLE, "the graph and the stream belong to different contexts");
    refuse_beside_capture(*s);
    exec->launched = true;
    GraphWork work{exec->body, std::vector<std::shared_ptr<Record>>(exec->body->nodes.size())};
    // Waits are for what was recorded before the launch, records are of this launch.
    for (const bool records : {false, true})
        for (size_t i = 0; i < work.records.size(); ++i) {
            const Work &node = exec->body->nodes[i].work;
            if (const auto *r = std::get_if<RecordWork>(&node); r && records)
                work.records[i] = new_record(*r->event);
            if (const auto *w = std::get_if<WaitWork>(&node); w && !records)
                work.records[i] = w->event->last;
        }
    std::vector<After> after;
    if (exec->stream && exec->stream != s && exec->stream->done < exec->ticket)
        after.push_back({exec->stream, exec->ticket}); // it never runs beside itself
    exec->ticket = enqueue(*s, std::move(work), std::move(after));
    exec->stream = s;
}

} // namespace

void drop_graphs_of(const Context &context) {
    execs().remove_if([&](const Exec &e) { return e.context == &context; });
}

uint64_t live_graphs() {
    return graphs().size() + nodes().size() + execs().size();
}

uint64_t live_handles() {
    return streams().size() + events().size() + modules().size() + functions().size() + live_libraries() +
           live_graphs() + live_physical_handles();
}

} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    return call(__func__, [&](Lock &) { instantiate(exec, graph, flags); });
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    return call(__func__, [&](Lock &) {
        need(params, "instantiateParams");
        params->hErrNode_out = nullptr;
        params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
        instantiate(exec, graph, params->flags);
        params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    return call(__func__, [&](Lock &) { execs().remove(exec); });
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    return call(__func__, [&](Lock &) {
        stream_of(stream);
        execs().get(exec);
    });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    return call(__func__, [&](Lock &) { launch(exec, stream); });
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec handle, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *params) {
    return call(__func__, [&](Lock &lock) {
        Context &context = current_context();
        const auto exec = execs().get(handle);
        KernelWork work = kernel_node_work(lock, params, context);
        item_of(*exec, node, CU_GRAPH_NODE_TYPE_KERNEL).work = std::move(work);
    });
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec handle, CUgraphNode node, const CUDA_MEMCPY3D *params,
                                        CUcontext context) {
    return call(__func__, [&](Lock &) {
        current_context();
        const auto exec = execs().get(handle);
        const CopyWork work = copy_node_work(params, context_of(context));
        item_of(*exec, node, CU_GRAPH_NODE_TYPE_MEMCPY).work = work;
    });
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec handle, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context) {
    return call(__func__, [&](Lock &) {
        current_context();
        const auto exec = execs().get(handle);
        const FillWork work = fill_node_work(params, context_of(context));
        item_of(*exec, node, CU_GRAPH_NODE_TYPE_MEMSET).work = work;
    });
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec handle, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS *params) {
    return call(__func__, [&](Lock &) {
        current_context();
        need(params, "nodeParams");
        need(params->fn, "fn");
        item_of(*execs().get(handle), node, CU_GRAPH_NODE_TYPE_HOST).work =
            HostWork{params->fn, params->userData};
    });
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec handle, CUgraphNode node, CUgraph child) {
    return call(__func__, [&](Lock &) {
        current_context();
        const auto exec = execs().get(handle);
        GraphWork work = child_work(child);
        GraphBody::Item &item = item_of(*exec, node, CU_GRAPH_NODE_TYPE_GRAPH);
        CUgraphNode wrong = nullptr;
        if (compare(*std::get<GraphWork>(item.work).body, *work.body, wrong) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
            refuse(CUDA_ERROR_INVALID_VALUE, "the graph is not of the same shape");
        item.work = std::move(work);
    });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
    return call(__func__, [&](Lock &) {
        current_context();
        need(info, "resultInfo");
        *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
        const auto exec = execs().get(handle);
        auto body = body_of(*graphs().get(graph));
        info->result = compare(*exec->body, *body, info->errorNode);
        if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
            refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph is not of the same shape");
        // Nodes keep the names by which they can be changed one by one.
        for (size_t i = 0; i < body->nodes.size(); ++i) {
            body->nodes[i].origin = exec->body->nodes[i].origin;
            body->nodes[i].enabled = exec->body->nodes[i].enabled;
        }
        exec->body = std::move(body);
        exec->launched = false;
    });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node, unsigned enabled) {
    return call(__func__, [&](Lock &) {
        const auto exec = execs().get(handle);
        const auto found = std::ranges::find(exec->body->nodes, node, &GraphBody::Item::origin);
        if (found == exec->body->nodes.end() ||
            (found->type != CU_GRAPH_NODE_TYPE_KERNEL && found->type != CU_GRAPH_NODE_TYPE_MEMCPY &&
             found->type != CU_GRAPH_NODE_TYPE_MEMSET))
            refuse(CUDA_ERROR_INVALID_VALUE, "kernels, copies and fills of the graph can be switched off");
        item_of(*exec, node, found->type).enabled = enabled != 0;
    });
}
