#include "codegen/llvm/contraction/contraction.h"

#include "codegen/llvm/contraction/parts.h"
#include "ir/diagnostic.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace lz::codegen {

namespace {

using ir::ContractionArg;

class ContractionEmitter {
public:
    ContractionEmitter(PhaseEmitter &emitter, const EntryParams &params, const EmitOptions &options)
        : e_(emitter), b_(emitter.builder()), params_(params), c_(*emitter.phase().contraction),
          form_(panel_form(emitter.phase(), options)), panel_bytes_(bytes_of(form_.panel)),
          result_(form_.parts ? plain_result() : nullptr) {}

    void emit() {
        const auto &grid = e_.phase().grid;
        m_ = e_.extent(c_.m);
        n_ = e_.extent(c_.n);
        k_ = e_.extent(c_.k);
        if (form_.parts)
            tile_ = b_.stack(Elem::I64, ir::kProductTileFields);
        put_digits(c_.lhs, c_.lhs_digits, c_.m, lhs_digits_);
        put_digits(c_.rhs, c_.rhs_digits, c_.n, rhs_digits_);
        const Value block_m = arg(ContractionArg::BlockM), block_n = arg(ContractionArg::BlockN);
        const Value items_m = ceil_div(m_, block_m), items_n = ceil_div(n_, block_n);
        scratch_ = e_.buffer(e_.phase().cpu().scratch);
        TileUnit tiles(b_, form_.emulate_amx);
        if (form_.amx)
            tiles.configure();
        loop(params_.begin, params_.end, b_.i64(1), [&](Value item) {
            Value rest = b_.udiv(item, items_n);
            column_ = b_.mul(b_.urem(item, items_n), block_n);
            columns_ = b_.smin(block_n, b_.sub(n_, column_));
            row_ = b_.mul(b_.urem(rest, items_m), block_m);
            rows_ = b_.smin(block_m, b_.sub(m_, row_));
            rest = b_.udiv(rest, items_m);
            std::vector<std::pair<ir::AxisId, Value>> batch;
            for (size_t i = grid.size() - 2; i-- > 0;) {
                const Value extent = e_.extent(grid[i]);
                batch.emplace_back(grid[i], i == 0 ? rest : b_.urem(rest, extent));
                rest = b_.udiv(rest, extent);
            }
            for (const auto &[axis, index] : batch)
                e_.bind_axis(axis, index);
            lhs_ = operand(c_.lhs, c_.m, row_, batch, storage_elem(c_.dtype), lhs_digits_);
            rhs_ = operand(c_.rhs, c_.n, column_, batch, storage_elem(c_.dtype), rhs_digits_);
            if (result_) {
                results_ = operand(*result_, c_.n, column_, batch, form_.sum, no_digits_);
                results_.stride_k = stride(*result_, c_.m); // of rows: k is no axis of it
                results_.base = b_.element(form_.sum, results_.base, b_.mul(row_, or_one(results_.stride_k)));
            }
            emit_item();
            for (size_t i = batch.size(); i-- > 0;)
                e_.unbind_axis(batch[i].first);
        });
        if (form_.amx)
            tiles.release();
    }

private:
    /// Digits of an operand, and where its elements stand.
    struct Digits {
        struct Axis {
            Value table = nullptr; ///< ir::PlaceDigit
            Value count = nullptr;
        } own, depth;
        Value places = nullptr; ///< of the block of k
        Value first = nullptr;  ///< of the item's rows or columns
    };
    struct Operand {
        Value base;               ///< address of its first row (or column) of the item, at k = 0
        Value stride_i, stride_k; ///< null when contiguous
        /// Of an operand with digits, which is gathered: the base is where all digits are 0, strides say
        /// nothing.
        const Digits *digits = nullptr;
    };

    template <class Body>
    void loop(Value lo, Value hi, Value step, Body body) {
        b_.loop(lo, hi, step, {}, [&](Value index, std::span<const Value>) {
            body(index);
            return std::vector<Value>{};
        });
    }
    Value arg(ContractionArg which) { return e_.arg(ir::contraction_arg(e_.phase().cpu(), which)); }
    Value ceil_div(Value x, Value y) { return b_.udiv(b_.add(x, b_.sub(y, b_.i64(1))), y); }
    Value ceil_div(Value x, int y) { return b_.udiv(b_.add(x, b_.i64(y - 1)), b_.i64(y)); }
    Value or_one(Value stride) { return stride ? stride : b_.i64(1); }

    Value stride(const ir::Access &access, ir::AxisId axis) {
        for (const ir::AxisStride &s : access.strides)
            if (s.axis == axis)
                return s.cls == ir::StrideClass::Contiguous ? nullptr : e_.arg(s.stride);
        return b_.i64(0);
    }
    Operand operand(const ir::Access &access, ir::AxisId axis, Value first,
                    std::span<const std::pair<ir::AxisId, Value>> batch, Elem elem, Digits &digits) {
        Operand o{nullptr, stride(access, axis), stride(access, c_.k)};
        Value offset = b_.i64(0);
        if (digits.own.table) {
            digits.first = first;
            o.digits = &digits;
        } else {
            offset = b_.mul(first, or_one(o.stride_i));
        }
        if (access.offset != ir::kNoArg)
            offset = b_.add(offset, e_.arg(access.offset));
        for (const auto &[a, index] : batch)
            offset = b_.add(offset, b_.mul(index, or_one(stride(access, a))));
        o.base = b_.element(elem, e_.buffer(access.buffer), offset);
        return o;
    }
    /// Address of an operand's element (i, k) of the item.
    Value address(const Operand &o, Value i, Value k) {
        const Value offset = b_.add(b_.mul(i, or_one(o.stride_i)), b_.mul(k, or_one(o.stride_k)));
        return b_.element(storage_elem(c_.dtype), o.base, offset);
    }
    void put_digits(const ir::Access &access, const std::vector<ir::ContractionDigit> &digits, ir::AxisId own,
                    Digits &to) {
        if (digits.empty())
            return;
        LZ_CHECK(form_.in_place(), "an operand that is converted has digits");
        for (const auto &[axis, at] : {std::pair{own, &to.own}, std::pair{c_.k, &to.depth}}) {
            std::vector<std::pair<Value, Value>> fields; // an axis with a stride is one digit
            for (const ir::ContractionDigit &d : digits)
                if (d.axis == axis)
                    fields.emplace_back(e_.arg(d.extent), e_.arg(d.stride));
            if (fields.empty())
                fields.emplace_back(e_.extent(axis), or_one(stride(access, axis)));
            at->table = b_.stack(Elem::I64, 2 * static_cast<int64_t>(fields.size()));
            at->count = b_.i64(static_cast<int64_t>(fields.size()));
            for (size_t i = 0; i < fields.size(); ++i)
                for (const auto &[value, place] :
                     {std::pair{fields[i].first, 2 * i}, std::pair{fields[i].second, 2 * i + 1}})
                    b_.store(value, b_.element(Elem::I64, at->table, b_.i64(static_cast<int64_t>(place))), 8);
        }
    }
    void fill_places(Value to, Value first, Value count, const Digits::Axis &axis) {
        b_.call(ir::kFillPlacesSymbol, std::array{to, first, count, axis.table, axis.count});
    }
    /// Number `index` of the places in the scratch.
    Value places(Value index) {
        const Value all = b_.element(Elem::I8, scratch_, arg(ContractionArg::PlacesOffset));
        return b_.element(Elem::I64, all, index);
    }
    /// Where the elements of a block of k stand.
    void fill_depth_places(Value block_k) {
        Value first = b_.i64(0);
        for (Digits *digits : {&lhs_digits_, &rhs_digits_}) {
            if (digits->own.table) {
                digits->places = places(first);
                fill_places(digits->places, k_first_, k_depth_, digits->depth);
            }
            first = block_k;
        }
        own_places_ = places(b_.add(block_k, block_k));
    }

    void pack(const Operand &o, Value to, Value i, Value count, int width) {
        if (o.digits) {
            fill_places(own_places_, b_.add(o.digits->first, i), count, o.digits->own);
            b_.call(form_.pack_gathered_name,
                    std::array{to, o.base, own_places_, o.digits->places, count, k_depth_, b_.i64(width)});
            return;
        }
        const PackArgs args{to, address(o, i, k_first_), count, k_depth_, o.stride_i, o.stride_k};
        if (form_.amx && &o == &lhs_)
            emit_pack_amx(b_, form_, args);
        else
            emit_pack(b_, form_, width, args);
    }

    void emit_item() {
        const Value block_k = arg(ContractionArg::BlockK), inner_m = arg(ContractionArg::InnerM);
        // Panels keep their places when the last block of k is shorter.
        const Value panel_steps = b_.udiv(block_k, b_.i64(form_.pair));
        // Of pairs for the library's functions a word stands behind each, of quads two registers: there is
        // room, for the schedule counts an element where several take as much.
        const int64_t behind = form_.parts && form_.pair > 1 ? 32 * form_.pair : 0;
        const auto panel_bytes = [&](int width) {
            return b_.add(b_.mul(panel_steps, b_.i64(width * panel_bytes_)), b_.i64(behind));
        };
        lhs_panel_bytes_ = panel_bytes(form_.mr);
        rhs_panel_bytes_ = panel_bytes(form_.nr);
        panels_ = ceil_div(columns_, form_.nr);
        one_panel_ = b_.compare(Pred::Sle, panels_, b_.i64(1));
        tiles_ = ceil_div(inner_m, form_.mr);
        one_inner_ = b_.compare(Pred::Sge, inner_m, rows_);
        one_pass_ = b_.compare(Pred::Sge, block_k, k_);
        lhs_packed_ = b_.i1(true);
        if (lhs_may_stay())
            lhs_packed_ = b_.compare(Pred::Ne, arg(ContractionArg::PackLhs), b_.i64(0));
        if (!form_.amx)
            lhs_steps(lhs_packed_, 1);
        if (form_.parts) { // what is the same for all tiles of the item
            put(&ir::ProductTile::lhs_row, micro_.lhs_row);
            put(&ir::ProductTile::lhs_step, micro_.lhs_step);
            put(&ir::ProductTile::sums_row, sums_row());
        }
        // A product over nothing is 0: its epilogue runs as well.
        const Value depth = b_.smax(k_, b_.i64(1));
        if (!form_.amx) {
            loop(b_.i64(0), depth, block_k, [&](Value k) {
                begin_block(k, block_k);
                loop(b_.i64(0), rows_, inner_m,
                     [&](Value inner) { emit_rows(inner, inner_m, sums_of_rows(inner, inner_m)); });
            });
            return;
        }
        const Value pass_k = arg(ContractionArg::PassK);
        const Value block_bytes = b_.mul(panels_, rhs_panel_bytes_);
        const Value all_at_once = b_.compare(Pred::Sge, pass_k, k_);
        loop(b_.i64(0), depth, pass_k, [&](Value pass) {
            const Value end = b_.smin(b_.add(pass, pass_k), depth);
            loop(b_.i64(0), rows_, inner_m, [&](Value inner) {
                const Value sums = b_.select(all_at_once, b_.i64(0), sums_of_rows(inner, inner_m));
                loop(pass, end, block_k, [&](Value k) {
                    begin_block(k, block_k);
                    rhs_block_ = b_.mul(b_.udiv(b_.sub(k, pass), block_k), block_bytes);
                    emit_rows(inner, inner_m, sums);
                });
            });
        });
    }
    /// The number of their first tile where those of all rows of the item are kept.
    Value sums_of_rows(Value inner, Value inner_m) {
        return b_.mul(b_.udiv(inner, inner_m), b_.mul(panels_, tiles_));
    }
    void begin_block(Value k, Value block_k) {
        k_first_ = k;
        k_depth_ = b_.smin(block_k, b_.sub(k_, k));
        steps_ = ceil_div(k_depth_, form_.depth_step());
        first_pass_ = b_.compare(Pred::Eq, k, b_.i64(0));
        last_pass_ = b_.compare(Pred::Sge, b_.add(k, block_k), k_);
        rhs_block_ = b_.i64(0);
        if (form_.parts) {
            put(&ir::ProductTile::steps, steps_);
            put(&ir::ProductTile::first, b_.zext(first_pass_, Elem::I64));
        }
        if (lhs_digits_.own.table || rhs_digits_.own.table)
            fill_depth_places(block_k);
        if (packs_panels())
            b_.if_then(b_.compare(Pred::Ne, arg(ContractionArg::PackRhs), b_.i64(0)), [&] {
                const Value to = b_.element(Elem::I8, scratch_, arg(ContractionArg::RhsOffset));
                b_.call(form_.parts->pack_panels_name,
                        std::array{to, address(rhs_, b_.i64(0), k), columns_, k_depth_, or_one(rhs_.stride_k),
                                   rhs_panel_bytes_});
            });
    }

    /// The rows [inner, inner + inner_m) of the item against all its columns; tiles of sums are kept from
    /// number `sums` on.
    void emit_rows(Value inner, Value inner_m, Value sums) {
        const Value rows = b_.smin(inner_m, b_.sub(rows_, inner));
        const Value units = ceil_div(rows, form_.row_step);
        const Value tiles = ceil_div(units, form_.mr / form_.row_step);
        const Value per_tile = b_.udiv(units, tiles), longer = b_.urem(units, tiles);
        Value pack_now = b_.compare(Pred::Eq, inner, b_.i64(0));
        if (form_.amx && !rhs_.stride_i) {
            b_.if_then(b_.bit_and(pack_now, b_.bit_not(one_inner_)), [&] {
                const Value to =
                    b_.element(Elem::I8, scratch_, b_.add(arg(ContractionArg::RhsOffset), rhs_block_));
                emit_pack_panels(
                    b_, form_, form_.nr,
                    {to, address(rhs_, b_.i64(0), k_first_), columns_, k_depth_, nullptr, rhs_.stride_k},
                    rhs_panel_bytes_);
            });
            pack_now = one_inner_;
        }
        loop(b_.i64(0), panels_, b_.i64(1), [&](Value panel) {
            rhs_panel(panel, pack_now);
            loop(b_.i64(0), tiles, b_.i64(1), [&](Value tile) {
                // The first `longer` tiles have one unit more.
                const Value unit = b_.add(b_.mul(tile, per_tile), b_.smin(tile, longer));
                const Value height =
                    b_.add(per_tile, b_.zext(b_.compare(Pred::Slt, tile, longer), Elem::I64));
                const Value row = b_.mul(unit, b_.i64(form_.row_step));
                tile_rows_ = b_.smin(b_.mul(height, b_.i64(form_.row_step)), b_.sub(rows, row));
                tile_row_ = b_.add(inner, row);
                lhs_panel(tile, b_.compare(Pred::Eq, panel, b_.i64(0)));
                const Value place = b_.add(sums, b_.add(b_.mul(panel, tiles_), tile));
                emit_tile(height, b_.select(one_pass_, b_.i64(0), place));
            });
        });
    }

    void rhs_panel(Value panel, Value pack_now) {
        const Value first = b_.mul(panel, b_.i64(form_.nr));
        panel_first_ = first;
        panel_column_ = b_.add(column_, first);
        width_ = b_.smin(b_.i64(form_.nr), b_.sub(columns_, first));
        // Where all rows meet a panel before the next one, one slot, which stays in the cache, is enough,
        // unless panels are packed together.
        Value place = b_.mul(panel, rhs_panel_bytes_);
        if (!packs_panels())
            place = b_.select(one_inner_, b_.i64(0), b_.add(rhs_block_, place));
        const Value slot = b_.element(Elem::I8, scratch_, b_.add(arg(ContractionArg::RhsOffset), place));
        const bool may_stay = form_.in_place() && !rhs_.stride_i && !rhs_.digits;
        Value packed = b_.i1(true);
        if (may_stay) {
            const Value all = b_.compare(Pred::Ne, arg(ContractionArg::PackRhs), b_.i64(0));
            if (packs_panels()) // all of them are packed already
                pack_now = b_.bit_and(pack_now, b_.bit_not(all));
            packed = b_.bit_or(all, ragged());
        }
        b_.if_then(b_.bit_and(pack_now, packed), [&] { pack(rhs_, slot, first, width_, form_.nr); });
        micro_.rhs = slot;
        micro_.rhs_step = b_.i64(form_.nr);
        if (may_stay) {
            micro_.rhs = b_.select(packed, slot, address(rhs_, first, k_first_));
            micro_.rhs_step = b_.select(packed, micro_.rhs_step, or_one(rhs_.stride_k));
        }
        if (form_.parts) {
            put(&ir::ProductTile::rhs, micro_.rhs);
            put(&ir::ProductTile::rhs_step, micro_.rhs_step);
            put(&ir::ProductTile::width, width_);
        }
    }

    /// Whether panels of rhs are packed together, before the first rows of a block of k.
    bool packs_panels() const {
        return form_.parts && form_.parts->pack_panels && form_.in_place() && !rhs_.stride_i && !rhs_.digits;
    }

    /// Whether the panel's columns can only be read from a packed panel, which has all of them.
    Value ragged() {
        const Value partial = b_.compare(Pred::Slt, width_, b_.i64(form_.nr));
        return form_.masks ? b_.bit_and(partial, b_.compare(Pred::Sgt, width_, b_.i64(form_.lanes)))
                           : partial;
    }

    bool lhs_may_stay() const { return form_.amx ? !lhs_.stride_k : form_.in_place() && !lhs_.digits; }

    /// How far rows and steps of lhs lie apart, in a panel (of `depth` elements of k a step) or where they
    /// stay.
    void lhs_steps(Value packed, int depth) {
        micro_.lhs_row = b_.i64(depth);
        micro_.lhs_step = b_.i64(int64_t{form_.mr} * depth);
        if (lhs_may_stay()) {
            micro_.lhs_row = b_.select(packed, micro_.lhs_row, or_one(lhs_.stride_i));
            micro_.lhs_step =
                b_.select(packed, micro_.lhs_step, form_.amx ? b_.i64(depth) : or_one(lhs_.stride_k));
        }
    }

    void lhs_panel(Value tile, Value pack_now) {
        // Of one panel of rhs each tile is met once: one slot, which stays in the cache, is enough.
        const Value place = b_.select(one_panel_, b_.i64(0), b_.mul(tile, lhs_panel_bytes_));
        const Value slot = b_.element(Elem::I8, scratch_, place);
        Value packed = lhs_packed_;
        if (form_.amx) {
            if (lhs_may_stay()) // tiles that are loaded have all their rows
                packed = b_.bit_or(
                    packed, b_.compare(Pred::Ne, b_.urem(tile_rows_, b_.i64(ir::kAmxRows)), b_.i64(0)));
            lhs_steps(packed, form_.depth_step());
        }
        b_.if_then(b_.bit_and(pack_now, packed), [&] { pack(lhs_, slot, tile_row_, tile_rows_, form_.mr); });
        micro_.lhs = slot;
        if (lhs_may_stay())
            micro_.lhs = b_.select(packed, slot, address(lhs_, tile_row_, k_first_));
        micro_.lhs_last = b_.mul(micro_.lhs_row, b_.sub(tile_rows_, b_.i64(1)));
    }

    /// How far rows of the sums lie apart.
    Value sums_row() { return result_ ? or_one(results_.stride_k) : b_.i64(form_.nr); }

    void emit_tile(Value height, Value place) {
        const int64_t tile_bytes = int64_t{form_.mr} * form_.nr * bytes_of(form_.sum);
        micro_.steps = steps_;
        micro_.first = first_pass_;
        micro_.width = width_;
        if (result_) { // sums lie where the result does
            const Value at = b_.add(b_.mul(tile_row_, sums_row()), panel_first_);
            micro_.sums = b_.element(form_.sum, results_.base, at);
            micro_.next_sums = b_.element(form_.sum, micro_.sums, b_.mul(tile_rows_, sums_row()));
            call_tile();
            return;
        }
        micro_.sums = b_.element(Elem::I8, scratch_,
                                 b_.add(arg(ContractionArg::SumsOffset), b_.mul(place, b_.i64(tile_bytes))));
        micro_.next_sums = b_.element(Elem::I8, micro_.sums, b_.i64(tile_bytes));
        if (form_.parts)
            call_tile();
        else
            choose_microkernel(height);
        b_.if_then(last_pass_, [&] { emit_epilogue(); });
    }

    void call_tile() {
        put(&ir::ProductTile::lhs, micro_.lhs);
        put(&ir::ProductTile::sums, micro_.sums);
        put(&ir::ProductTile::rows, tile_rows_);
        put(&ir::ProductTile::next, micro_.next_sums);
        b_.call(form_.parts->multiply_tile_name, std::array{tile_});
    }
    /// Writes a field of the tile. Each is written where it changes, so that a tile of a small product costs
    /// little.
    template <class T>
    void put(T ir::ProductTile::*field, Value value) {
        const ir::ProductTile none{};
        const auto offset =
            reinterpret_cast<const char *>(&(none.*field)) - reinterpret_cast<const char *>(&none);
        b_.store(value, b_.element(Elem::I8, tile_, b_.i64(offset)), 8);
    }
    /// Where the products are stored if that is all that is done with them, as the sums they are, next to
    /// each other along n and not past the caches: then the sums can lie there from the first pass on.
    const ir::Access *plain_result() const {
        const ir::Kernel &kernel = e_.kernel();
        const ir::Region &body = e_.phase().body;
        if (body.size() != 2 || body[0].kind != ir::Stmt::Instruction ||
            body[1].kind != ir::Stmt::Instruction || e_.phase().cpu().stores != ir::StoreTier::Cached)
            return nullptr;
        const ir::Instr &product = kernel.instrs[body[0].id], &store = kernel.instrs[body[1].id];
        if (product.op != ir::KOp::Product || product.dtype != c_.accumulate || store.op != ir::KOp::Store ||
            store.operands[0] != body[0].id)
            return nullptr;
        const ir::Access &access = kernel.accesses[store.access];
        const auto along_n = std::ranges::find(access.strides, c_.n, &ir::AxisStride::axis);
        const bool plain = kernel.buffers[access.buffer].mode == ir::BufferMode::Out &&
                           access.terms.empty() && access.predicate == ir::kNoValue &&
                           along_n != access.strides.end() && along_n->cls == ir::StrideClass::Contiguous;
        return plain ? &access : nullptr;
    }
    /// By the tile's height and the panel's width, which are known where the kernel runs.
    void choose_microkernel(Value height) {
        const CodeBlock done = b_.block("tile"), narrow = b_.block("narrow"), wide = b_.block("wide");
        const int step = form_.column_step();
        b_.branch(b_.compare(Pred::Sle, width_, b_.i64(step)), narrow, wide);
        for (const auto &[block, columns] : {std::pair{wide, form_.nr / step}, std::pair{narrow, 1}}) {
            b_.set_block(block);
            for (int rows = form_.mr; rows > 0; rows -= form_.row_step) {
                const CodeBlock here = b_.block("micro"),
                                next = rows > form_.row_step ? b_.block("less") : done;
                b_.branch(b_.compare(Pred::Eq, height, b_.i64(rows / form_.row_step)), here, next);
                b_.set_block(here);
                emit_microkernel(b_, form_, rows, columns, micro_);
                b_.jump(done);
                b_.set_block(next);
            }
        }
    }

    void emit_epilogue() {
        const Value full = b_.compare(Pred::Eq, width_, b_.i64(form_.nr));
        b_.if_then(full, [&] { emit_epilogue_rows({}); });
        b_.if_then(b_.bit_not(full), [&] {
            std::vector<Value> masks;
            for (int j = 0; j < form_.nr; j += form_.lanes) {
                const Value index = b_.add(b_.splat(b_.i64(j), form_.lanes), b_.iota(Elem::I64, form_.lanes));
                masks.push_back(b_.compare(Pred::Slt, index, b_.splat(width_, form_.lanes)));
            }
            emit_epilogue_rows(masks);
        });
    }
    void emit_epilogue_rows(std::span<const Value> masks) {
        loop(b_.i64(0), tile_rows_, b_.i64(1), [&](Value i) {
            std::vector<Value> products;
            for (int j = 0; j < form_.nr; j += form_.lanes) {
                const Value index = b_.add(b_.mul(i, b_.i64(form_.nr)), b_.i64(j));
                products.push_back(
                    rounded(b_.load(form_.sum, form_.lanes, b_.element(form_.sum, micro_.sums, index), 64)));
            }
            e_.bind_axis(c_.m, b_.add(row_, b_.add(tile_row_, i)));
            e_.emit_points(c_.n, panel_column_, form_.lanes, masks, products,
                           static_cast<int>(products.size()));
            e_.unbind_axis(c_.m);
        });
    }
    Value rounded(Value sum) { return round_sum(b_, form_, sum, product_dtype()); }
    ir::DType product_dtype() const {
        for (const ir::Instr &instr : e_.kernel().instrs)
            if (instr.op == ir::KOp::Product)
                return instr.dtype;
        return c_.accumulate;
    }

    PhaseEmitter &e_;
    Builder &b_;
    EntryParams params_;
    const ir::Contraction &c_;
    PanelForm form_;
    int panel_bytes_;
    const ir::Access *result_;
    Value tile_ = nullptr; ///< an ir::ProductTile
    // of the kernel
    Value m_ = nullptr, n_ = nullptr, k_ = nullptr, scratch_ = nullptr;
    // of the item
    Value row_ = nullptr, rows_ = nullptr, column_ = nullptr, columns_ = nullptr, panels_ = nullptr,
          tiles_ = nullptr; ///< of the rows that are packed at a time
    Value lhs_panel_bytes_ = nullptr, rhs_panel_bytes_ = nullptr, one_pass_ = nullptr, one_inner_ = nullptr,
          one_panel_ = nullptr, lhs_packed_ = nullptr;
    Digits lhs_digits_ = {}, rhs_digits_ = {}, no_digits_ = {};
    Value own_places_ = nullptr;                 ///< of the rows or columns of a panel
    Operand lhs_ = {}, rhs_ = {}, results_ = {}; ///< of results the other stride is that of rows
    // of the block of k
    Value k_first_ = nullptr, k_depth_ = nullptr, steps_ = nullptr, first_pass_ = nullptr,
          last_pass_ = nullptr;
    Value rhs_block_ = nullptr; ///< bytes to its panels of rhs
    // of the panel of rhs (its first column in the item and in the result) and the tile (its first row in the
    // item)
    Value panel_first_ = nullptr, panel_column_ = nullptr, width_ = nullptr, tile_row_ = nullptr,
          tile_rows_ = nullptr;
    MicroArgs micro_ = {};
};

} // namespace

void emit_contraction(PhaseEmitter &emitter, const EntryParams &params, const EmitOptions &options) {
    ContractionEmitter(emitter, params, options).emit();
}

} // namespace lz::codegen
