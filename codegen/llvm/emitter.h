#pragma once
/// Emission of one phase of a kernel: scalar SSA of the Kernel IR to scalars and vectors.
///
/// Code is emitted in a *context*: which axis is the vector, how many lanes a register has and how many
/// registers (parts) one step works on, and which lanes are live. A value that depends on the vector axis is
/// *varying*: one vector a part. All others are scalars; they are splat where a varying operation uses them.
///
/// What does not depend on a loop is emitted before it (`hoist`), so the emitted module needs no optimizing
/// passes.

#include "codegen/llvm/analysis.h"
#include "codegen/llvm/builder.h"
#include "codegen/llvm/ops.h"
#include "ir/kernel/compiled_kernel.h"
#include "ir/kernel/kernel.h"
#include "ir/target.h"

#include <array>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lz::codegen {

struct EmitOptions {
    ir::CpuIsa isa;
    bool emulate_amx = false;
};

/// A value in the current context: one scalar, or one vector a part.
struct Emitted {
    std::vector<Value> parts; ///< empty: not emitted yet
    bool varying = false;
    Value splat = nullptr; ///< of a scalar, good in `splat_block` and, if that is null, everywhere
    CodeBlock splat_block = nullptr;
    bool empty() const { return parts.empty(); }
};

/// The parameters of a PhaseEntry.
struct EntryParams {
    Value frame, begin, end, worker;
};

class PhaseEmitter {
public:
    PhaseEmitter(Builder &builder, const ir::Kernel &kernel, const ir::Phase &phase,
                 const EmitOptions &options, const EntryParams &params);

    /// The whole phase, for phases that are not contractions: walks work items [begin, end).
    void emit_grid();

    // --- what the contraction emitter uses
    Builder &builder() { return b_; }
    const ir::Kernel &kernel() const { return k_; }
    const ir::Phase &phase() const { return p_; }
    Value table(int64_t offset); ///< pointer of the frame at so many bytes
    Value arg(ir::ArgId id);     ///< i64; kNoArg is 0
    Value extent(ir::AxisId axis) { return arg(k_.axes[axis].extent); }
    Value buffer(uint16_t index); ///< pointer
    /// Element index of an access where the bound axes are; the vector axis and terms are left out.
    Value element_offset(const ir::Access &access);

    /// Gives an axis its index until the matching unbind; last bound, first unbound.
    void bind_axis(ir::AxisId axis, Value index);
    void unbind_axis(ir::AxisId axis);

    /// Emits the phase's body once, for the points of the bound axes and, on `axis`, `parts` times `width`
    /// indices from `first` on. `masks`: live lanes of each part, or empty when all are. `products`: what
    /// KOp::Product is in each part (vectors of `width` lanes, in the SSA form of its dtype).
    void emit_points(ir::AxisId axis, Value first, int width, std::span<const Value> masks,
                     std::span<const Value> products, int parts);

    /// Lanes of one register in this phase, for values of four bytes; more where all are narrower.
    int width() const { return width_; }

private:
    struct Context {
        ir::AxisId axis = kNoAxis; ///< the vector; kNoAxis: everything is scalar
        int width = 1, parts = 1;
        Value first = nullptr; ///< index of the first lane of the first part
        std::vector<Value> masks;
        std::vector<Value> products;
        bool nontemporal = false;      ///< plain stores of results bypass the caches
        std::vector<uint32_t> streams; ///< accesses whose loads also ask for what follows
    };
    using Values = std::vector<Value>;
    /// What `forget` goes back to.
    struct Mark {
        size_t defined, memos, splats, turns;
    };

    // --- regions.cpp: values and where they are computed
    void emit_region(const ir::Region &region);
    void emit_instr(ir::KValue v);
    Emitted compute(ir::KValue v);
    Emitted choose_rarely(ir::KValue v);
    Emitted vary(const std::function<Value(int part)> &of_part); ///< one Value a part
    /// Emits what does not depend on axes that are not bound yet. `runs`: the region is certain to run.
    void hoist(const ir::Region &region, bool runs);
    bool can_hoist(ir::KValue v, bool runs) const;
    /// Whether all operands are there; of a Rarely also those of what only its first value needs.
    bool is_ready(ir::KValue v) const;
    /// Before a vector loop along `axis`: addresses and splats of scalars that it will use.
    void prepare(const ir::Region &region, ir::AxisId axis);
    bool is_varying(ir::KValue v) const { return ctx_.axis != kNoAxis && analysis_.depends(v, ctx_.axis); }
    Mark mark() const { return {defined_.size(), memos_.size(), splats_.size(), turns_.size()}; }
    void forget(Mark mark);
    Value scalar(ir::KValue v);            ///< of a value that does not vary
    Value operand(ir::KValue v, int part); ///< in the form of the context
    Value live(int part) const {
        return ctx_.masks.empty() ? nullptr : ctx_.masks[static_cast<size_t>(part)];
    }
    Value lane_indices(int part); ///< i64 indices on the vector axis
    Value beside_lane_index(ir::KValue v, bool &far);
    std::optional<Emitted> compare_lanes(const ir::Instr &instr);
    Context vector_context(ir::AxisId axis, Value first, int width, int parts) const;

    // --- access.cpp: addresses, loads and stores
    struct Address {
        enum Form { One, Contiguous, Reversed, Strided, Scattered } form;
        Value pointer; ///< of the element (One), of the first lane, or a vector of pointers (Scattered)
        Value stride = nullptr; ///< Reversed, Strided: elements between lanes
        Value common = nullptr; ///< Scattered: where the pointers of all lanes begin
    };
    Emitted load(const ir::Instr &instr);
    void fetch_ahead(uint32_t id, Value pointer, int part);
    void store(const ir::Instr &instr);
    Address address(const ir::Access &access, uint32_t id, int part);
    Value base_pointer(const ir::Access &access, uint32_t id);
    Value prefix(const ir::Access &access, uint32_t id, size_t level);
    Value lane_pointers(const Address &a, Elem e, int width);
    Value access_mask(const ir::Access &access, int part);
    Value load_part(const ir::Access &access, const Address &at, Elem e, int part);
    Value guarded_scalar_load(Value condition, Elem e, Value pointer);
    bool nontemporal_store(const ir::Access &access) const;
    bool is_line_of_result(const ir::Access &access, ir::AxisId axis) const;
    std::vector<uint32_t> lines_of_results(const ir::Region &region, ir::AxisId axis, bool inside) const;
    bool is_bound(ir::AxisId axis) const;
    Value alignment_peel(const ir::Region &region, ir::AxisId axis, Value lo, Value hi, Value *aligned);
    Value stores_over_input(const ir::Region &region, ir::AxisId axis, Value lo);

    // --- periodic.cpp: indices that begin again
    /// An extent by which the vector axis is divided. Values are of the entry block.
    struct Period {
        ir::ArgId extent;
        Value length = nullptr;                      ///< at least 1
        Value step = nullptr, step_turns = nullptr;  ///< the width by it: remainder, quotient
        Value remainders = nullptr, turns = nullptr; ///< the numbers of lanes by it
    };
    struct Turns {
        ir::ArgId extent;
        Value first = nullptr;        ///< of the step
        Values quotients, remainders; ///< by part, of its first lane
    };
    const Period &period(ir::ArgId extent);
    const Turns &turns(const Period &p);
    bool is_periodic(ir::KValue v) const;
    Emitted periodic(ir::KValue v);
    const ir::IndexTerm *periodic_term(const ir::Access &access) const;
    Value load_periodic(const ir::Access &access, const ir::IndexTerm &term, const Address &at, Elem e,
                        int part);

    // --- random.cpp
    Emitted random_words(const ir::Instr &instr, bool varying);
    Values words_of_run(const ir::Instr &instr);
    Value first_of_run(ir::KValue v);
    Value first_block(ir::KValue counter, ir::KValue position, Value first);

    // --- checks.cpp
    Emitted check(ir::KValue id);
    void report_fault(ir::FaultCode code, ir::KValue check, Value value, Value limit);

    bool vector_grid() const { return p_.vector_grid || s_.across; }

    // --- loops.cpp: loops without vectors, and vector loops without reductions
    void emit_loop(uint32_t id);
    void emit_sequential(const ir::Loop &loop, uint32_t id, Value begin, Value end);
    /// Whether what is reduced differs between the lanes of the vector; else it stays a scalar.
    bool varies(const ir::Reduction &r) const {
        return is_varying(r.value) || (r.index != ir::kNoValue && is_varying(r.index));
    }
    Values element_of(const ir::Reduction &r); ///< what the current element of a loop gives to a reduction
    void set_results(const ir::Loop &loop, uint32_t id, const std::vector<Values> &partials);
    std::vector<Values> identities(const ir::Loop &loop);
    void vector_range(const ir::Region &region, ir::AxisId axis, Value lo, Value hi);
    void masked_steps(const ir::Region &region, ir::AxisId axis, Value lo, Value hi, int parts = 1,
                      bool asks = false);
    bool masks_are_free(const ir::Region &region, ir::AxisId axis) const;
    /// Masks of so many registers, one behind the other: the lanes below `count` (i64, may be negative).
    Values lanes_below(Value count, int parts);
    void full_steps(const ir::Region &region, ir::AxisId axis, Value lo, Value hi, int parts,
                    bool nontemporal);
    void points(const ir::Region &region, Context context, const std::function<void()> &then = {});
    int parts_for(const ir::Region &region, ir::AxisId axis) const;
    int parts_of_chain(const ir::Region &region, ir::AxisId axis) const;
    int64_t bytes_of_lanes(const ir::Region &region, ir::AxisId axis, int parts) const;
    std::vector<uint32_t> streams_ahead(const ir::Region &region, ir::AxisId axis, bool masked) const;
    bool chooses(const ir::Region &region) const;

    // --- row_groups.cpp: columns that are folded to partial results
    /// The rows that are folded now, of a loop whose other rows have been or will be.
    struct RowGroup {
        uint32_t loop = ir::kNoValue;
        Value begin = nullptr, end = nullptr;
        Value first = nullptr; ///< i1: no group went before
        std::vector<const ir::Instr *> stores;
    };
    std::vector<const ir::Instr *> partial_stores(const ir::Loop &loop, ir::AxisId axis) const;
    void columns_range(ir::AxisId axis, Value lo, Value hi);
    std::vector<Values> resumed(const ir::Loop &loop);

    // --- lanes.cpp: reductions along the vector
    /// Accumulators of one reduction: `registers` values, and as many indices behind them for arg reductions.
    using Partials = std::vector<Values>;
    void emit_lanes(const ir::Loop &loop, uint32_t id, Value begin, Value end);
    Values fold_chunk(const ir::Loop &loop, Value begin, Value end); ///< the results as scalars, in order
    Values fold_tiny(const ir::Loop &loop, Value begin, Value end);
    Values fold_in_registers(const ir::Loop &loop, Value begin, Value end, int parts, bool masked);
    Partials fold_rest(const ir::Loop &loop, Partials partials, Value begin, Value walked, Value end,
                       size_t most);
    void begin_positions(const ir::Loop &loop, Partials &partials);
    void take(const ir::Loop &loop, size_t reduction, Values &accumulators, size_t at, int part,
              Value behind);
    void take_position(const ir::Reduction &r, Value &best, Value &position, Value value, Value behind,
                       Value mask);
    Values halve_positions(const ir::Loop &loop, Partials partials, Value begin, Value end);
    bool counts_positions(const ir::Loop &loop, const ir::Reduction &r) const;
    Values fold_in_memory(const ir::Loop &loop, Value begin, Value end, int parts);
    Partials identities(const ir::Loop &loop, int lanes,
                        const std::function<size_t(const ir::Reduction &)> &registers);
    void combine(const ir::Reduction &r, Value &best, Value *best_index, Value value, Value index,
                 Value mask);
    void combine(const ir::Reduction &r, Values &into, const Values &from);
    Values halve(const ir::Loop &loop, Partials partials);
    Values halve(const ir::Reduction &r, Values registers);
    void put_register(Value v, Value place);
    Value get_register(Elem e, Value place);
    Value spill(const Values &registers);
    Values reload(Value memory, const ir::Reduction &r);
    void while_spilled(const ir::Loop &loop, Partials &partials,
                       const std::function<void(const Values &)> &steps);
    void fold_steps(const ir::Loop &loop, const Values &memory, Value origin, Value begin, Value end,
                    int parts, bool masked);
    void fold_register(const ir::Reduction &r, Value memory, Value element, int part);
    static int lanes_of(const ir::Reduction &r) {
        return static_cast<int>(ir::kLaneBytes / ir::size_of(r.dtype));
    }
    /// Whether the order of the fold can be seen in the bits.
    static bool has_order(const ir::Reduction &r) {
        return ir::is_float(r.dtype) && (r.op == ir::ReduceOp::Add || r.op == ir::ReduceOp::Mul);
    }
    static bool is_arg(const ir::Reduction &r) { return r.op >= ir::ReduceOp::ArgMax; }

    // --- across.cpp: reductions in lanes that lie in memory, for neighbours along the vector at once
    /// Bytes of what is walked up to which it is walked lane by lane: once around it is in the caches and
    /// rows may be visited in any order, so that sums stay in registers (a Zen 4 machine, one thread, a row
    /// times [k, k] of f32, in microseconds: k = 512 17.9 and now 12.3, 1000 88 and now 58; 2048 425 and so
    /// 600).
    static constexpr int64_t kLaneByLaneBytes = 4 << 20;
    struct LaneRows;
    /// The rows that are walked down now.
    struct Walk {
        ir::AxisId axis = kNoAxis;
        Value begin = nullptr, end = nullptr;
        uint32_t access = ir::kNoValue; ///< of which `skip` is
        Value skip = nullptr;           ///< elements to what is asked for ahead of this row
    };
    Value rows_ahead(const ir::AxisStride &down, uint32_t access, int part);
    void emit_across(const ir::Loop &loop, uint32_t id, Value begin, Value end);
    Value lane_row(const LaneRows &rows, Value memory, Value lane);
    void clear_lanes(const LaneRows &rows, Value memory, Value count);
    void add_to_lane(const LaneRows &rows, Value memory, Value lane, const Values &values);
    Values fold_lanes(const LaneRows &rows, Value memory, Value count);
    Value used_lanes(const LaneRows &rows, Value begin, Value end);
    Value bytes_of_rows(const ir::Loop &loop, Value rows);
    Value bytes_walked_down(const ir::Region &region);
    bool one_chunk_each(const ir::Region &region) const;
    void fill_lane_by_lane(const ir::Loop &loop, std::span<const LaneRows> lanes, Value begin, Value end,
                           const std::function<void()> &preheader);
    Partials fill_downwards(const ir::Loop &loop, std::span<const LaneRows> lanes, const Partials &start,
                            Value begin, Value end, const std::function<void()> &preheader);
    Partials fold_across(const ir::Loop &loop, std::span<const LaneRows> lanes, const Partials &start,
                         Value begin, Value end, const std::function<void()> &preheader);

    // --- whole_rows.cpp: likewise where the schedule has rows read in the order of memory
    struct RowOfLane;
    struct WholeRows;
    RowOfLane prepare_row(const ir::Loop &loop, ir::AxisId axis, Value index);
    void grid_whole_rows();
    void whole_rows(const WholeRows &whole);
    Value rows_of_part(const WholeRows &whole, Value part);
    void sum_all_rows(const WholeRows &whole);
    void sum_rows_of_lane(const WholeRows &whole, Value place, Value first, int64_t count, Value begins);
    void fold_lanes(const WholeRows &whole, Value part);
    void each_step(const WholeRows &whole, const std::function<void(Value column)> &body);
    Values sums_of_lane(const WholeRows &whole, Value place);
    Value sum_register(const WholeRows &whole, const Values &lane, size_t reduction, Value column,
                       size_t part);
    Partials load_sums(const WholeRows &whole, const Values &lane, Value column);
    Partials load_unless(Value nothing, const WholeRows &whole, const Values &lane, Value column);
    void store_sums(const WholeRows &whole, const Values &lane, Value column, const Partials &sums);

    // --- chunks.cpp
    using ChunkBody = std::function<Partials(Value lo, Value hi)>;
    /// What a loop folds to, chunk by chunk; `start` has the identities.
    Partials fold_steps(const ir::Loop &loop, Value begin, Value end, int64_t stride, const Partials &start,
                        const std::function<void()> &preheader);
    Partials fold_chunks(const ir::Loop &loop, Value begin, Value end, const Partials &start,
                         const ChunkBody &chunk, const std::function<void()> &preheader);
    bool fold_partials(const ir::Loop &loop, uint32_t id, Value begin, Value end);
    struct LevelItem;
    struct Levels;
    void clear_lanes(const Levels &levels);
    void add_to_lane(const LevelItem &item, Value index, Value value);
    Values fold_lanes(const LevelItem &item);
    Levels levels_of(const ir::Loop &loop, const Partials &start);
    void fold_above(const Levels &levels, Value index, Value last, std::span<const Value> values);
    Values when(Value condition, const Values &values, const std::function<Values()> &then, int likely = -1);
    static Values flatten(const Partials &groups);
    static Partials regroup(std::span<const Value> flat, const Partials &like);

    // --- grid.cpp, tiles.cpp
    void walk(std::span<const Value> counts, const std::function<void(std::span<const Value> index)> &item);
    Value blocks_of(ir::AxisId axis, ir::ArgId block);
    void grid_line();
    void grid_range(ir::AxisId axis, Value lo, Value hi);
    void grid_rows();
    void grid_scalars();
    void plan_ahead();
    Value further(const ir::Access &access, ir::AxisId axis);
    bool row_of_grid(const ir::Access &access, ir::AxisId axis) const;
    void grid_tiles();
    bool turned(const ir::Instr &instr) const;
    void turn(const ir::Instr &load, Value scratch, Value row, Value column, int columns);
    void transpose(std::vector<Value> &rows);
    void tile(Value row, Value column, int parts, std::span<const std::pair<ir::KValue, Value>> loads,
              Value aligned);
    void tile_edges(Value row_lo, Value row_hi, Value lo, Value hi, Value full_rows, Value full_columns,
                    int parts);
    Value tiles_aligned(Value row, Value column);

    Builder &b_;
    const ir::Kernel &k_;
    const ir::Phase &p_;
    const ir::CpuSchedule &s_;
    const EmitOptions &options_;
    OpTarget target_;
    EntryParams params_;
    Analysis analysis_;
    int width_ = 1;
    Context ctx_;
    std::vector<Emitted> values_;
    std::vector<ir::KValue> defined_; ///< in order of emission, for `forget`
    std::vector<ir::KValue> splats_;  ///< values whose splat `prepare` made, likewise
    /// Sums of addresses: of an access over the first `level` bound axes, or (level | kPointer) its pointer.
    struct Memo {
        uint32_t access;
        size_t level;
        Value value;
    };
    static constexpr size_t kPointer = size_t{1} << 32;
    std::vector<Memo> memos_;
    std::deque<Period> periods_; ///< by extent and width
    std::deque<Turns> turns_;    ///< of the current step
    std::vector<std::pair<ir::AxisId, Value>> bound_;
    std::vector<Value> args_, buffers_, scalars_;
    std::array<Value, 3> tables_{};
    /// Accesses of loads that also ask for what lies so many elements further.
    std::vector<std::pair<uint32_t, Value>> ahead_;
    /// In a tile: loads whose values were transposed, and where those of the current row begin.
    std::vector<std::pair<ir::KValue, Value>> turned_;
    RowGroup group_;
    Walk walk_;
    bool lane_by_lane_ = false;                 ///< how rows side by side are walked now
    std::vector<std::vector<Emitted>> results_; ///< by loop: value and index of each reduction
};

} // namespace lz::codegen
