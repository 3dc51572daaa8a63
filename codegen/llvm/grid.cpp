#include "codegen/llvm/emitter.h"

#include "ir/diagnostic.h"

#include <algorithm>

namespace lz::codegen {

using namespace ir;

namespace {

/// Bytes ahead that a row asks for where it is walked once: by itself the processor asks for too little of
/// rows that follow each other (a matrix of 50257 x 768 floats times a vector, on a Xeon of the Emerald
/// Rapids kind: 17.4 GB/s, and 28.6 so).
constexpr int64_t kRowAheadBytes = 4096;
/// Processors with 16 registers, and AMD's, ask for memory themselves where a row is at least as long, and
/// what is asked for beside them is in their way: on a Zen 3 sums of rows of 256 to 4096 f32 beyond the
/// caches, and matrices times vectors, take 0.72 to 0.9 of the time without; rows of 100 1.9 times as long.
/// They ask for what they are about to read instead, which took no longer than not to ask. A Zen 4 reads rows
/// of 768 f32 at 24.5 GB/s so, and at 18.8 with what is asked for (one thread), rows of 64 and 128 alike.
constexpr int64_t kLongRowBytes = 1024;

} // namespace

Value PhaseEmitter::blocks_of(AxisId axis, ArgId block) {
    if (block == kNoArg)
        return b_.i64(1);
    Value size = arg(block);
    return b_.udiv(b_.add(extent(axis), b_.sub(size, b_.i64(1))), size);
}

/// Calls `item` for the index of each work item; the first is divided out, the others follow by carrying.
void PhaseEmitter::walk(std::span<const Value> counts,
                        const std::function<void(std::span<const Value>)> &item) {
    Values first(counts.size());
    Value rest = params_.begin;
    for (size_t i = counts.size(); i-- > 0;) {
        first[i] = i == 0 ? rest : b_.urem(rest, counts[i]);
        rest = i == 0 ? rest : b_.udiv(rest, counts[i]);
    }
    b_.loop(params_.begin, params_.end, b_.i64(1), first, [&](Value, std::span<const Value> index) {
        const Values now(index.begin(), index.end());
        item(now);
        Values next = now;
        Value carry = b_.i64(1);
        for (size_t i = counts.size(); i-- > 0;) {
            Value moved = b_.add(now[i], carry);
            Value over = b_.compare(Pred::Eq, moved, counts[i]);
            next[i] = i == 0 ? moved : b_.select(over, b_.i64(0), moved);
            carry = b_.zext(over, Elem::I64);
        }
        return next;
    });
}

void PhaseEmitter::emit_grid() {
    hoist(p_.body, false);
    b_.if_then(b_.compare(Pred::Slt, params_.begin, params_.end), [&] {
        if (p_.grid.empty() || !vector_grid())
            grid_scalars();
        else if (s_.tile_axis >= 0)
            grid_tiles();
        else if (s_.whole_rows != 0)
            grid_whole_rows();
        else if (p_.grid.size() == 1)
            grid_line();
        else
            grid_rows();
    });
    if (s_.stores == StoreTier::Streaming)
        b_.store_fence();
}

/// Whether the access reads an input along `axis`, a row for each index of the last grid axis.
bool PhaseEmitter::row_of_grid(const Access &access, AxisId axis) const {
    const AxisStride *along = stride_along(access, axis), *next = stride_along(access, p_.grid.back());
    return k_.buffers[access.buffer].mode == BufferMode::In && access.terms.empty() &&
           access.predicate == kNoValue && along && along->cls == StrideClass::Contiguous && next &&
           next->cls == StrideClass::Strided;
}

/// A row that is walked more than once waits for memory in the first walk only, and memory idles in the
/// others. So the second walk asks for the row of the next work item, element by element; it computes most
/// and does not stream results. A row that is reduced in its only walk asks for what lies kRowAheadBytes
/// further: in the row, or in the same place of a later one. Addresses behind the last row are asked for in
/// vain.
void PhaseEmitter::plan_ahead() {
    if (p_.grid.empty())
        return;
    struct Walked {
        uint16_t buffer;
        uint32_t loop, access; ///< that walks it first, and how
        bool again;
    };
    std::vector<Walked> walked;
    for (const Stmt &stmt : p_.body) {
        if (stmt.kind != Stmt::Loop || k_.loops[stmt.id].order != LoopOrder::Lanes)
            continue;
        const Loop &loop = k_.loops[stmt.id];
        for (const Stmt &inner : loop.body) {
            const uint32_t id = inner.kind == Stmt::Loop ? kNoValue : k_.instrs[inner.id].access;
            if (id == kNoValue || k_.instrs[inner.id].op != KOp::Load ||
                !row_of_grid(k_.accesses[id], loop.axis))
                continue;
            const uint16_t buffer = k_.accesses[id].buffer;
            const auto seen = std::ranges::find(walked, buffer, &Walked::buffer);
            if (seen == walked.end()) {
                walked.push_back({buffer, stmt.id, id, false});
            } else if (seen->loop != stmt.id && !seen->again) {
                ahead_.emplace_back(id, arg(stride_along(k_.accesses[id], p_.grid.back())->stride));
                seen->again = true;
            }
        }
    }
    for (const Walked &row : walked)
        if (!row.again && !k_.loops[row.loop].reductions.empty())
            ahead_.emplace_back(row.access, further(k_.accesses[row.access], k_.loops[row.loop].axis));
}

/// Elements from one of a row along `axis` to what is asked for ahead of it.
Value PhaseEmitter::further(const Access &access, AxisId axis) {
    const int64_t elements = kRowAheadBytes / bytes_of(storage_elem(k_.buffers[access.buffer].dtype));
    Value length = b_.smax(extent(axis), b_.i64(1));
    Value rows = b_.udiv(b_.add(b_.i64(elements - 1), length), length);
    Value ahead = b_.select(b_.compare(Pred::Slt, b_.i64(elements), length), b_.i64(elements),
                            b_.mul(rows, arg(stride_along(access, p_.grid.back())->stride)));
    const bool amd = options_.isa.features.find("+sse4a") != std::string::npos; // nobody else has it
    if (options_.isa.vector_registers >= 32 && !amd)
        return ahead;
    const int64_t alone = kLongRowBytes / bytes_of(storage_elem(k_.buffers[access.buffer].dtype));
    return b_.select(b_.compare(Pred::Sge, length, b_.i64(alone)), b_.i64(0), ahead);
}

void PhaseEmitter::grid_scalars() {
    plan_ahead();
    Values counts;
    for (const AxisId axis : p_.grid)
        counts.push_back(extent(axis));
    walk(counts, [&](std::span<const Value> index) {
        const Mark before = mark();
        for (size_t i = 0; i < index.size(); ++i)
            bind_axis(p_.grid[i], index[i]);
        hoist(p_.body, true);
        emit_region(p_.body);
        for (size_t i = index.size(); i-- > 0;)
            unbind_axis(p_.grid[i]);
        forget(before);
    });
}

/// Work items of a single axis lie side by side: they are one range.
void PhaseEmitter::grid_line() {
    const AxisId axis = p_.grid[0];
    Value size = s_.block == kNoArg ? extent(axis) : arg(s_.block);
    Value lo = b_.mul(params_.begin, size);
    Value hi = b_.smin(b_.mul(params_.end, size), extent(axis));
    grid_range(axis, lo, hi);
}

void PhaseEmitter::grid_range(AxisId axis, Value lo, Value hi) {
    const Mark before = mark();
    b_.if_then(b_.compare(Pred::Slt, lo, hi), [&] {
        hoist(p_.body, true);
        columns_range(axis, lo, hi);
    });
    forget(before);
}

void PhaseEmitter::grid_rows() {
    const size_t last = p_.grid.size() - 1;
    Values counts;
    for (size_t i = 0; i < last; ++i)
        counts.push_back(extent(p_.grid[i]));
    counts.push_back(blocks_of(p_.grid[last], s_.block));
    walk(counts, [&](std::span<const Value> index) {
        for (size_t i = 0; i < last; ++i)
            bind_axis(p_.grid[i], index[i]);
        Value lo = s_.block == kNoArg ? b_.i64(0) : b_.mul(index[last], arg(s_.block));
        Value all = extent(p_.grid[last]);
        Value hi = s_.block == kNoArg ? all : b_.smin(b_.add(lo, arg(s_.block)), all);
        grid_range(p_.grid[last], lo, hi);
        for (size_t i = last; i-- > 0;)
            unbind_axis(p_.grid[i]);
    });
}

} // namespace lz::codegen
