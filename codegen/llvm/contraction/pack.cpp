#include "codegen/llvm/contraction/parts.h"

#include <algorithm>
#include <vector>

namespace lz::codegen {

namespace {

class Packer {
public:
    Packer(Builder &b, const PanelForm &form, int width, const PackArgs &args)
        : b_(b), form_(form), width_(width), args_(args), storage_(storage_elem(form.dtype)),
          bytes_(ir::size_of(form.dtype)), depth_(args.depth) {
        const Value step = b.i64(form.depth_step());
        if (form.amx)
            depth_ = b.mul(b.udiv(b.add(args.depth, b.i64(form.depth_step() - 1)), step), step);
    }

    /// Of columns that lie side by side: `first` and those behind it that a panel has; `masked`: not all of
    /// them may be there.
    Packer panel(Value first, Value to, bool masked) const {
        PackArgs args = args_;
        args.from = at(first, nullptr);
        args.to = to;
        args.count = masked ? b_.sub(args_.count, first) : b_.i64(width_);
        return Packer(b_, form_, width_, args);
    }

    void emit() {
        if (!args_.stride_i)
            along_rows();
        else if (!args_.stride_k)
            transposed();
        else
            one_by_one();
    }

    /// One step of k of columns that lie side by side. Of what probably follows a line is asked for (of pairs
    /// one of two: [16, 768] x [768, 3072] of bf16 takes 1.25 times as long without, and 1.06 with both).
    void pack_step(Value step, bool masked, bool ahead) const {
        const int lanes = form_.lanes;
        for (int column = 0; column < width_; column += lanes) {
            // A whole register past the last full one would read beyond the operand.
            const bool fits = !masked && column + lanes <= width_;
            const Value mask = fits ? nullptr : first_lanes(b_, b_.sub(args_.count, b_.i64(column)), lanes);
            if (ahead && column * bytes_ % kLine == 0)
                fetch_ahead(b_, at(b_.i64(column + width_), b_.mul(step, b_.i64(form_.pair))));
            store(load_columns(step, column, mask), step, b_.i64(column), std::min(lanes, width_ - column));
        }
    }
    /// Zeros from where k ends to where tile registers end.
    void pack_zeros() const {
        if (form_.amx)
            b_.loop(steps(), steps_of(depth_), b_.i64(1), {}, [&](Value step, std::span<const Value>) {
                for (int column = 0; column < width_; column += form_.lanes)
                    store(b_.zero(form_.panel, form_.lanes), step, b_.i64(column), form_.lanes);
                return std::vector<Value>{};
            });
    }
    Value steps() const { return steps_of(args_.depth); }

private:
    static constexpr int kLine = 64;

    Value at(Value i, Value k) const {
        Value index = nullptr;
        for (const auto &[x, stride] : {std::pair{i, args_.stride_i}, std::pair{k, args_.stride_k}}) {
            if (!x)
                continue;
            const Value term = stride ? b_.mul(x, stride) : x;
            index = index ? b_.add(index, term) : term;
        }
        return b_.element(storage_, args_.from, index);
    }
    Value target(Value step, Value column) const {
        return b_.element(form_.panel, args_.to, b_.add(b_.mul(step, b_.i64(width_)), column));
    }

    /// A value as it lies in memory, in the type that is summed.
    Value convert(Value stored) const {
        switch (form_.dtype) {
        case ir::DType::F16:
            return b_.half_to_f32(stored);
        case ir::DType::BF16:
            return b_.bitcast(b_.shl(b_.zext(stored, Elem::I32), b_.i32(16, b_.lanes(stored))), Elem::F32);
        case ir::DType::Bool:
        case ir::DType::U8:
            return b_.zext(stored, form_.panel);
        default:
            return ir::is_integer(form_.dtype) && form_.panel != storage_ ? b_.sext(stored, form_.panel)
                                                                          : stored;
        }
    }
    /// A value as it lies in memory, as one of those that share an element of a panel.
    Value part(Value stored) const {
        if (storage_ == form_.part())
            return stored;
        return form_.dtype == ir::DType::U8 ? b_.zext(stored, form_.part()) : b_.sext(stored, form_.part());
    }

    /// A register that holds `rows` rows of a panel from `column` on.
    void store(Value v, Value step, Value column, int rows) const {
        const int lanes = b_.lanes(v);
        const Value to = target(step, column);
        // A whole register may run over into the next step, which is written later.
        if (rows == lanes || width_ <= lanes)
            b_.store(v, to, bytes_of(form_.panel));
        else
            b_.masked_store(v, to, b_.compare(Pred::Slt, b_.iota(Elem::I32, lanes), b_.i32(rows, lanes)),
                            bytes_of(form_.panel));
    }

    /// The panel's rows lie side by side in memory.
    void along_rows() {
        const Value full = b_.compare(Pred::Sge, args_.count, b_.i64(width_));
        for (const bool masked : {false, true})
            b_.if_then(masked ? b_.bit_not(full) : full, [&] {
                b_.loop(b_.i64(0), steps(), b_.i64(1), {}, [&](Value step, std::span<const Value>) {
                    pack_step(step, masked, true);
                    return std::vector<Value>{};
                });
            });
        pack_zeros();
    }
    Value steps_of(Value depth) const {
        return b_.udiv(b_.add(depth, b_.i64(form_.pair - 1)), b_.i64(form_.pair));
    }
    Value load_columns(Value step, int column, Value mask) const {
        if (form_.pair == 1)
            return convert(load(b_.i64(column), step, mask, form_.lanes));
        const Value first = b_.mul(step, b_.i64(form_.pair));
        std::vector<Value> parts = {part(load(b_.i64(column), first, mask, form_.lanes))};
        for (int p = 1; p < form_.pair; ++p) {
            const Value k = b_.add(first, b_.i64(p));
            Value live = b_.splat(b_.compare(Pred::Slt, k, args_.depth), form_.lanes);
            if (mask)
                live = b_.bit_and(live, mask);
            parts.push_back(part(load(b_.i64(column), k, live, form_.lanes)));
        }
        return join_parts(b_, parts);
    }
    Value load(Value i, Value k, Value mask, int lanes) const {
        const Value address = at(i, k);
        return mask ? b_.masked_load(storage_, address, mask, bytes_)
                    : b_.load(storage_, lanes, address, bytes_);
    }

    /// The panel's rows lie apart, each contiguous along k: squares of registers are transposed. One square
    /// is emitted for all columns and for the last elements of k too: shuffles are slow to compile.
    void transposed() {
        const int whole = width_ / form_.lanes * form_.lanes;
        if (whole > 0)
            b_.loop(b_.i64(0), b_.i64(whole), b_.i64(form_.lanes), {},
                    [&](Value column, std::span<const Value>) {
                        transpose_columns(column, form_.lanes);
                        return std::vector<Value>{};
                    });
        if (whole < width_)
            transpose_columns(b_.i64(whole), width_ - whole);
    }
    void transpose_columns(Value column, int rows) {
        const int lanes = form_.lanes, depth = lanes * form_.pair;
        const Value last = b_.sub(args_.count, b_.i64(1));
        std::vector<Value> offsets;
        for (int i = 0; i < rows; ++i) // rows past the end repeat the last one: nothing reads them
            offsets.push_back(b_.mul(b_.smin(b_.add(column, b_.i64(i)), last), args_.stride_i));
        b_.loop(b_.i64(0), depth_, b_.i64(depth), {}, [&](Value k, std::span<const Value>) {
            const Value mask = first_lanes(b_, b_.sub(args_.depth, k), depth);
            std::vector<Value> square;
            const Value next_panel = b_.mul(args_.stride_i, b_.i64(width_));
            for (const Value offset : offsets) {
                const Value address = b_.element(storage_, args_.from, b_.add(offset, k));
                fetch_ahead(b_, b_.element(storage_, address, next_panel));
                const Value v = b_.masked_load(storage_, address, mask, bytes_);
                square.push_back(form_.pair == 1 ? convert(v) : pairs_of(b_, part(v)));
            }
            square.resize(static_cast<size_t>(lanes), square.back());
            transpose(b_, square);
            const Value step = b_.udiv(k, b_.i64(form_.pair));
            for (int l = 0; l < lanes; ++l)
                store(square[static_cast<size_t>(l)], b_.add(step, b_.i64(l)), column, rows);
            return std::vector<Value>{};
        });
    }
    /// No axis is contiguous.
    void one_by_one() {
        b_.loop(b_.i64(0), steps_of(depth_), b_.i64(1), {}, [&](Value step, std::span<const Value>) {
            b_.loop(b_.i64(0), args_.count, b_.i64(1), {}, [&](Value i, std::span<const Value>) {
                const Value to = b_.element(form_.panel, args_.to, b_.add(b_.mul(step, b_.i64(width_)), i));
                b_.store(form_.pair == 1 ? convert(load(i, step, nullptr, 1)) : load_pair(i, step), to,
                         bytes_of(form_.panel));
                return std::vector<Value>{};
            });
            return std::vector<Value>{};
        });
    }
    Value load_pair(Value i, Value step) {
        std::vector<Value> parts;
        for (int p = 0; p < form_.pair; ++p) {
            const Value k = b_.add(b_.mul(step, b_.i64(form_.pair)), b_.i64(p));
            const Value there = b_.compare(Pred::Slt, k, args_.depth);
            const Value value = part(load(i, b_.select(there, k, b_.i64(0)), nullptr, 1));
            parts.push_back(b_.select(there, value, b_.zero(form_.part())));
        }
        return join_parts(b_, parts);
    }

    Builder &b_;
    const PanelForm &form_;
    int width_;
    PackArgs args_;
    Elem storage_;
    int bytes_;
    Value depth_; ///< what is filled: with zeros behind what is there
};

} // namespace

void transpose(Builder &b, std::vector<Value> &square) {
    const int lanes = static_cast<int>(square.size());
    // Ever smaller squares of half the size are swapped across the diagonal.
    for (int half = lanes / 2; half > 0; half /= 2) {
        std::vector<int> even, odd;
        for (int l = 0; l < lanes; ++l) {
            const int from = l & half ? lanes : 0, base = l & ~half;
            even.push_back(from + base);
            odd.push_back(from + base + half);
        }
        for (int i = 0; i < lanes; ++i) {
            if (i & half)
                continue;
            Value &x = square[static_cast<size_t>(i)], &y = square[static_cast<size_t>(i + half)];
            const Value top = b.shuffle(x, y, even), bottom = b.shuffle(x, y, odd);
            x = top;
            y = bottom;
        }
    }
}

void outline_pack(Builder &b, const char *name, const PackArgs &a, Value more,
                  const std::function<void(const PackArgs &inside, Value more)> &body) {
    std::vector<Value> operands = {a.to, a.from, a.count, a.depth};
    for (const Value operand : {a.stride_i, a.stride_k, more})
        if (operand)
            operands.push_back(operand);
    auto *function = b.outlined(name, operands, [&](std::span<const Value> p) {
        PackArgs inside{p[0], p[1], p[2], p[3], nullptr, nullptr};
        size_t next = 4;
        if (a.stride_i)
            inside.stride_i = p[next++];
        if (a.stride_k)
            inside.stride_k = p[next++];
        body(inside, more ? p[next] : nullptr);
    });
    b.call(function, operands);
}

void emit_pack(Builder &b, const PanelForm &form, int width, const PackArgs &a) {
    if (form.parts && form.parts->pack_panel && (form.in_place() || form.pair > 1)) {
        const Value operands[] = {a.to,
                                  a.from,
                                  a.count,
                                  a.depth,
                                  a.stride_i ? a.stride_i : b.i64(1),
                                  a.stride_k ? a.stride_k : b.i64(1),
                                  b.i64(width)};
        b.call(form.parts->pack_panel_name, operands);
        return;
    }
    outline_pack(b, "pack", a, nullptr,
                 [&](const PackArgs &inside, Value) { Packer(b, form, width, inside).emit(); });
}

void emit_pack_panels(Builder &b, const PanelForm &form, int width, const PackArgs &a, Value panel_bytes) {
    outline_pack(b, "pack_panels", a, panel_bytes, [&](const PackArgs &inside, Value bytes) {
        const Packer all(b, form, width, inside);
        const Value whole = b.udiv(inside.count, b.i64(width));
        const Value some = b.compare(Pred::Sgt, inside.count, b.mul(whole, b.i64(width)));
        const auto panel = [&](Value i, bool masked) {
            return all.panel(b.mul(i, b.i64(width)), b.element(Elem::I8, inside.to, b.mul(i, bytes)), masked);
        };
        const auto loop = [&](Value end, const std::function<void(Value)> &body) {
            b.loop(b.i64(0), end, b.i64(1), {}, [&](Value index, std::span<const Value>) {
                body(index);
                return std::vector<Value>{};
            });
        };
        loop(all.steps(), [&](Value step) {
            loop(whole, [&](Value i) { panel(i, false).pack_step(step, false, false); });
            b.if_then(some, [&] { panel(whole, true).pack_step(step, true, false); });
        });
        loop(b.add(whole, b.zext(some, Elem::I64)), [&](Value i) { panel(i, false).pack_zeros(); });
    });
}

} // namespace lz::codegen
