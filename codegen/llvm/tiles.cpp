#include "codegen/llvm/emitter.h"

#include <algorithm>

namespace lz::codegen {

using namespace ir;

// Operands that are contiguous along another axis than the vector's are read in squares along that axis,
// turned in registers, and left in the first-level cache, from where the rows of the tile read them as
// vectors:
//
//     for each tile of W rows and parts * W columns
//       for each turned operand, for each square
//         W loads along the tile axis, transpose, W stores to scratch
//       for each row
//         the body, with vectors along the last axis
//
// Tiles follow each other down the rows, and ask for what those below them will read.
// A tile's row is several registers wide, so that stores fill pages in longer runs.

namespace {

constexpr int kMostParts = 4;

} // namespace

/// Whether a load is contiguous along the tile axis and strided along the vector's.
bool PhaseEmitter::turned(const Instr &instr) const {
    if (instr.op != KOp::Load)
        return false;
    const Access &access = k_.accesses[instr.access];
    const AxisStride *across = stride_along(access, static_cast<AxisId>(s_.tile_axis));
    const AxisStride *along = stride_along(access, p_.grid.back());
    return access.terms.empty() && access.predicate == kNoValue && !analysis_.written(access.buffer) &&
           across && along && across->cls == StrideClass::Contiguous && along->cls == StrideClass::Strided;
}

/// Swaps blocks off the diagonal, of one lane first, then of two, and so on.
void PhaseEmitter::transpose(std::vector<Value> &rows) {
    const int n = static_cast<int>(rows.size());
    for (int h = 1; h < n; h *= 2) {
        std::vector<int> upper, lower;
        for (int j = 0; j < n; ++j) {
            upper.push_back((j & h) == 0 ? j : n + j - h);
            lower.push_back((j & h) == 0 ? j + h : n + j);
        }
        for (int i = 0; i < n; ++i) {
            if ((i & h) != 0)
                continue;
            Value x = rows[static_cast<size_t>(i)], y = rows[static_cast<size_t>(i + h)];
            rows[static_cast<size_t>(i)] = b_.shuffle(x, y, upper);
            rows[static_cast<size_t>(i + h)] = b_.shuffle(x, y, lower);
        }
    }
}

/// scratch[r][c] = load(row + r, column + c) for `width_` rows and `columns` columns.
void PhaseEmitter::turn(const Instr &load, Value scratch, Value row, Value column, int columns) {
    const Access &access = k_.accesses[load.access];
    const Elem e = storage_elem(k_.buffers[access.buffer].dtype);
    const Mark before = mark();
    Value step = arg(stride_along(access, p_.grid.back())->stride);
    Value corner = b_.element(e, base_pointer(access, load.access), b_.add(row, b_.mul(column, step)));
    b_.loop(b_.i64(0), b_.i64(columns), b_.i64(width_), {},
            [&](Value square, std::span<const Value>) -> Values {
                Value from = b_.element(e, corner, b_.mul(square, step));
                Values rows;
                for (int i = 0; i < width_; ++i) {
                    rows.push_back(b_.load(e, width_, from, bytes_of(e)));
                    // The lines that the tile after the next will read: each is in a page of its own, where
                    // no hardware looks ahead. Such lines share few sets of the first-level cache.
                    b_.prefetch(b_.element(e, from, b_.i64(2 * width_)), false);
                    from = b_.element(e, from, step);
                }
                transpose(rows);
                Value to = b_.element(e, scratch, square);
                for (int i = 0; i < width_; ++i)
                    b_.store(rows[static_cast<size_t>(i)], b_.element(e, to, b_.i64(int64_t{i} * columns)),
                             width_ * bytes_of(e));
                return {};
            });
    forget(before);
}

void PhaseEmitter::tile(Value row, Value column, int parts, std::span<const std::pair<KValue, Value>> loads,
                        Value aligned) {
    const auto axis = static_cast<AxisId>(s_.tile_axis);
    const int columns = parts * width_;
    for (const auto &[load, scratch] : loads)
        turn(k_.instrs[load], scratch, row, column, columns);
    const auto rows = [&](bool nontemporal) {
        b_.loop(b_.i64(0), b_.i64(width_), b_.i64(1), {}, [&](Value i, std::span<const Value>) -> Values {
            const Mark before = mark();
            for (const auto &[load, scratch] : loads) {
                const Elem e = storage_elem(k_.buffers[k_.accesses[k_.instrs[load].access].buffer].dtype);
                turned_.emplace_back(load, b_.element(e, scratch, b_.mul(i, b_.i64(columns))));
            }
            bind_axis(axis, b_.add(row, i));
            hoist(p_.body, true);
            Context context = vector_context(p_.grid.back(), column, width_, parts);
            context.nontemporal = nontemporal;
            points(p_.body, std::move(context));
            unbind_axis(axis);
            turned_.clear();
            forget(before);
            return {};
        });
    };
    if (aligned) {
        b_.if_then(aligned, [&] { rows(true); });
        b_.if_then(b_.bit_not(aligned), [&] { rows(false); });
    } else {
        rows(false);
    }
}

/// Whether the registers that the tiles store as results are aligned in every row.
Value PhaseEmitter::tiles_aligned(Value row, Value column) {
    const auto axis = static_cast<AxisId>(s_.tile_axis);
    Value aligned = b_.i1(true);
    const Mark before = mark();
    bind_axis(axis, row);
    for (const Stmt &stmt : p_.body) {
        if (stmt.kind == Stmt::Loop || k_.instrs[stmt.id].op != KOp::Store)
            continue;
        const uint32_t id = k_.instrs[stmt.id].access;
        const Access &access = k_.accesses[id];
        const Elem e = storage_elem(k_.buffers[access.buffer].dtype);
        const AxisStride *along = stride_along(access, p_.grid.back()), *across = stride_along(access, axis);
        if (!along || along->cls != StrideClass::Contiguous)
            continue;
        Value place = b_.pointer_to_int(b_.element(e, base_pointer(access, id), column));
        if (across && across->cls == StrideClass::Strided)
            place = b_.bit_or(place, b_.mul(arg(across->stride), b_.i64(bytes_of(e))));
        Value low = b_.bit_and(place, b_.i64(int64_t{width_} * bytes_of(e) - 1));
        aligned = b_.bit_and(aligned, b_.compare(Pred::Eq, low, b_.i64(0)));
    }
    unbind_axis(axis);
    forget(before);
    return aligned;
}

/// Right of the whole tiles and below them, without turning: on the right registers of neighbours along the
/// tile axis, column by column, whose elements are stored one by one; below, rows whose elements are loaded
/// so. Images of a few channels are nothing but edges.
void PhaseEmitter::tile_edges(Value row_lo, Value row_hi, Value lo, Value hi, Value full_rows,
                              Value full_columns, int parts) {
    const auto axis = static_cast<AxisId>(s_.tile_axis), last = p_.grid.back();
    const auto each = [&](AxisId bound, Value from, Value to, AxisId vector,
                          const std::function<void()> &steps) {
        b_.loop(from, to, b_.i64(1), {}, [&](Value index, std::span<const Value>) -> Values {
            const Mark before = mark();
            bind_axis(bound, index);
            hoist(p_.body, true);
            prepare(p_.body, vector);
            steps();
            unbind_axis(bound);
            forget(before);
            return {};
        });
    };
    const auto right = [&](Value row, bool masked) {
        each(last, full_columns, hi, axis, [&] {
            Context context = vector_context(axis, row, width_, 1);
            if (masked)
                context.masks = lanes_below(b_.sub(row_hi, row), 1);
            points(p_.body, std::move(context));
        });
    };
    b_.loop(row_lo, full_rows, b_.i64(width_), {}, [&](Value row, std::span<const Value>) -> Values {
        right(row, false);
        return {};
    });
    b_.if_then(b_.compare(Pred::Slt, full_rows, row_hi), [&] {
        right(full_rows, true);
        each(axis, full_rows, row_hi, last,
             [&] { full_steps(p_.body, last, lo, full_columns, parts, false); });
    });
}

void PhaseEmitter::grid_tiles() {
    const size_t last = p_.grid.size() - 1;
    const auto axis = static_cast<AxisId>(s_.tile_axis);
    const auto across =
        static_cast<size_t>(std::find(p_.grid.begin(), p_.grid.end(), axis) - p_.grid.begin());
    std::vector<std::pair<KValue, Value>> loads;
    const int parts = std::min(kMostParts, parts_for(p_.body, p_.grid[last]));
    for (const Stmt &stmt : p_.body)
        if (stmt.kind == Stmt::Instruction && turned(k_.instrs[stmt.id])) {
            const Elem e = storage_elem(k_.buffers[k_.accesses[k_.instrs[stmt.id].access].buffer].dtype);
            loads.emplace_back(stmt.id, b_.stack(e, int64_t{width_} * width_ * parts));
        }
    Values counts;
    for (size_t i = 0; i < last; ++i)
        counts.push_back(i == across ? blocks_of(p_.grid[i], s_.tile_block) : extent(p_.grid[i]));
    counts.push_back(blocks_of(p_.grid[last], s_.block));
    walk(counts, [&](std::span<const Value> index) {
        const auto range = [&](size_t i, ArgId block) {
            Value all = extent(p_.grid[i]);
            if (block == kNoArg)
                return std::pair{b_.i64(0), all};
            Value lo = b_.mul(index[i], arg(block));
            return std::pair{lo, b_.smin(b_.add(lo, arg(block)), all)};
        };
        for (size_t i = 0; i < last; ++i)
            if (i != across)
                bind_axis(p_.grid[i], index[i]);
        const auto [row_lo, row_hi] = range(across, s_.tile_block);
        const auto [lo, hi] = range(last, s_.block);
        const auto whole = [&](Value from, Value to, int64_t step) {
            return b_.add(from, b_.bit_and(b_.smax(b_.sub(to, from), b_.i64(0)), b_.i64(-step)));
        };
        Value full_rows = whole(row_lo, row_hi, width_),
              full_columns = whole(lo, hi, int64_t{parts} * width_);
        Value aligned = s_.stores == StoreTier::Streaming ? tiles_aligned(row_lo, lo) : nullptr;
        const Value step = b_.i64(int64_t{parts} * width_);
        b_.loop(lo, full_columns, step, {}, [&](Value column, std::span<const Value>) -> Values {
            b_.loop(row_lo, full_rows, b_.i64(width_), {}, [&](Value row, std::span<const Value>) -> Values {
                tile(row, column, parts, loads, aligned);
                return {};
            });
            return {};
        });
        tile_edges(row_lo, row_hi, lo, hi, full_rows, full_columns, parts);
        for (size_t i = last; i-- > 0;)
            if (i != across)
                unbind_axis(p_.grid[i]);
    });
}

} // namespace lz::codegen
