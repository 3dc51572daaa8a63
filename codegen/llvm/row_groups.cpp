#include "codegen/llvm/emitter.h"

#include <algorithm>

/// Columns that are folded to partial results, a few rows at a time:
///
///     for each group of kRowGroup rows of the chunk
///         for each step of columns
///             partial[columns] = fold(partial[columns], the rows of the group)
///
/// A walk down a step of columns, as loops over rows in registers do it, visits a page for each row, and the
/// processor asks for no more of a page than was asked for. Rows in groups are as many streams, which it
/// reads ahead. The partial results of one work item stay in the first cache meanwhile.

namespace lz::codegen {

using namespace ir;

namespace {

/// Enough that partial results are read and written rarely, few enough for streams that are told apart.
constexpr int64_t kRowGroup = 16;
/// Steps of columns below which rows are too short to be streams.
constexpr int64_t kFewSteps = 2;
/// Elements of a matrix below which it may lie in a cache, where a walk down its columns waits for nothing.
constexpr int64_t kElementsInCache = int64_t{1} << 20;
/// Operations on an element from which on memory waits for them.
constexpr int kComputeBound = 64;

} // namespace

/// The stores of the partial results, two a reduction (of the value, and of the place where one is sought,
/// else null), where the phase does nothing but fold its columns to them; else empty.
std::vector<const Instr *> PhaseEmitter::partial_stores(const Loop &loop, AxisId axis) const {
    const auto plain = [&](const Reduction &r) {
        return r.dtype != DType::Bool && analysis_.depends(r.value, axis);
    };
    if (loop.order != LoopOrder::Sequential || loop.chunk != 0 || loop.begin == kNoValue ||
        loop.end == kNoValue || loop.reductions.empty() || Analysis::has_loop(loop.body) ||
        !std::ranges::all_of(loop.reductions, plain))
        return {};
    std::vector<const Instr *> stores(2 * loop.reductions.size());
    bool after = false;
    for (const Stmt &stmt : p_.body) {
        if (stmt.kind == Stmt::Loop) {
            after = true;
            continue;
        }
        const Instr &instr = k_.instrs[stmt.id];
        if (instr.op == KOp::LoopResult)
            continue;
        if (instr.op != KOp::Store) {
            if (after)
                return {};
            continue;
        }
        const Access &access = k_.accesses[instr.access];
        const AxisStride *along = stride_along(access, axis);
        const Instr &source = k_.instrs[instr.operands[0]];
        if (k_.buffers[access.buffer].mode != BufferMode::Temp || !access.terms.empty() ||
            access.predicate != kNoValue || !along || along->cls != StrideClass::Contiguous ||
            source.op != KOp::LoopResult)
            return {};
        stores[source.bits] = &instr;
    }
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        if (!stores[2 * r] || (is_arg(loop.reductions[r]) && !stores[2 * r + 1]))
            return {};
    return stores;
}

/// As vector_range, in groups of rows if that is how the phase is walked.
void PhaseEmitter::columns_range(AxisId axis, Value lo, Value hi) {
    const auto stmt = std::ranges::find(p_.body, Stmt::Loop, &Stmt::kind);
    if (!p_.vector_grid || s_.across || stmt == p_.body.end())
        return vector_range(p_.body, axis, lo, hi);
    const Loop &loop = k_.loops[stmt->id];
    const std::vector<const Instr *> stores = partial_stores(loop, axis);
    if (stores.empty() || analysis_.cost(p_.body, axis) > kComputeBound)
        return vector_range(p_.body, axis, lo, hi);
    const Value begin = scalar(loop.begin), end = scalar(loop.end);
    const int64_t few = kFewSteps * width_ * parts_for(p_.body, axis);
    Value elements = b_.mul(extent(loop.axis), extent(axis)); // of all chunks
    for (size_t i = 0; i + 2 < p_.grid.size(); ++i)
        elements = b_.mul(elements, extent(p_.grid[i]));
    const Value streams = b_.bit_and(b_.compare(Pred::Slt, b_.i64(few), b_.sub(hi, lo)),
                                     b_.compare(Pred::Slt, b_.i64(kElementsInCache), elements));
    const Value rows = b_.select(streams, b_.i64(kRowGroup), b_.smax(b_.sub(end, begin), b_.i64(1)));
    b_.loop(begin, end, rows, {}, [&](Value row, std::span<const Value>) -> Values {
        const Mark inside = mark();
        group_ = {stmt->id, row, b_.smin(b_.add(row, rows), end), b_.compare(Pred::Eq, row, begin), stores};
        vector_range(p_.body, axis, lo, hi);
        group_ = {};
        forget(inside);
        return {};
    });
}

/// What a group of rows goes on from: what the groups before it left, and for the first the identities.
PhaseEmitter::Partials PhaseEmitter::resumed(const Loop &loop) {
    Partials start = identities(loop);
    for (size_t r = 0; r < start.size(); ++r) {
        // Values of all parts, and behind them their places.
        const size_t parts = start[r].size() / (is_arg(loop.reductions[r]) ? 2 : 1);
        for (size_t i = 0; i < start[r].size(); ++i) {
            const Instr &store = *group_.stores[2 * r + i / parts];
            const Access &access = k_.accesses[store.access];
            const Elem e = storage_elem(k_.buffers[access.buffer].dtype);
            const auto part = static_cast<int>(i % parts);
            const Value before = load_part(access, address(access, store.access, part), e, part);
            start[r][i] = b_.select(group_.first, start[r][i], before);
        }
    }
    return start;
}

} // namespace lz::codegen
