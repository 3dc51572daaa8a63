#pragma once
/// How a node comes into being: memory, the recorder's list, a handle.

#include "frontend/record/access.h"
#include "frontend/record/arena.h"
#include "frontend/record/convert.h"
#include "frontend/record/node.h"
#include "frontend/record/recorder.h"
#include "frontend/record/trace.h"

#include <algorithm>
#include <cstdint>
#include <new>

namespace lz::detail {

/// What the counts of a Node can say.
inline constexpr size_t kMostWords = UINT16_MAX;

/// StateError for more operands or words than an operation can have.
[[noreturn, gnu::cold]] void throw_too_much(ir::Op op, const char *what, size_t count, Location loc);
/// Launches what is pending, as far as S22 and S25 ask for it.
[[gnu::noinline]] void launch_beyond_limits(Recorder &recorder, Location loc);

/// Gives back the memory of a node that was not published.
void discard(Node *n) noexcept;

/// A node with room for its words; one use and one hold (the caller's handle), plus the hold of the embedded
/// cell. Throws StateError for more than an operation can have.
[[gnu::always_inline]] inline Node *make_node(ir::Op op, size_t operands, size_t structural, size_t runtime,
                                              Location loc, size_t projections = 0) {
    if (operands > kMostWords) [[unlikely]]
        throw_too_much(op, "operands", operands, loc);
    if (structural > kMostWords || runtime > kMostWords || projections > kMostWords) [[unlikely]]
        throw_too_much(op, "words of attributes", std::max({structural, runtime, projections}), loc);
    const size_t bytes = sizeof(Node) + 8 * (operands + structural + runtime + projections);
    const uint8_t size_class = size_class_of(bytes);
    Node *n = new (allocate_node(size_class, bytes)) Node;
    n->refs.store(Node::kUse + 2 * Node::kHold, std::memory_order_relaxed);
    n->cell.handles.store(1, std::memory_order_relaxed);
    n->cell.current = n;
    n->loc = to_ir(loc);
    n->op = op;
    n->size_class = size_class;
    n->num_operands = static_cast<uint16_t>(operands);
    n->num_structural = static_cast<uint16_t>(structural);
    n->num_runtime = static_cast<uint16_t>(runtime);
    return n;
}

/// Hands out the handle of a finished node: it becomes pending and visible.
[[gnu::always_inline]] inline Tensor publish(Node *n, Recorder &recorder) {
    if (recorder.looks_at_each()) [[unlikely]] {
        if (Trace *const trace = recorder.trace())
            trace->note_made(n);
        n->stream = static_cast<int16_t>(recorder.stream(device_of_work(n)));
    }
    recorder.append(n);
    return Access::wrap(&n->cell);
}

/// Zero where the tensor has no history: so that one test looks at all operands.
inline uintptr_t history_bits(const Tensor &x) {
    return reinterpret_cast<uintptr_t>(Access::cell(x)->history);
}

/// What S22 and S25 ask for after each operation.
inline void after_record(Recorder &recorder, Location loc) {
    if (!recorder.is_within_limits()) [[unlikely]]
        launch_beyond_limits(recorder, loc);
}

} // namespace lz::detail
