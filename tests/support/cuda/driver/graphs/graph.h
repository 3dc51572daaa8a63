#pragma once
/// Graphs, and what is instantiated of them.

#include "tests/support/cuda/driver/handles.h"
#include "tests/support/cuda/driver/streams/work.h"

#include <random>
#include <span>

namespace lz::fake_cuda {

struct Stream;
struct Graph;

struct Node {
    Graph *graph = nullptr;
    CUgraphNode handle = nullptr;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    const Context *context = nullptr;
    Work work;
    std::vector<Node *> after;
};

struct Graph {
    CUgraph handle = nullptr;
    std::vector<std::shared_ptr<Node>> nodes; ///< as they were added
};

/// A graph as it runs. Never changed while a launch holds it: an update makes another.
struct GraphBody {
    struct Item {
        CUgraphNode origin;
        CUgraphNodeType type;
        Work work;
        std::vector<size_t> after;
        bool enabled = true;
    };
    std::vector<Item> nodes;
    std::vector<size_t> order; ///< each after all that it comes after
};

struct Exec {
    const Context *context = nullptr;
    std::shared_ptr<GraphBody> body;
    bool launched = false;          ///< `body` has been, and streams may read it
    std::shared_ptr<Stream> stream; ///< of its last launch
    uint64_t ticket = 0;
};

Handles<CUgraph, Graph> &graphs();
Handles<CUgraphNode, Node> &nodes();
Handles<CUgraphExec, Exec> &execs();

Node &add_node(Graph &graph, CUgraphNodeType type, const Context &context, Work work,
               std::vector<Node *> after);
void destroy_graph(CUgraph handle);
CUgraphNodeType type_of(const Work &work);

/// The body's order; a random one that the edges allow where a seed is set.
std::vector<size_t> launch_order(const GraphBody &body, std::mt19937_64 &rng);
/// Empty where the edges make a circle.
std::vector<size_t> topological_order(const GraphBody &body, std::mt19937_64 *rng);

KernelWork kernel_node_work(Lock &lock, const CUDA_KERNEL_NODE_PARAMS *params, Context &context);
CopyWork copy_node_work(const CUDA_MEMCPY3D *params, const Context &context);
FillWork fill_node_work(const CUDA_MEMSET_NODE_PARAMS *params, const Context &context);

/// What a graph is now, for running it.
std::shared_ptr<GraphBody> body_of(const Graph &graph);
/// A graph as a node of another. Events in it are refused.
GraphWork child_work(CUgraph graph);

void drop_graphs_of(const Context &context);
uint64_t live_graphs();

} // namespace lz::fake_cuda
