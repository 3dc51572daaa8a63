#pragma once
/// Random graphs of what a pass may meet: devices, streams, effects, updates in place, donated parameters.

#include "tests/support/random/graph.h"

#include <cstdint>

namespace lz::passes {

/// One seed in so many has each of these.
inline test::RandomGraphOptions mixed_options(uint64_t seed) {
    test::RandomGraphOptions options;
    options.max_nodes = 30;
    for (uint8_t i = 0; i < seed % 4; ++i)
        options.devices.push_back({ir::DeviceKind::Cuda, i});
    options.streams = seed % 3 == 0 ? 3 : 0;
    options.first_stream = ir::kFirstUserStream;
    options.effects = seed % 6 == 0 ? 15 : 0;
    options.updates = seed % 5 == 1 ? 10 : 0;
    options.cpu_scalars = seed % 4 == 2;
    return options;
}

/// Some parameters are donated, some of them to one result.
inline void donate_some(ir::Graph &graph, test::Random &draw) {
    for (ir::Param &p : graph.params)
        p.donated = draw.chance(40);
    for (ir::Param &p : graph.params)
        if (p.donated && draw.chance(30))
            p.donated_to = static_cast<uint32_t>(draw.below(graph.results.size()));
}

} // namespace lz::passes
