#pragma once
/// Emits one phase. For this folder alone.
///
/// Values of the kernel become constants of the C++ text, `v12`; leaves, and what is written elsewhere (an
/// element of a packet), are expressions that stand where they are used. Names end with the block of the text
/// in which they were given (writer.h). Threads of a block take a phase's grid as its CudaShape says:
/// points.cpp, rows/. What they share is here.

#include "codegen/cuda/rows/barriers.h"
#include "codegen/cuda/source.h"
#include "codegen/cuda/types.h"
#include "codegen/cuda/writer.h"
#include "ir/kernel/facts/rare.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lz::codegen::cuda {

using ir::kFoldThreads;
/// Packets of a thread that are loaded before the first of them is used; of few bytes where no row is kept.
inline constexpr int kBatch = 4, kMostBatch = 8;

/// Without it NVRTC puts loads where they are used, and few are under way.
inline constexpr std::string_view kAllBefore =
    R"(asm volatile("" ::: "memory"); // all loads are before the first use)";

/// The type in which a phase computes indices.
inline std::string_view index_type_of(const ir::CudaSchedule &schedule) {
    return schedule.index32 ? "int" : "long long";
}

/// What a function of a phase uses of the frame.
struct Used {
    std::set<uint16_t> buffers, args, scalars;
    bool faults = false;
};

/// Which of the two ways to write a phase that takes packets.
enum class Entry : uint8_t {
    Only,    ///< there is one way
    Aligned, ///< packets are accessed at once
    Any,     ///< element by element, at any address: short code before fast code
};

class PhaseEmitter {
public:
    PhaseEmitter(const ir::Kernel &kernel, size_t phase, Entry entry);

    /// Writes the function's body, once.
    void write();
    /// Whether it takes packets, and a launch can see that they are aligned.
    bool has_aligned_packets() const { return packets_ && alignable_; }
    const std::vector<ir::LaunchAlignment> &alignments() const { return alignments_; }
    const std::string &body() const { return w_.text(); }
    /// What the body calls the number of the item.
    const std::string &item() const { return item_; }
    const Used &used() const { return used_; }
    uint32_t shared_bytes() const { return static_cast<uint32_t>(shared_bytes_); }

    static std::string buffer_name(const ir::Kernel &kernel, uint16_t b);
    static std::string arg_name(const ir::Kernel &kernel, ir::ArgId a);

private:
    /// A block of the text, and with it the names that are given in it.
    template <class... Args>
    void open(fmt::format_string<Args...> format, Args &&...args) {
        w_.open(format, std::forward<Args>(args)...);
        names_.open();
    }
    void open() {
        w_.open();
        names_.open();
    }
    void close() {
        names_.close();
        w_.close();
    }

    // --- names (names.cpp)
    std::string buffer(uint16_t b);
    std::string arg(ir::ArgId a);
    std::string extent(ir::AxisId axis) { return arg(kernel_.axes[axis].extent); }
    std::string scalar(const ir::Instr &instr);
    std::string fault(ir::KValue check);
    /// The index on an axis.
    std::string axis(ir::AxisId axis) const {
        const auto known = axis_names_.find(axis);
        return known == axis_names_.end() ? fmt::format("i{}", axis) : known->second;
    }
    /// The type in which indices are computed.
    std::string_view index_type() const { return index_type_of(schedule_); }
    /// The value as an expression that needs no parentheses.
    std::string value(ir::KValue v);
    /// An i64 value in the type of indices.
    std::string index(ir::KValue v);
    bool is_index(ir::KValue v) const { return schedule_.index32 && index_[v]; }
    std::string value_type(ir::KValue v) const {
        return is_index(v) ? "int" : std::string(c_type(kernel_.instrs[v].dtype));
    }

    // --- addresses (access.cpp)
    /// The address of an element: `in0 + i0 * stride2 + i1`; `first` stands for the index on an axis.
    std::string address(const ir::Access &access, ir::AxisId of = UINT8_MAX, const std::string &first = {});
    std::string element(const ir::Access &access);
    /// What is at an address: `in0[i0 * stride2 + i1]`.
    static std::string at_address(const std::string &address);
    /// The same of a packet of one element: what is added to the pointer step by step leaves NVRTC that of a
    /// row, which with one sum of 32 bits it does not keep, and spills (13.0, full sums on sm_90).
    static std::string at_packet_address(const std::string &address) {
        const bool one_step = address.find(" + ") == address.rfind(" + ");
        return one_step ? at_address(address) : "*(" + address + ")";
    }
    /// Whether neighbours along the axis are neighbours in memory, and all else of the address and its
    /// predicate is known before an element is.
    bool is_packet(const ir::Access &access, ir::AxisId axis) const;
    bool moves_along(const ir::Access &access, ir::AxisId axis) const;
    /// What has to be aligned for packets of the access along the axis, beginning at multiples of a packet.
    /// False: nothing that a launch can see makes them aligned.
    bool note_alignment(const ir::Access &access, ir::AxisId axis);

    // --- what runs for each element (region.cpp)
    /// Writes a loop over a packet's elements.
    using ElementLoop = std::function<void(const std::function<void()> &)>;
    bool has_loop(const ir::Region &region) const;
    /// Whether the value changes along the axis, of whose packet this is written. Everything in a loop does.
    bool varies(ir::KValue v, ir::AxisId axis) const;
    struct Limited {
        std::string_view name; ///< of the function
        ir::KValue x = ir::kNoValue, limit = ir::kNoValue;
    };
    Limited limited(const ir::Instr &instr) const;
    ir::KValue power_sum(const ir::Instr &instr) const;
    ir::KValue rounded(const ir::Instr &instr) const;
    /// Pairs of halves (halves.cpp).
    ir::KValue operation_of_half(ir::KValue half) const;
    ir::KValue rounded_alone(ir::KValue half) const;
    bool holds_half(ir::KValue x, ir::DType half, int depth = 6) const;
    void write_region(const ir::Region &region);
    void write_instr(ir::KValue v);
    void write_value(ir::KValue v, const std::string &expression);
    // Choices of what is rarely needed (rarely.cpp)
    void write_rarely(ir::KValue v);
    struct Question {
        ir::KValue comparison, x, limit;
        bool or_nan;
    };
    Question question(const ir::Instr &choice) const;
    void write_rare(ir::KValue choice, const std::string &name);
    /// Calls f for what the text of an instruction reads, whose operands may have names by then.
    void for_each_read(ir::KValue v, const std::function<void(ir::KValue)> &f) const;
    std::set<ir::KValue> read_behind(const ir::Region &region, size_t first, size_t last) const;
    void write_segment(const ir::Region &region, size_t first, size_t last, int width,
                       const ElementLoop &loop, const std::function<void()> &element);
    void write_choice(const ir::Region &region, size_t first, size_t choice, int width,
                      const ElementLoop &loop, const std::function<void()> &before);
    void write_loop(uint32_t loop);
    /// A loop whose iterations one thread does in order, or all threads of a row do together.
    void write_sequential(uint32_t loop);
    void write_levels(const ir::Loop &loop, uint32_t id, int level, const std::string &begin,
                      const std::string &end);
    std::string write_batches(const ir::Loop &loop, const std::string &from, const std::string &to,
                              const std::function<void()> &element);
    bool is_dead(ir::KValue v) const { return uses_[v] == 0 && !has_effect(v); }
    bool has_effect(ir::KValue v) const;

    // --- packets (packet.cpp): neighbours along an axis
    struct Packet {
        ir::AxisId axis;
        int width;              ///< elements
        std::string first, end; ///< index of the first element, and where the axis ends
        bool whole = false;     ///< all elements are there
        bool aligned = false;   ///< `first` is a multiple of `width`
        /// Elements that are left from the first one on.
        std::string left() const { return minus(end, first); }
    };
    /// `float` where packets have one element, which is then written as itself.
    static std::string packet_type(ir::DType dtype, int width) {
        const std::string_view type = c_type(dtype);
        return width == 1 ? std::string(type) : fmt::format("Packet<{}, {}>", type, width);
    }
    /// The packet accesses of a region: loads and stores.
    struct PacketAccesses {
        std::vector<ir::KValue> loads, stores;
    };
    PacketAccesses packet_accesses(const ir::Region &region, ir::AxisId axis) const;
    /// Loads that nothing else of the region has to precede.
    std::vector<ir::KValue> early_loads(const ir::Region &region, ir::AxisId axis) const;
    bool reads_index(const ir::Region &region, ir::AxisId axis) const;
    bool draws(const ir::Region &region) const; ///< random words
    std::string packet_load(ir::KValue load, const Packet &packet);
    using Reduce = std::function<void()>;
    void write_launch_values(const ir::Region &region);
    std::string same_word(ir::KValue x, ir::DType half);
    void write_pairs(const ir::Region &region, size_t first, const Packet &packet);
    void write_words(std::vector<std::string> lines, int width);
    void leave_out_unread(const ir::Region &region, size_t first);
    bool begins_pairs(const ir::Region &region, size_t at) const;
    void write_rounded(const ir::Region &region, size_t first, size_t at, const Packet &packet,
                       const ElementLoop &loop, const std::function<void()> &before);
    /// `reduce` writes what becomes of an element's values; it may be empty.
    void write_packet(const ir::Region &region, const Packet &packet, const Reduce &reduce);
    /// Packets u < count, loaded before the first of them is computed. `place(early)` writes where packet u
    /// is and returns the condition under which it is there; early: it is loaded, and computed later.
    /// `between` writes what comes after all these loads.
    using Place = std::function<std::string(bool early)>;
    void write_packets(const ir::Region &region, Packet packet, int count, const Place &place,
                       const Reduce &reduce, const std::function<void()> &between = {},
                       const std::string &all_there = {});
    /// Packets that were loaded before, all of one access, as an expression: `x3[u]`.
    struct KeptPackets {
        ir::Access access;
        std::string array, round; ///< round: of the array; empty: round_
        bool single = false;      ///< there is one, and no array
        std::string packet(const std::string &of_row) const {
            return single ? array : fmt::format("{}[{}]", array, round.empty() ? of_row : round);
        }
    };
    /// Notes what has to be aligned. Whether then packets along the axis have all their elements.
    bool note_alignments(const ir::Region &region, ir::AxisId axis, int width, bool whole_axis);

    // --- reductions (reductions.cpp)
    std::string reduce_op(const ir::Reduction &r) const;
    std::string reduce_type(const ir::Reduction &r) const;
    std::string reduce_identity(const ir::Reduction &r) const;
    std::string reduce_element(const ir::Reduction &r);
    /// A statement by which `into` takes one more value.
    void write_reduced(const ir::Reduction &r, const std::string &into, const std::string &value);
    /// Whether its order matters: sums and products of floats.
    static bool is_ordered(const ir::Reduction &r);
    std::string result(uint32_t loop, size_t reduction) const {
        return kernel_.loops[loop].reductions.size() == 1 ? fmt::format("result{}", loop)
                                                          : fmt::format("result{}_{}", loop, reduction);
    }

    // --- shapes
    void write_points();
    void write_coordinates(const std::string &point, std::string_view name, size_t axes);
    void write_tiles();
    void write_product();

    // --- rows (rows/)
    void write_rows();
    void write_row_loop(uint32_t loop);
    void declare_kept();
    void fold_in_chunks(uint32_t loop);
    void fold_across_groups(uint32_t loop);
    bool join_by_shares(uint32_t loop);
    void fold_in_one_group(uint32_t loop);
    void store_each(uint32_t loop);
    void write_rounds(uint32_t loop, const std::string &from, int rounds, const std::string &end);
    int single_rounds(int bytes, bool near) const;
    void declare_lanes(uint32_t loop);
    int accumulators(const ir::Reduction &r) const;
    std::string shared_array(const std::string &type, int64_t bytes, int64_t count, const std::string &name,
                             std::string_view from = "");
    void give_chunk(uint32_t loop, const std::string &chunk);
    std::string first_kept() const;
    /// Which of two barriers that would do is left out: the one that stands first here.
    enum Rank : int { kEndOfRow, kBeforeWrite, kAfterLoop, kExchange };
    /// A barrier of the row's threads in a block, left out where it is not needed; its number in barriers_.
    size_t sync_row(Rank rank, bool of_cluster = false);
    size_t sync_exchange();
    void leave_out_barriers();
    void find_row_buffers();
    void note_row_access(const ir::Instr &instr, const std::string &owners);
    void note_rounds(uint32_t loop, const std::string &owners);
    // Rows of a cluster.
    void open_cluster_row();
    bool in_registers() const { return schedule_.tier == ir::RowTier::Registers; }
    /// Whether what the instruction loads or stores is kept in shared memory.
    bool in_shared_memory(const ir::Instr &instr) const {
        return schedule_.tier == ir::RowTier::Shared &&
               kernel_.buffers[kernel_.accesses[instr.access].buffer].mode == ir::BufferMode::Worker;
    }
    /// Whether a thread has all of a row.
    bool has_row_alone() const { return schedule_.row_threads == 1; }
    int fold_threads() const { return std::min(schedule_.row_threads, kFoldThreads); }
    int groups() const { return schedule_.row_threads / fold_threads(); }
    int round_elements() const { return fold_threads() * row_width_; }
    /// What makes one value of all lanes of a loop's reduction.
    std::string folded_lanes(uint32_t loop, size_t reduction) const;
    /// The first element of a thread in a round.
    std::string lane() const {
        if (has_row_alone())
            return "0";
        return row_width_ == 1 && groups() == 1 ? "row_thread" : "lane";
    }
    /// What the thread keeps of a round in registers.
    std::string kept_in(uint16_t worker) {
        return rounds_kept() == 1 ? buffer(worker) : fmt::format("{}[{}]", buffer(worker), round_);
    }
    /// The name of an expression: `name`, which is declared, where it has none.
    std::string named(const std::string &expression, std::string_view name);
    std::string as_int(const std::string &expression) const {
        return schedule_.index32 ? expression : fmt::format("(int)({})", expression);
    }
    std::string widened(const std::string &expression) const {
        return schedule_.index32 ? expression : "(long long)" + expression;
    }
    int rounds_kept() const {
        return schedule_.row_elements / (schedule_.row_threads * schedule_.cluster_blocks * row_width_);
    }

    void for_each_operand(const ir::Instr &instr, const std::function<void(ir::KValue)> &f) const;
    void need(bool condition, std::string_view why) const;

    const ir::Kernel &kernel_;
    const ir::Phase &phase_;
    const Entry entry_;
    ir::CudaSchedule schedule_;
    const ir::RareParts rare_;
    Writer w_;
    Names names_;
    std::vector<uint32_t> uses_;    // by value
    std::vector<bool> index_;       // by value
    std::vector<uint32_t> loop_of_; // by value: the innermost loop around it, or kNoValue
    std::vector<uint32_t> around_;  // by loop: the loop around it
    Used used_;
    std::map<ir::AxisId, std::string> axis_names_; // of those that are not called as their number
    std::string item_ = "item";                    // the parameter
    std::string product_ = "product";              // what KOp::Product reads
    bool packets_ = false;
    std::vector<ir::LaunchAlignment> alignments_;
    bool alignable_ = true;

    bool in_rare_ = false;
    std::set<ir::KValue> across_; // written in one loop over a packet's elements and read in a later one
    bool in_rows_ = false, in_row_loop_ = false, in_element_ = false; // where write_region is
    int row_width_ = 4; // neighbours that a thread of a row takes: a packet, or one
    int loops_open_ = 0;
    std::set<uint16_t> stored_;     // buffers that the phase stores to
    std::vector<KeptPackets> kept_; // loaded before
    int words_ = 0;                 // of two equal halves, so far
    std::string round_;       // index into kept_ and into workers in registers, where a packet is written
    std::string begin_, end_; // of the row loop that is written
    int64_t shared_bytes_ = 0;
    RowBarriers barriers_;
    std::vector<std::pair<size_t, size_t>> barrier_lines_; ///< where in the text each stands, and its bytes
    std::set<uint16_t> row_loads_;                         ///< buffers that loops had packets of, so far
    std::set<uint16_t> row_buffers_;                       ///< in memory, stored to and loaded from
    int part_elements_ = 0;                                ///< of a row that a block of a cluster has
};

/// Why a kernel has no CUDA; names it.
[[noreturn]] void fail(const ir::Kernel &kernel, std::string_view why);

} // namespace lz::codegen::cuda
