#pragma once
/// The one list of what files keep of a compiled phase.

#include "ir/kernel/compiled_kernel.h"

namespace lz::ir {

/// Calls f for each value of a phase that is stored, in order. The lists have their sizes already.
template <class Phase, class F>
void for_stored_fields(Phase &phase, F &&f) {
    f(phase.symbol);
    f(phase.record_bytes);
    f(phase.table_bytes);
    f(phase.threads);
    f(phase.shared_bytes);
    f(phase.most_blocks);
    f(phase.cluster_blocks);
    for (auto &a : phase.alignments) {
        f(a.kind);
        f(a.bytes);
        f(a.index);
    }
    for (auto &p : phase.parameters) {
        f(p.kind);
        f(p.bytes);
        f(p.index);
        f(p.at);
    }
}

} // namespace lz::ir
