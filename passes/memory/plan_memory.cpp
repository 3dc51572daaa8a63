#include "passes/memory/plan_memory.h"

#include "ir/diagnostic.h"
#include "passes/lower/lower_clusters.h"
#include "passes/memory/add_copies.h"
#include "passes/memory/allocations.h"
#include "passes/memory/can_fault.h"
#include "passes/memory/donors.h"
#include "passes/memory/leaves_whole.h"
#include "passes/memory/write_over.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

/// Goes through the steps and gives each buffer an allocation of its own, or that of a buffer that dies.
class Planner {
public:
    Planner(const Program &program, const Dependences &dependences)
        : program_(program), end_(static_cast<uint32_t>(program.steps.size())), donors_(program),
          leaves_whole_(program) {
        if (const StreamNumbers streams(program); streams.streams.size() > 1)
            order_steps(streams, dependences);
        plan_.buffers = program.buffers;
    }

    MemoryPlan take() {
        find_last_uses();
        add_inputs();
        for (uint32_t s = 0; s < end_; ++s)
            plan_step(s);
        add_results();
        Arenas arenas = lay_out(allocations_, program_, clocks_ ? &*clocks_ : nullptr);
        plan_.arenas = std::move(arenas.arenas);
        plan_.live_bytes = std::move(arenas.live_bytes);
        plan_.reuses = find_reuses(allocations_, placed_, program_);
        for (const auto &[buffer, allocation] : placed_)
            finish(buffer, allocations_[allocation]);
        return std::move(plan_);
    }

private:
    /// What streams and dependences order already.
    void order_steps(const StreamNumbers &streams, const Dependences &dependences) {
        clocks_.emplace(streams.streams.size(), end_);
        for (uint32_t s = 0; s < end_; ++s) {
            for (const Dependence &d : dependences.of(s))
                clocks_->wait(streams.of[s], d.step);
            clocks_->add(streams.of[s]);
        }
    }

    StreamRef stream_of(uint32_t s) const { return {program_.steps[s].device, program_.steps[s].stream}; }
    /// The allocation of a buffer that has one.
    Allocation &memory_of(uint32_t buffer) { return allocations_[allocation_of_[buffer]]; }

    void use(uint32_t allocation, uint32_t s) {
        if (clocks_)
            allocations_[allocation].uses.add(clocks_->position(s), estimated_end(program_, s));
    }

    /// Whether all uses so far are over when step `s` begins, in order or by the estimates.
    bool is_over(uint32_t allocation, uint32_t s) const {
        const LastUses &uses = allocations_[allocation].uses;
        return uses.places.empty() || uses.end <= estimated_begin(program_, s) ||
               std::ranges::all_of(uses.places, [&](StreamPosition p) { return clocks_->over(s, p); });
    }

    void find_last_uses() {
        const size_t buffers = program_.buffers.size();
        last_use_.assign(buffers, 0);
        is_read_.assign(buffers, false);
        reads_.assign(buffers, 0);
        allocation_of_.assign(buffers, kNone);
        result_of_.assign(buffers, kNone);
        made_by_.assign(buffers, kNone);
        for (uint32_t s = 0; s < end_; ++s)
            for_operands(program_, s, [&](BufferMode mode, uint32_t buffer) {
                const uint32_t read = read_buffer(program_, mode, buffer);
                if (read == kNone)
                    return;
                last_use_[read] = s;
                is_read_[read] = true;
            });
        for (uint32_t r = 0; r < program_.results.size(); ++r) {
            const uint32_t buffer = program_.results[r];
            last_use_[buffer] = end_;
            if (result_of_[buffer] == kNone && program_.buffers[buffer].kind != BufferKind::Input)
                result_of_[buffer] = r;
        }
    }

    /// Inputs that share memory die together, and only if all of them may be overwritten.
    void add_inputs() {
        struct Group {
            uint32_t last = 0;
            bool donated = true, read = false;
        };
        const auto inputs = static_cast<uint32_t>(
            std::ranges::find_if(program_.buffers,
                                 [](const BufferDesc &b) { return b.kind != BufferKind::Input; }) -
            program_.buffers.begin());
        std::map<int32_t, Group> shared; // by storage
        for (uint32_t k = 0; k < inputs; ++k)
            if (const int32_t storage = program_.buffers[k].storage; storage >= 0) {
                Group &group = shared[storage];
                group.last = std::max(group.last, last_use_[k]);
                group.donated = group.donated && program_.draft.buffers[k].donated;
                group.read = group.read || is_read_[k];
            }
        for (uint32_t k = 0; k < inputs; ++k) {
            const BufferDesc &b = program_.buffers[k];
            Allocation allocation{.bytes = b.bytes, .device = b.device, .input = k};
            bool donated = program_.draft.buffers[k].donated;
            allocation.last = last_use_[k];
            allocation.read = is_read_[k];
            if (b.storage >= 0) {
                Group &group = shared[b.storage];
                allocation.last = group.last;
                allocation.read = group.read;
                donated = group.donated;
                group.donated = false; // its memory can be taken over once
            }
            allocations_.push_back(allocation);
            place(k, k);
            if (donated && allocation.last < end_ && allocation.bytes > 0)
                donors_.add(k);
        }
    }

    void place(uint32_t buffer, uint32_t allocation) {
        allocation_of_[buffer] = allocation;
        placed_.push_back({buffer, allocation});
    }

    uint32_t add_allocation(int64_t bytes, Device device, uint32_t step) {
        Allocation allocation;
        allocation.bytes = bytes;
        allocation.device = device;
        allocation.first = allocation.last = step;
        allocation.home = {device, kDefaultStream};
        if (step < end_ && program_.steps[step].kind == StepKind::Copy &&
            stream_of(step) == StreamRef{device, kCopyInStream})
            allocation.home.stream = kCopyInStream;
        allocations_.push_back(allocation);
        return static_cast<uint32_t>(allocations_.size() - 1);
    }

    void plan_step(uint32_t s) {
        const Step &step = program_.steps[s];
        touched_.clear();
        for_operands(program_, s, [&](BufferMode mode, uint32_t buffer) {
            if (const uint32_t read = read_buffer(program_, mode, buffer); read != kNone) {
                ++reads_[read];
                touched_.push_back(read);
            }
        });
        faults_.reset();
        std::optional<WriteOver> write_over;
        for (const Segment &segment : step.segments) {
            const std::vector<KBuffer> &declared = program_.kernels[step.kernel].buffers;
            segment_ = &segment;
            for (size_t k = 0; k < segment.buffers.size(); ++k)
                if (declared[k].mode != BufferMode::Worker)
                    plan_operand(s, declared[k].mode, segment.buffers[k], [&](uint32_t result) {
                        return find_dying(s, segment, k, write_over, result);
                    });
        }
        segment_ = nullptr;
        if (step.segments.empty())
            for_operands(program_, s, [&](BufferMode mode, uint32_t buffer) {
                plan_operand(s, mode, buffer, [](uint32_t) { return kNone; });
            });
        for (const uint32_t buffer : touched_)
            reads_[buffer] = 0;
        if (clocks_)
            for_operands(program_, s, [&](BufferMode, uint32_t buffer) { use(allocation_of_[buffer], s); });
    }

    /// Gives one operand of step `s` its memory. `find_dying_input(result)` names one that the output may be
    /// written over.
    template <class F>
    void plan_operand(uint32_t s, BufferMode mode, uint32_t buffer, F &&find_dying_input) {
        const BufferDesc &b = program_.buffers[buffer];
        if (b.kind == BufferKind::Staging) {
            plan_staging(s, buffer);
        } else if (mode == BufferMode::Temp) {
            place(buffer, add_allocation(b.bytes, b.device, s));
        } else if (mode == BufferMode::In) {
            LZ_CHECK(allocation_of_[buffer] != kNone, "a step reads a buffer that no step before it writes");
            memory_of(buffer).last = std::max(memory_of(buffer).last, s);
        } else if (allocation_of_[buffer] == kNone) { // else another segment or phase writes the rest of it
            plan_output(s, mode, buffer, find_dying_input);
        }
    }

    /// Pinned memory on the way between two GPUs.
    void plan_staging(uint32_t s, uint32_t buffer) {
        if (allocation_of_[buffer] == kNone) {
            place(buffer, add_allocation(program_.buffers[buffer].bytes, kCpu, s));
            memory_of(buffer).pinned = true;
            memory_of(buffer).home = stream_of(s);
        }
        memory_of(buffer).last = s;
    }

    template <class F>
    void plan_output(uint32_t s, BufferMode mode, uint32_t buffer, F &&find_dying_input) {
        const BufferDesc &b = program_.buffers[buffer];
        const uint32_t result = result_of_[buffer], replaces = program_.draft.buffers[buffer].replaces;
        const bool updates = mode == BufferMode::InOut;
        LZ_CHECK(!updates || (replaces != kNone && allocation_of_[replaces] != kNone),
                 "a step updates a buffer that no step before it writes");
        uint32_t allocation = kNone;
        if (updates) {
            allocation = allocation_of_dying(s, replaces, result);
            if (allocation == kNone && find_dying_input(result) != kNone)
                allocation = allocation_of_[replaces];
        } else if (const uint32_t dying = find_dying_input(result); dying != kNone) {
            allocation = allocation_of_[dying];
            plan_.in_place_bytes += b.bytes;
        }
        if (allocation == kNone && result != kNone && !updates)
            allocation = find_donor(s, result, buffer);
        const bool shared = allocation != kNone;
        if (!shared)
            allocation = add_allocation(b.bytes, b.device, s);
        place(buffer, allocation);
        allocations_[allocation].last = std::max(s, last_use_[buffer]);
        if (result != kNone)
            allocations_[allocation].result = result;
        if (allocations_[allocation].input != kNone)
            donors_.remove(allocations_[allocation].input);
        if (updates && !shared) {
            plan_.copies.push_back({s, replaces, buffer, s});
            memory_of(replaces).last = std::max(memory_of(replaces).last, s);
            use(allocation_of_[replaces], s);
        }
        made_by_[buffer] = s;
    }

    /// The allocation of a buffer that step `s` alone reads, as the last in order, if it may be overwritten;
    /// else kNone. Earlier readers may still run.
    uint32_t allocation_of_dying(uint32_t s, uint32_t buffer, uint32_t result) {
        if (last_use_[buffer] != s || reads_[buffer] != 1)
            return kNone;
        const uint32_t allocation = allocation_of_[buffer];
        const uint32_t input = allocations_[allocation].input;
        if (input == kNone)
            return allocation;
        // An input's memory is worth taking over for a result only: it is there anyway until the program
        // ends.
        return result != kNone && allocations_[allocation].last <= s && donors_.may_take(result, input) &&
                       may_write_over_input(s, input, result)
                   ? allocation
                   : kNone;
    }

    /// A step that can fail halfway must leave the old value whole; and one that is computed from what
    /// failed, a value that a handle goes back to (S26).
    bool may_write_over_input(uint32_t s, uint32_t input, uint32_t result) {
        return !step_can_fault(s) &&
               (!program_.draft.buffers[input].kept ||
                (segment_ && leaves_whole_.guards(s, *segment_, program_.results[result])));
    }

    /// A part that is changed by what is read of it (`a[i] += v`): the value that it is a part of may be
    /// overwritten if nothing else reads it, and each element is read before it is written.
    uint32_t find_dying_part(uint32_t s, const Segment &segment, size_t out,
                             std::optional<WriteOver> &write_over, uint32_t result) {
        const Kernel &kernel = program_.kernels[program_.steps[s].kernel];
        const uint32_t whole = program_.draft.buffers[segment.buffers[out]].replaces;
        size_t in = 0;
        while (in < segment.buffers.size() &&
               (kernel.buffers[in].mode != BufferMode::In || segment.buffers[in] != whole))
            ++in;
        if (reads_[whole] != 2 || in == segment.buffers.size())
            return kNone;
        reads_[whole] = 1;
        const bool dies = allocation_of_dying(s, whole, result) != kNone;
        reads_[whole] = 2;
        if (!dies)
            return kNone;
        if (!write_over)
            write_over.emplace(kernel);
        return write_over->allowed(segment, static_cast<uint16_t>(in), static_cast<uint16_t>(out)) ? whole
                                                                                                   : kNone;
    }

    uint32_t find_dying(uint32_t s, const Segment &segment, size_t out, std::optional<WriteOver> &write_over,
                        uint32_t result) {
        const Kernel &kernel = program_.kernels[program_.steps[s].kernel];
        if (kernel.buffers[out].mode == BufferMode::InOut)
            return find_dying_part(s, segment, out, write_over, result);
        const int64_t bytes = program_.buffers[segment.buffers[out]].bytes;
        for (size_t in = 0; in < segment.buffers.size(); ++in) {
            const uint32_t buffer = segment.buffers[in];
            if (kernel.buffers[in].mode != BufferMode::In || bytes == 0 ||
                program_.buffers[buffer].bytes != bytes || allocation_of_dying(s, buffer, result) == kNone ||
                !is_over(allocation_of_[buffer], s))
                continue;
            if (!write_over)
                write_over.emplace(kernel);
            if (!write_over->allowed(segment, static_cast<uint16_t>(in), static_cast<uint16_t>(out)))
                continue;
            reads_[buffer] = 0; // taken
            return buffer;
        }
        return kNone;
    }

    /// A donated input of this size that is dead before step `s`: no step reads it, because an in-place form
    /// writes another value in its place, or those that do have.
    uint32_t find_donor(uint32_t s, uint32_t result, uint32_t buffer) {
        return donors_.find_if(result, buffer, [&](uint32_t k) {
            return is_dead_before(k, s) && may_write_over_input(s, k, result);
        });
    }

    /// The same for a copy after all steps; on several streams one that no step reads, so that nothing waits.
    uint32_t find_donor_at_end(uint32_t result, uint32_t buffer) const {
        return donors_.find_if(result, buffer, [&](uint32_t k) {
            return !program_.draft.buffers[k].kept && (!clocks_ || !allocations_[k].read);
        });
    }

    bool is_dead_before(uint32_t input, uint32_t s) const {
        if (!allocations_[input].read)
            return true;
        return allocations_[input].last < s && last_use_[input] < s && reads_[input] == 0 &&
               is_over(input, s) && others_are_over(input, s);
    }

    bool others_are_over(uint32_t input, uint32_t s) const {
        bool over = true;
        for_others_in_memory(program_, input, [&](uint32_t k) { over = over && is_over(k, s); });
        return over;
    }

    bool step_can_fault(uint32_t s) {
        if (!faults_)
            faults_ = can_fault(program_, program_.steps[s]);
        return *faults_;
    }

    /// A result that is an input, or another result too, becomes a copy.
    void add_results() {
        plan_.results = program_.results;
        for (uint32_t r = 0; r < program_.results.size(); ++r) {
            const uint32_t buffer = program_.results[r];
            LZ_CHECK(allocation_of_[buffer] != kNone, "no step stores result " + std::to_string(r));
            if (result_of_[buffer] == r)
                continue;
            BufferDesc copy{};
            copy.bytes = program_.buffers[buffer].bytes;
            copy.device = program_.buffers[buffer].device;
            copy.value = program_.buffers[buffer].value;
            uint32_t allocation = find_donor_at_end(r, buffer);
            if (allocation != kNone)
                donors_.remove(allocation);
            else
                allocation = add_allocation(copy.bytes, copy.device, end_);
            allocations_[allocation].last = end_;
            allocations_[allocation].result = r;
            plan_.results[r] = static_cast<uint32_t>(plan_.buffers.size());
            plan_.buffers.push_back(copy);
            placed_.push_back({plan_.results[r], allocation});
            plan_.copies.push_back({end_, buffer, plan_.results[r], made_by_[buffer]});
        }
    }

    void finish(uint32_t buffer, const Allocation &allocation) {
        BufferDesc &desc = plan_.buffers[buffer];
        if (buffer == allocation.input)
            return;
        if (allocation.result != kNone) {
            desc.kind = BufferKind::Result;
            desc.index = allocation.result;
            if (allocation.input != kNone) {
                desc.donor = static_cast<int32_t>(allocation.input);
                desc.guarded = program_.draft.buffers[allocation.input].kept;
            }
            return;
        }
        LZ_CHECK(allocation.input == kNone, "what is no result has the memory of an input");
        desc.kind = BufferKind::Arena;
        if (allocation.arena != kNone) {
            desc.arena = allocation.arena;
            desc.offset = allocation.offset;
        }
    }

    const Program &program_;
    uint32_t end_;
    std::optional<StreamClocks> clocks_; // none on one stream
    MemoryPlan plan_;
    Donors donors_;
    LeavesWhole leaves_whole_;
    const Segment *segment_ = nullptr;    // of a launch, whose operands get their memory
    std::vector<Allocation> allocations_; // those of inputs first
    std::vector<Placed> placed_;          // in the order in which buffers were given their memory
    // By buffer of the Program
    std::vector<uint32_t> allocation_of_;
    std::vector<uint32_t> made_by_; // the step that writes it first
    std::vector<uint32_t> last_use_, result_of_;
    std::vector<uint32_t> reads_;   // by the step at hand
    std::vector<bool> is_read_;     // by a step
    std::vector<uint32_t> touched_; // by the step at hand
    std::optional<bool> faults_;    // whether the step at hand can fail
};

} // namespace

MemoryPlan find_memory(const Program &program, const Dependences &dependences) {
    return Planner(program, dependences).take();
}

void plan_memory(Program &program, const Dependences &dependences) {
    MemoryPlan plan = find_memory(program, dependences);
    Draft &draft = program.draft;
    for (uint32_t r = 0; r < program.results.size(); ++r)
        if (plan.results[r] != program.results[r]) {
            const BufferDraft &same = draft.buffers[program.results[r]];
            draft.buffers.push_back({.node = same.node, .recorded = same.recorded});
        }
    for (const PlannedCopy &copy : plan.copies)
        draft.buffers[copy.to].replaces = kNone;
    program.buffers = std::move(plan.buffers);
    program.results = std::move(plan.results);
    program.arenas = std::move(plan.arenas);
    draft.reuses = std::move(plan.reuses);
    draft.live_bytes = std::move(plan.live_bytes);
    draft.in_place_bytes = plan.in_place_bytes;
    add_copies(program, plan.copies);
    program.stage = Stage::Planned;
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
