#pragma once
/// Graphs built by hand, and data for them.

#include "ir/graph/builder.h"
#include "ir/interpreter/interpreter.h"

#include <initializer_list>
#include <vector>

namespace lz::test {

/// The graph with these results.
inline ir::Graph finish(ir::GraphBuilder &b, std::initializer_list<ir::ValueId> results) {
    b.graph().results.insert(b.graph().results.end(), results);
    return b.take();
}

/// What the parameters say that their data are.
inline std::vector<ir::HostTensor> inputs_of(const ir::Graph &graph) {
    std::vector<ir::HostTensor> inputs;
    for (const ir::Param &p : graph.params)
        inputs.push_back(materialize_param(graph, p));
    return inputs;
}

/// Random data, whatever the parameters say.
inline std::vector<ir::HostTensor> random_inputs(const ir::Graph &graph) {
    std::vector<ir::HostTensor> inputs;
    uint64_t seed = 1;
    for (ir::Param p : graph.params) {
        p.init = ir::InitKind::Random;
        p.seed = seed++;
        inputs.push_back(materialize_param(graph, p));
    }
    return inputs;
}

} // namespace lz::test
