#include "passes/memory/plan_memory.h"

#include "ir/diagnostic.h"
#include "passes/memory/arena_layout.h"
#include "passes/memory/write_over.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace lz::passes {

using namespace ir;

namespace {

size_t device_index(Device d) {
    return d.kind == DeviceKind::Cpu ? 0 : size_t{1} + d.index;
}

int64_t aligned(int64_t bytes) {
    return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

/// Memory that one or more buffers have, one after another.
struct Allocation {
    int64_t bytes = 0;
    Device device;
    uint32_t first = 0, last = 0; // steps
    LastUses uses{};              // where there are several streams
    uint32_t param = kNone;       // an input's memory
    bool read = false;            // an input that a step reads
    uint32_t result = kNone;      // a result's block, perhaps in the memory of `param`
    uint32_t arena = kNone;       // otherwise, unless it is empty
    int64_t offset = 0;           // in it
    bool pinned = false;
    StreamRef home{}; // in whose order its arena is taken
};

bool can_fault(const LoweredStep &step) {
    if (step.kind == StepKind::Library)
        return step.symbol != kConcat;
    return std::ranges::any_of(step.kernel->instrs,
                               [](const Instr &i) { return info(i.op).cls == KOpClass::Check; });
}

class Planner {
public:
    Planner(const Graph &graph, std::span<const LoweredStep> steps, const Schedule &schedule,
            const Dependences &dependences)
        : graph_(graph), steps_(steps), schedule_(schedule), end_(static_cast<uint32_t>(steps.size())) {
        if (schedule.streams.size() > 1)
            order_steps(dependences);
    }

    MemoryPlan take() {
        find_last_uses();
        add_inputs();
        for (uint32_t s = 0; s < end_; ++s)
            plan_step(s);
        plan_.step_begin.push_back(static_cast<uint32_t>(plan_.operands.size()));
        add_results();
        layout();
        find_reuses();
        for (uint32_t b = 0; b < plan_.buffers.size(); ++b)
            finish(plan_.buffers[b], allocations_[allocation_of_[b]]);
        return std::move(plan_);
    }

private:
    /// What streams and dependences order already.
    void order_steps(const Dependences &dependences) {
        clocks_.emplace(schedule_.streams.size(), end_);
        for (uint32_t s = 0; s < end_; ++s) {
            for (const Dependence &d : dependences.of(s))
                clocks_->wait(schedule_.stream[s], d.step);
            clocks_->add(schedule_.stream[s]);
        }
    }

    StreamRef stream_of(uint32_t s) const { return schedule_.streams[schedule_.stream[s]]; }

    void use(uint32_t allocation, uint32_t s) {
        if (clocks_)
            allocations_[allocation].uses.add(clocks_->position(s), schedule_.end[s]);
    }

    /// Whether all uses so far are over when step `s` begins, in order or by the estimates.
    bool is_over(uint32_t allocation, uint32_t s) const {
        const LastUses &uses = allocations_[allocation].uses;
        return uses.places.empty() || uses.end <= schedule_.begin[s] ||
               std::ranges::all_of(uses.places, [&](StreamPosition p) { return clocks_->over(s, p); });
    }

    static ValueId read_by(const LoweredBuffer &b) {
        return b.mode == BufferMode::In ? b.value : b.mode == BufferMode::InOut ? b.replaces : kNone;
    }

    void find_last_uses() {
        last_use_.assign(graph_.values().size(), 0);
        is_read_.assign(graph_.values().size(), false);
        reads_.assign(graph_.values().size(), 0);
        buffer_of_.assign(graph_.values().size(), kNone);
        result_of_.assign(graph_.values().size(), kNone);
        for (uint32_t s = 0; s < end_; ++s)
            for_operands(steps_[s], [&](const LoweredBuffer &b) {
                const ValueId read = read_by(b);
                if (read == kNone)
                    return;
                last_use_[read] = s;
                is_read_[read] = true;
            });
        for (uint32_t r = 0; r < graph_.results.size(); ++r) {
            const ValueId v = graph_.results[r];
            last_use_[v] = end_;
            if (result_of_[v] == kNone && graph_.value(v).producer != kNone)
                result_of_[v] = r;
        }
    }

    /// Inputs that share memory die together, and only if all of them may be overwritten.
    void add_inputs() {
        struct Group {
            uint32_t last = 0;
            bool donated = true, read = false;
        };
        left_to_.assign(graph_.results.size(), kNone);
        std::map<int32_t, Group> shared; // by storage
        for (const Param &p : graph_.params)
            if (p.storage >= 0) {
                shares_memory_ = true;
                Group &group = shared[p.storage];
                group.last = std::max(group.last, last_use_[p.value]);
                group.donated = group.donated && p.donated;
                group.read = group.read || is_read_[p.value];
            }
        for (uint32_t k = 0; k < graph_.params.size(); ++k) {
            const Param &p = graph_.params[k];
            const TensorType &type = graph_.type(p.value);
            Allocation allocation{.bytes = type.bytes(), .device = type.device, .param = k};
            bool donated = p.donated;
            allocation.last = last_use_[p.value];
            allocation.read = is_read_[p.value];
            if (p.storage >= 0) {
                Group &group = shared[p.storage];
                allocation.last = group.last;
                allocation.read = group.read;
                donated = group.donated;
                group.donated = false; // its memory can be taken over once
            }
            allocations_.push_back(allocation);
            buffer_of_[p.value] = add_buffer(k, allocation.bytes, p.value);
            if (donated && allocation.last < end_ && allocation.bytes > 0)
                add_donor(k);
        }
    }

    uint32_t add_buffer(uint32_t allocation, int64_t bytes, ValueId value) {
        BufferDesc desc{};
        desc.bytes = bytes;
        desc.device = allocations_[allocation].device;
        desc.value = value;
        plan_.buffers.push_back(desc);
        plan_.continues.push_back(kNone);
        allocation_of_.push_back(allocation);
        made_by_.push_back(kNone);
        return static_cast<uint32_t>(plan_.buffers.size() - 1);
    }

    uint32_t add_allocation(int64_t bytes, Device device, uint32_t step) {
        Allocation allocation;
        allocation.bytes = bytes;
        allocation.device = device;
        allocation.first = allocation.last = step;
        allocation.home = {device, kDefaultStream};
        if (step < end_ && steps_[step].kind == StepKind::Copy &&
            stream_of(step) == StreamRef{device, kCopyInStream})
            allocation.home.stream = kCopyInStream;
        allocations_.push_back(allocation);
        return static_cast<uint32_t>(allocations_.size() - 1);
    }

    void plan_step(uint32_t s) {
        const LoweredStep &step = steps_[s];
        plan_.step_begin.push_back(static_cast<uint32_t>(plan_.operands.size()));
        touched_.clear();
        for_operands(step, [&](const LoweredBuffer &b) {
            if (const ValueId read = read_by(b); read != kNone) {
                ++reads_[read];
                touched_.push_back(read);
            }
        });
        faults_.reset();
        std::optional<WriteOver> write_over;
        for (const LoweredSegment &segment : step.segments)
            for (size_t k = 0; k < segment.buffers.size(); ++k)
                plan_.operands.push_back(plan_operand(s, segment.buffers[k], [&](uint32_t bytes_allocation) {
                    return find_dying(s, segment, k, write_over, bytes_allocation);
                }));
        for (const LoweredBuffer &operand : step.operands)
            plan_.operands.push_back(plan_operand(s, operand, [](uint32_t) { return kNone; }));
        for (ValueId v : touched_)
            reads_[v] = 0;
        if (clocks_)
            for (uint32_t k = plan_.step_begin[s]; k < plan_.operands.size(); ++k)
                if (plan_.operands[k] != kNone)
                    use(allocation_of_[plan_.operands[k]], s);
    }

    /// Pinned memory on the way between two GPUs.
    uint32_t plan_staging(uint32_t s, const LoweredBuffer &b) {
        if (b.staging >= staging_.size())
            staging_.resize(b.staging + 1, kNone);
        uint32_t &buffer = staging_[b.staging];
        if (buffer == kNone) {
            const uint32_t allocation = add_allocation(b.bytes, kCpu, s);
            allocations_[allocation].pinned = true;
            allocations_[allocation].home = stream_of(s);
            buffer = add_buffer(allocation, b.bytes, kNone);
        }
        allocations_[allocation_of_[buffer]].last = s;
        return buffer;
    }

    /// The buffer of one operand of step `s`. `find_dying(result)` names an input that the output may be
    /// written over.
    template <class F>
    uint32_t plan_operand(uint32_t s, const LoweredBuffer &b, F &&find_dying_input) {
        if (b.staging != kNone)
            return plan_staging(s, b);
        switch (b.mode) {
        case BufferMode::Worker:
            return kNone;
        case BufferMode::In:
            LZ_CHECK(buffer_of_[b.value] != kNone, "a step reads a value that no step before it stores");
            allocations_[allocation_of_[buffer_of_[b.value]]].last =
                std::max(allocations_[allocation_of_[buffer_of_[b.value]]].last, s);
            return buffer_of_[b.value];
        case BufferMode::Temp:
            return add_buffer(add_allocation(b.bytes, steps_[s].device, s), b.bytes, kNone);
        case BufferMode::Out:
        case BufferMode::InOut:
            break;
        }
        if (buffer_of_[b.value] != kNone) // another segment or phase writes the rest of it
            return buffer_of_[b.value];
        const uint32_t result = result_of_[b.value];
        uint32_t allocation = kNone;
        if (b.mode == BufferMode::InOut) {
            allocation = allocation_of_dying(s, b.replaces, result);
            if (allocation == kNone && find_dying_input(result) != kNone)
                allocation = allocation_of_[buffer_of_[b.replaces]];
        } else if (const ValueId dying = find_dying_input(result); dying != kNone) {
            allocation = allocation_of_[buffer_of_[dying]];
            plan_.in_place_bytes += b.bytes;
        }
        if (allocation == kNone && result != kNone && b.mode == BufferMode::Out)
            allocation = find_donor(s, result, graph_.type(b.value));
        const bool shared = allocation != kNone;
        if (!shared)
            allocation = add_allocation(b.bytes, graph_.type(b.value).device, s);
        const uint32_t buffer = add_buffer(allocation, b.bytes, b.value);
        allocations_[allocation].last = std::max(s, last_use_[b.value]);
        if (result != kNone)
            allocations_[allocation].result = result;
        if (allocations_[allocation].param != kNone)
            remove_donor(allocations_[allocation].param);
        if (b.mode == BufferMode::InOut && shared)
            plan_.continues[buffer] = buffer_of_[b.replaces];
        if (b.mode == BufferMode::InOut && !shared) {
            plan_.copies.push_back({s, buffer_of_[b.replaces], buffer, s});
            const uint32_t from = allocation_of_[buffer_of_[b.replaces]];
            allocations_[from].last = std::max(allocations_[from].last, s);
            use(from, s);
        }
        buffer_of_[b.value] = buffer;
        made_by_[buffer] = s;
        return buffer;
    }

    /// The allocation of a value that step `s` alone reads, as the last in order, if it may be overwritten;
    /// else kNone. Earlier readers may still run.
    uint32_t allocation_of_dying(uint32_t s, ValueId v, uint32_t result) {
        if (last_use_[v] != s || reads_[v] != 1)
            return kNone;
        const uint32_t allocation = allocation_of_[buffer_of_[v]];
        if (allocations_[allocation].param == kNone)
            return allocation;
        // An input's memory is worth taking over for a result only: it is there anyway until the program
        // ends. A step that can fail halfway must leave the old value whole (S26).
        return result != kNone && allocations_[allocation].last <= s &&
                       is_donor(allocations_[allocation].param, result) && !step_can_fault(s)
                   ? allocation
                   : kNone;
    }

    /// A part that is changed by what is read of it (`a[i] += v`): the value that it is a part of may be
    /// overwritten if nothing else reads it, and each element is read before it is written.
    ValueId find_dying_part(uint32_t s, const LoweredSegment &segment, size_t out,
                            std::optional<WriteOver> &write_over, uint32_t result) {
        const ValueId v = segment.buffers[out].replaces;
        const auto in = std::ranges::find_if(segment.buffers, [&](const LoweredBuffer &b) {
            return b.mode == BufferMode::In && b.value == v;
        });
        if (reads_[v] != 2 || in == segment.buffers.end())
            return kNone;
        reads_[v] = 1;
        const bool dies = allocation_of_dying(s, v, result) != kNone;
        reads_[v] = 2;
        if (!dies)
            return kNone;
        if (!write_over)
            write_over.emplace(steps_[s].kernel);
        return write_over->allowed(segment, static_cast<uint16_t>(in - segment.buffers.begin()),
                                   static_cast<uint16_t>(out))
                   ? v
                   : kNone;
    }

    ValueId find_dying(uint32_t s, const LoweredSegment &segment, size_t out,
                       std::optional<WriteOver> &write_over, uint32_t result) {
        if (segment.buffers[out].mode == BufferMode::InOut)
            return find_dying_part(s, segment, out, write_over, result);
        for (size_t in = 0; in < segment.buffers.size(); ++in) {
            const LoweredBuffer &b = segment.buffers[in];
            if (b.mode != BufferMode::In || b.bytes != segment.buffers[out].bytes || b.bytes == 0 ||
                allocation_of_dying(s, b.value, result) == kNone || graph_.type(b.value).bytes() != b.bytes ||
                !is_over(allocation_of_[buffer_of_[b.value]], s))
                continue;
            if (!write_over)
                write_over.emplace(steps_[s].kernel);
            if (!write_over->allowed(segment, static_cast<uint16_t>(in), static_cast<uint16_t>(out)))
                continue;
            reads_[b.value] = 0; // taken
            return b.value;
        }
        return kNone;
    }

    void add_donor(uint32_t param) {
        const uint32_t heir = graph_.params[param].heir;
        if (heir == kNone)
            donors_.push_back(param);
        else
            left_to_[heir] = param;
    }
    void remove_donor(uint32_t param) {
        const uint32_t heir = graph_.params[param].heir;
        if (heir == kNone)
            std::erase(donors_, param);
        else
            left_to_[heir] = kNone;
    }
    bool is_donor(uint32_t param, uint32_t result) const {
        return left_to_[result] == param || std::ranges::find(donors_, param) != donors_.end();
    }
    /// The first input for which `f` holds whose memory the result may take over.
    template <class F>
    uint32_t find_donor_if(uint32_t result, const TensorType &type, F &&f) const {
        const auto fits = [&](uint32_t k) {
            return allocations_[k].bytes == type.bytes() && allocations_[k].device == type.device && f(k);
        };
        if (left_to_[result] != kNone && fits(left_to_[result]))
            return left_to_[result];
        const auto found = std::ranges::find_if(donors_, fits);
        return found == donors_.end() ? kNone : *found;
    }

    /// A donated input of this size that is dead before step `s`: no step reads it, because an in-place form
    /// writes another value in its place, or those that do have.
    uint32_t find_donor(uint32_t s, uint32_t result, const TensorType &type) {
        return find_donor_if(result, type,
                             [&](uint32_t k) { return is_dead_before(k, s) && !step_can_fault(s); });
    }

    /// The same for a copy after all steps; on several streams one that no step reads, so that nothing waits.
    uint32_t find_donor_at_end(uint32_t result, const TensorType &type) const {
        return find_donor_if(result, type, [&](uint32_t k) { return !clocks_ || !allocations_[k].read; });
    }

    bool is_dead_before(uint32_t param, uint32_t s) const {
        if (!allocations_[param].read)
            return true;
        return allocations_[param].last < s && last_read_before(param, s) && is_over(param, s) &&
               group_is_over(param, s);
    }

    bool last_read_before(uint32_t param, uint32_t s) const {
        const ValueId v = graph_.params[param].value;
        return last_use_[v] < s && reads_[v] == 0;
    }

    /// Calls f(parameter) for the others that share a parameter's memory.
    template <class F>
    void for_group(uint32_t param, F &&f) const {
        const int32_t storage = graph_.params[param].storage;
        if (storage < 0 || !shares_memory_)
            return;
        for (uint32_t k = 0; k < graph_.params.size(); ++k)
            if (k != param && graph_.params[k].storage == storage)
                f(k);
    }

    bool group_is_over(uint32_t param, uint32_t s) const {
        bool over = true;
        for_group(param, [&](uint32_t k) { over = over && is_over(k, s); });
        return over;
    }

    bool step_can_fault(uint32_t s) {
        if (!faults_)
            faults_ = can_fault(steps_[s]);
        return *faults_;
    }

    void add_results() {
        plan_.results.assign(graph_.results.size(), kNone);
        for (uint32_t r = 0; r < graph_.results.size(); ++r) {
            const ValueId v = graph_.results[r];
            LZ_CHECK(buffer_of_[v] != kNone, "no step stores result " + std::to_string(r));
            if (result_of_[v] == r) {
                plan_.results[r] = buffer_of_[v];
                continue;
            }
            const TensorType &type = graph_.type(v);
            uint32_t allocation = find_donor_at_end(r, type);
            if (allocation != kNone)
                remove_donor(allocation);
            else
                allocation = add_allocation(type.bytes(), type.device, end_);
            allocations_[allocation].last = end_;
            allocations_[allocation].result = r;
            plan_.results[r] = add_buffer(allocation, type.bytes(), v);
            plan_.copies.push_back({end_, buffer_of_[v], plan_.results[r], made_by_[buffer_of_[v]]});
        }
    }

    static bool in_arena(const Allocation &allocation) {
        return allocation.param == kNone && allocation.result == kNone && allocation.bytes > 0;
    }

    void layout() {
        std::map<std::tuple<size_t, bool, size_t, int32_t>, std::vector<uint32_t>> arenas;
        // Slots are made in the order of their first steps.
        for (uint32_t id = 0; id < allocations_.size(); ++id)
            if (const Allocation &allocation = allocations_[id]; in_arena(allocation))
                arenas[{device_index(allocation.device), allocation.pinned,
                        device_index(allocation.home.device), allocation.home.stream}]
                    .push_back(id);
        for (const auto &[key, ids] : arenas)
            layout(ids);
    }

    void layout(std::span<const uint32_t> ids) {
        std::vector<ArenaBlock> blocks;
        for (const uint32_t id : ids) {
            Allocation &allocation = allocations_[id];
            ArenaBlock &block = blocks.emplace_back();
            block.bytes = aligned(allocation.bytes);
            block.first = allocation.first;
            block.last = allocation.last;
            if (clocks_) {
                block.begin = schedule_.begin[allocation.first];
                block.uses = std::move(allocation.uses);
            }
        }
        IsOver is_over;
        if (clocks_)
            is_over = [&](const ArenaBlock &b, StreamPosition p) { return clocks_->over(b.first, p); };
        const ArenaLayout layout = layout_arena(blocks, is_over);
        for (size_t k = 0; k < blocks.size(); ++k) {
            allocations_[ids[k]].arena = static_cast<uint32_t>(plan_.arenas.size());
            allocations_[ids[k]].offset = blocks[k].offset;
        }
        const Allocation &one = allocations_[ids[0]];
        plan_.arenas.push_back({.device = one.device,
                                .pinned = one.pinned,
                                .home = one.home.stream,
                                .home_device = one.home.device,
                                .bytes = layout.bytes});
        plan_.live_bytes.push_back(layout.live_bytes);
    }

    /// Who had the bytes of each allocation before: a walk in order of time over the owner of each byte
    /// range.
    void find_reuses() {
        std::vector<uint32_t> latest(allocations_.size(), kNone), first(allocations_.size(), kNone);
        for (uint32_t b = 0; b < allocation_of_.size(); ++b) {
            const uint32_t allocation = allocation_of_[b];
            if (first[allocation] == kNone)
                first[allocation] = b;
            else {
                plan_.reuses.push_back({latest[allocation], b});
                if (latest[allocation] ==
                    allocations_[allocation].param) // a donor dies with all that share its memory
                    for_group(allocations_[allocation].param,
                              [&](uint32_t k) { plan_.reuses.push_back({k, b}); });
            }
            latest[allocation] = b;
        }
        struct Owner {
            int64_t end;
            uint32_t allocation;
        };
        std::vector<std::map<int64_t, Owner>> owners(plan_.arenas.size());
        for (uint32_t id = 0; id < allocations_.size(); ++id) {
            const Allocation &allocation = allocations_[id];
            if (!in_arena(allocation))
                continue;
            auto &map = owners[allocation.arena];
            const int64_t begin = allocation.offset, end = allocation.offset + aligned(allocation.bytes);
            auto it = map.lower_bound(begin);
            if (it != map.begin() && std::prev(it)->second.end > begin)
                --it;
            while (it != map.end() && it->first < end) {
                const auto [at, owner] = *it;
                plan_.reuses.push_back({latest[owner.allocation], first[id]});
                it = map.erase(it);
                if (at < begin)
                    map.emplace(at, Owner{begin, owner.allocation});
                if (owner.end > end)
                    it = map.emplace(end, owner).first;
            }
            map[begin] = {end, id};
        }
    }

    void finish(BufferDesc &desc, const Allocation &allocation) {
        if (allocation.result != kNone) {
            const bool is_input =
                allocation.param != kNone && desc.value == graph_.params[allocation.param].value;
            desc.kind = is_input ? BufferKind::Input : BufferKind::Result;
            desc.index = is_input ? allocation.param : allocation.result;
            desc.storage = is_input ? graph_.params[allocation.param].storage : -1;
            if (!is_input && allocation.param != kNone) {
                desc.donor = static_cast<int32_t>(allocation.param);
                plan_.donated_bytes += desc.bytes;
            }
        } else if (allocation.param != kNone) {
            desc.kind = BufferKind::Input;
            desc.index = allocation.param;
            desc.storage = graph_.params[allocation.param].storage;
        } else {
            desc.kind = BufferKind::Arena;
            if (allocation.arena != kNone) {
                desc.arena = allocation.arena;
                desc.offset = allocation.offset;
            }
        }
    }

    const Graph &graph_;
    std::span<const LoweredStep> steps_;
    const Schedule &schedule_;
    uint32_t end_;
    std::optional<StreamClocks> clocks_; // none on one stream
    MemoryPlan plan_;
    std::vector<Allocation> allocations_; // those of inputs first
    std::vector<uint32_t> allocation_of_; // by buffer
    std::vector<uint32_t> made_by_;       // by buffer: the step that writes it first
    std::vector<uint32_t> buffer_of_, last_use_, reads_, result_of_; // by value
    std::vector<bool> is_read_;                                      // by value: by a step
    std::vector<uint32_t> staging_; // buffers of pinned blocks, by their numbers
    std::vector<uint32_t> donors_;  // inputs whose memory any result may still take over
    std::vector<uint32_t> left_to_; // by result: the input whose memory it alone may
    bool shares_memory_ = false;    // some inputs do
    std::vector<ValueId> touched_;
    std::optional<bool> faults_; // whether the current step can fail
};

} // namespace

MemoryPlan plan_memory(const Graph &graph, std::span<const LoweredStep> steps, const Schedule &schedule,
                       const Dependences &dependences) {
    return Planner(graph, steps, schedule, dependences).take();
}

int64_t planned_bytes(std::span<const ArenaDesc> arenas, std::span<const BufferDesc> buffers,
                      std::span<const uint32_t> results, Device device) {
    int64_t bytes = 0;
    for (const ArenaDesc &arena : arenas)
        bytes += arena.device == device ? arena.bytes : 0;
    for (const BufferDesc &b : buffers)
        bytes += b.device == device && b.kind == BufferKind::Input ? b.bytes : 0;
    for (const uint32_t r : results) // a block holds other values before its result
        if (const BufferDesc &b = buffers[r]; b.device == device && b.kind == BufferKind::Result)
            bytes += b.donor < 0 ? b.bytes : 0;
    return bytes;
}

} // namespace lz::passes
