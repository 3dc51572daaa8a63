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
struct Slot {
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
            finish(plan_.buffers[b], slots_[slot_of_[b]]);
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

    void use(uint32_t slot, uint32_t s) {
        if (clocks_)
            slots_[slot].uses.add(clocks_->position(s), schedule_.end[s]);
    }

    /// Whether all uses so far are over when step `s` begins, in order or by the estimates.
    bool is_over(uint32_t slot, uint32_t s) const {
        const LastUses &uses = slots_[slot].uses;
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
            Slot slot{.bytes = type.bytes(), .device = type.device, .param = k};
            bool donated = p.donated;
            slot.last = last_use_[p.value];
            slot.read = is_read_[p.value];
            if (p.storage >= 0) {
                Group &group = shared[p.storage];
                slot.last = group.last;
                slot.read = group.read;
                donated = group.donated;
                group.donated = false; // its memory can be taken over once
            }
            slots_.push_back(slot);
            buffer_of_[p.value] = add_buffer(k, slot.bytes, p.value);
            if (donated && slot.last < end_ && slot.bytes > 0)
                add_donor(k);
        }
    }

    uint32_t add_buffer(uint32_t slot, int64_t bytes, ValueId value) {
        BufferDesc desc{};
        desc.bytes = bytes;
        desc.device = slots_[slot].device;
        desc.value = value;
        plan_.buffers.push_back(desc);
        plan_.continues.push_back(kNone);
        slot_of_.push_back(slot);
        made_by_.push_back(kNone);
        return static_cast<uint32_t>(plan_.buffers.size() - 1);
    }

    uint32_t add_slot(int64_t bytes, Device device, uint32_t step) {
        Slot slot;
        slot.bytes = bytes;
        slot.device = device;
        slot.first = slot.last = step;
        slot.home = {device, kDefaultStream};
        if (step < end_ && steps_[step].kind == StepKind::Copy &&
            stream_of(step) == StreamRef{device, kCopyInStream})
            slot.home.stream = kCopyInStream;
        slots_.push_back(slot);
        return static_cast<uint32_t>(slots_.size() - 1);
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
                plan_.operands.push_back(plan_operand(s, segment.buffers[k], [&](uint32_t bytes_slot) {
                    return find_dying(s, segment, k, write_over, bytes_slot);
                }));
        for (const LoweredBuffer &operand : step.operands)
            plan_.operands.push_back(plan_operand(s, operand, [](uint32_t) { return kNone; }));
        for (ValueId v : touched_)
            reads_[v] = 0;
        if (clocks_)
            for (uint32_t k = plan_.step_begin[s]; k < plan_.operands.size(); ++k)
                if (plan_.operands[k] != kNone)
                    use(slot_of_[plan_.operands[k]], s);
    }

    /// Pinned memory on the way between two GPUs.
    uint32_t plan_staging(uint32_t s, const LoweredBuffer &b) {
        if (b.staging >= staging_.size())
            staging_.resize(b.staging + 1, kNone);
        uint32_t &buffer = staging_[b.staging];
        if (buffer == kNone) {
            const uint32_t slot = add_slot(b.bytes, kCpu, s);
            slots_[slot].pinned = true;
            slots_[slot].home = stream_of(s);
            buffer = add_buffer(slot, b.bytes, kNone);
        }
        slots_[slot_of_[buffer]].last = s;
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
            slots_[slot_of_[buffer_of_[b.value]]].last =
                std::max(slots_[slot_of_[buffer_of_[b.value]]].last, s);
            return buffer_of_[b.value];
        case BufferMode::Temp:
            return add_buffer(add_slot(b.bytes, steps_[s].device, s), b.bytes, kNone);
        case BufferMode::Out:
        case BufferMode::InOut:
            break;
        }
        if (buffer_of_[b.value] != kNone) // another segment or phase writes the rest of it
            return buffer_of_[b.value];
        const uint32_t result = result_of_[b.value];
        uint32_t slot = kNone;
        if (b.mode == BufferMode::InOut) {
            slot = slot_of_dying(s, b.replaces, result);
            if (slot == kNone && find_dying_input(result) != kNone)
                slot = slot_of_[buffer_of_[b.replaces]];
        } else if (const ValueId dying = find_dying_input(result); dying != kNone) {
            slot = slot_of_[buffer_of_[dying]];
            plan_.in_place_bytes += b.bytes;
        }
        if (slot == kNone && result != kNone && b.mode == BufferMode::Out)
            slot = find_donor(s, result, graph_.type(b.value));
        const bool shared = slot != kNone;
        if (!shared)
            slot = add_slot(b.bytes, graph_.type(b.value).device, s);
        const uint32_t buffer = add_buffer(slot, b.bytes, b.value);
        slots_[slot].last = std::max(s, last_use_[b.value]);
        if (result != kNone)
            slots_[slot].result = result;
        if (slots_[slot].param != kNone)
            remove_donor(slots_[slot].param);
        if (b.mode == BufferMode::InOut && shared)
            plan_.continues[buffer] = buffer_of_[b.replaces];
        if (b.mode == BufferMode::InOut && !shared) {
            plan_.copies.push_back({s, buffer_of_[b.replaces], buffer, s});
            const uint32_t from = slot_of_[buffer_of_[b.replaces]];
            slots_[from].last = std::max(slots_[from].last, s);
            use(from, s);
        }
        buffer_of_[b.value] = buffer;
        made_by_[buffer] = s;
        return buffer;
    }

    /// The slot of a value that step `s` alone reads, as the last in order, if it may be overwritten; else
    /// kNone. Earlier readers may still run.
    uint32_t slot_of_dying(uint32_t s, ValueId v, uint32_t result) {
        if (last_use_[v] != s || reads_[v] != 1)
            return kNone;
        const uint32_t slot = slot_of_[buffer_of_[v]];
        if (slots_[slot].param == kNone)
            return slot;
        // An input's memory is worth taking over for a result only: it is there anyway until the program
        // ends. A step that can fail halfway must leave the old value whole (S26).
        return result != kNone && slots_[slot].last <= s && is_donor(slots_[slot].param, result) &&
                       !step_can_fault(s)
                   ? slot
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
        const bool dies = slot_of_dying(s, v, result) != kNone;
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
                slot_of_dying(s, b.value, result) == kNone || graph_.type(b.value).bytes() != b.bytes ||
                !is_over(slot_of_[buffer_of_[b.value]], s))
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
            return slots_[k].bytes == type.bytes() && slots_[k].device == type.device && f(k);
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
        return find_donor_if(result, type, [&](uint32_t k) { return !clocks_ || !slots_[k].read; });
    }

    bool is_dead_before(uint32_t param, uint32_t s) const {
        if (!slots_[param].read)
            return true;
        return slots_[param].last < s && last_read_before(param, s) && is_over(param, s) &&
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
            uint32_t slot = find_donor_at_end(r, type);
            if (slot != kNone)
                remove_donor(slot);
            else
                slot = add_slot(type.bytes(), type.device, end_);
            slots_[slot].last = end_;
            slots_[slot].result = r;
            plan_.results[r] = add_buffer(slot, type.bytes(), v);
            plan_.copies.push_back({end_, buffer_of_[v], plan_.results[r], made_by_[buffer_of_[v]]});
        }
    }

    static bool in_arena(const Slot &slot) {
        return slot.param == kNone && slot.result == kNone && slot.bytes > 0;
    }

    void layout() {
        std::map<std::tuple<size_t, bool, size_t, int32_t>, std::vector<uint32_t>> arenas;
        // Slots are made in the order of their first steps.
        for (uint32_t id = 0; id < slots_.size(); ++id)
            if (const Slot &slot = slots_[id]; in_arena(slot))
                arenas[{device_index(slot.device), slot.pinned, device_index(slot.home.device),
                        slot.home.stream}]
                    .push_back(id);
        for (const auto &[key, ids] : arenas)
            layout(ids);
    }

    void layout(std::span<const uint32_t> ids) {
        std::vector<ArenaBlock> blocks;
        for (const uint32_t id : ids) {
            Slot &slot = slots_[id];
            ArenaBlock &block = blocks.emplace_back();
            block.bytes = aligned(slot.bytes);
            block.first = slot.first;
            block.last = slot.last;
            if (clocks_) {
                block.begin = schedule_.begin[slot.first];
                block.uses = std::move(slot.uses);
            }
        }
        IsOver is_over;
        if (clocks_)
            is_over = [&](const ArenaBlock &b, StreamPosition p) { return clocks_->over(b.first, p); };
        const ArenaLayout layout = layout_arena(blocks, is_over);
        for (size_t k = 0; k < blocks.size(); ++k) {
            slots_[ids[k]].arena = static_cast<uint32_t>(plan_.arenas.size());
            slots_[ids[k]].offset = blocks[k].offset;
        }
        const Slot &one = slots_[ids[0]];
        plan_.arenas.push_back({.device = one.device,
                                .pinned = one.pinned,
                                .home = one.home.stream,
                                .home_device = one.home.device,
                                .bytes = layout.bytes});
        plan_.live_bytes.push_back(layout.live_bytes);
    }

    /// Who had the bytes of each slot before: a walk in order of time over the owner of each byte range.
    void find_reuses() {
        std::vector<uint32_t> latest(slots_.size(), kNone), first(slots_.size(), kNone);
        for (uint32_t b = 0; b < slot_of_.size(); ++b) {
            const uint32_t slot = slot_of_[b];
            if (first[slot] == kNone)
                first[slot] = b;
            else {
                plan_.reuses.push_back({latest[slot], b});
                if (latest[slot] == slots_[slot].param) // a donor dies with all that share its memory
                    for_group(slots_[slot].param, [&](uint32_t k) { plan_.reuses.push_back({k, b}); });
            }
            latest[slot] = b;
        }
        struct Owner {
            int64_t end;
            uint32_t slot;
        };
        std::vector<std::map<int64_t, Owner>> owners(plan_.arenas.size());
        for (uint32_t id = 0; id < slots_.size(); ++id) {
            const Slot &slot = slots_[id];
            if (!in_arena(slot))
                continue;
            auto &map = owners[slot.arena];
            const int64_t begin = slot.offset, end = slot.offset + aligned(slot.bytes);
            auto it = map.lower_bound(begin);
            if (it != map.begin() && std::prev(it)->second.end > begin)
                --it;
            while (it != map.end() && it->first < end) {
                const auto [at, owner] = *it;
                plan_.reuses.push_back({latest[owner.slot], first[id]});
                it = map.erase(it);
                if (at < begin)
                    map.emplace(at, Owner{begin, owner.slot});
                if (owner.end > end)
                    it = map.emplace(end, owner).first;
            }
            map[begin] = {end, id};
        }
    }

    void finish(BufferDesc &desc, const Slot &slot) {
        if (slot.result != kNone) {
            const bool is_input = slot.param != kNone && desc.value == graph_.params[slot.param].value;
            desc.kind = is_input ? BufferKind::Input : BufferKind::Result;
            desc.index = is_input ? slot.param : slot.result;
            desc.storage = is_input ? graph_.params[slot.param].storage : -1;
            if (!is_input && slot.param != kNone) {
                desc.donor = static_cast<int32_t>(slot.param);
                plan_.donated_bytes += desc.bytes;
            }
        } else if (slot.param != kNone) {
            desc.kind = BufferKind::Input;
            desc.index = slot.param;
            desc.storage = graph_.params[slot.param].storage;
        } else {
            desc.kind = BufferKind::Arena;
            if (slot.arena != kNone) {
                desc.arena = slot.arena;
                desc.offset = slot.offset;
            }
        }
    }

    const Graph &graph_;
    std::span<const LoweredStep> steps_;
    const Schedule &schedule_;
    uint32_t end_;
    std::optional<StreamClocks> clocks_; // none on one stream
    MemoryPlan plan_;
    std::vector<Slot> slots_;       // those of inputs first
    std::vector<uint32_t> slot_of_; // by buffer
    std::vector<uint32_t> made_by_; // by buffer: the step that writes it first
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
