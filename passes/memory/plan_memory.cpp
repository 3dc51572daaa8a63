#include "passes/memory/plan_memory.h"

#include "ir/diagnostic.h"
#include "passes/lower/lower_clusters.h"
#include "passes/memory/add_copies.h"
#include "passes/memory/reuse/buffer_reuse.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

/// Goes through the steps and gives each buffer an allocation of its own, or that of a buffer that dies.
class Planner {
public:
    Planner(const Program &program, const Dependences &dependences, const Target &target)
        : program_(program), target_(target), lives_(program), reuse_(lives_),
          made_by_(program.buffers.size(), kNone) {
        if (const StreamNumbers streams(program); streams.streams.size() > 1)
            order_steps(streams, dependences);
        plan_.buffers = program.buffers;
    }

    MemoryPlan take() {
        add_inputs();
        for (uint32_t s = 0; s < lives_.end; ++s)
            plan_step(s);
        add_results();
        Arenas arenas = lay_out(lives_.allocations, program_, lives_.clocks ? &*lives_.clocks : nullptr);
        plan_.arenas = std::move(arenas.arenas);
        plan_.live_bytes = std::move(arenas.live_bytes);
        plan_.reuses = find_reuses(lives_.allocations, placed_, program_, !lives_.clocks);
        for (const auto &[buffer, allocation] : placed_)
            finish(buffer, lives_.allocations[allocation]);
        return std::move(plan_);
    }

private:
    /// What streams and dependences order already.
    void order_steps(const StreamNumbers &streams, const Dependences &dependences) {
        StreamClocks &clocks = lives_.clocks.emplace(streams.streams.size(), lives_.end);
        for (uint32_t s = 0; s < lives_.end; ++s) {
            for (const Dependence &d : dependences.of(s))
                clocks.wait(streams.of[s], d.step);
            clocks.add(streams.of[s]);
        }
    }

    StreamRef stream_of(uint32_t s) const { return {program_.steps[s].device, program_.steps[s].stream}; }
    /// The allocation of a buffer that has one.
    Allocation &memory_of(uint32_t buffer) { return lives_.allocations[lives_.allocation_of[buffer]]; }

    void use(uint32_t allocation, uint32_t s) {
        if (lives_.clocks)
            lives_.allocations[allocation].uses.add(lives_.clocks->position(s), estimated_end(program_, s));
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
                group.last = std::max(group.last, lives_.last_use[k]);
                group.donated = group.donated && may_be_overwritten(program_, k, target_);
                group.read = group.read || lives_.is_read[k];
            }
        for (uint32_t k = 0; k < inputs; ++k) {
            const BufferDesc &b = program_.buffers[k];
            Allocation allocation{.bytes = b.bytes, .device = b.device, .input = k};
            bool donated = may_be_overwritten(program_, k, target_);
            allocation.last = lives_.last_use[k];
            allocation.read = lives_.is_read[k];
            if (b.storage >= 0) {
                Group &group = shared[b.storage];
                allocation.last = group.last;
                allocation.read = group.read;
                donated = group.donated;
                group.donated = false; // its memory can be taken over once
            }
            lives_.allocations.push_back(allocation);
            place(k, k);
            if (donated && allocation.last < lives_.end && allocation.bytes > 0)
                reuse_.add_donor(k);
        }
    }

    void place(uint32_t buffer, uint32_t allocation) {
        lives_.allocation_of[buffer] = allocation;
        placed_.push_back({buffer, allocation});
    }

    uint32_t add_allocation(int64_t bytes, Device device, uint32_t step) {
        Allocation allocation;
        allocation.bytes = bytes;
        allocation.device = device;
        allocation.first = allocation.last = step;
        allocation.home = {device, kDefaultStream};
        if (step < lives_.end && program_.steps[step].kind == StepKind::Copy &&
            stream_of(step) == StreamRef{device, kCopyInStream})
            allocation.home.stream = kCopyInStream;
        lives_.allocations.push_back(allocation);
        return static_cast<uint32_t>(lives_.allocations.size() - 1);
    }

    void plan_step(uint32_t s) {
        const Step &step = program_.steps[s];
        reuse_.begin_step(s);
        for (const Segment &segment : step.segments) {
            const std::vector<KBuffer> &declared = program_.kernels[step.kernel].buffers;
            reuse_.begin_segment(&segment);
            for (size_t k = 0; k < segment.buffers.size(); ++k)
                if (declared[k].mode != BufferMode::Worker)
                    plan_operand(s, declared[k].mode, segment.buffers[k],
                                 [&](uint32_t result) { return reuse_.find_dying(k, result); });
        }
        if (step.segments.empty())
            for_operands(program_, s, [&](BufferMode mode, uint32_t buffer) {
                plan_operand(s, mode, buffer, [](uint32_t) { return kNone; });
            });
        if (lives_.clocks)
            for_operands(program_, s,
                         [&](BufferMode, uint32_t buffer) { use(lives_.allocation_of[buffer], s); });
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
            LZ_CHECK(lives_.allocation_of[buffer] != kNone,
                     "a step reads a buffer that no step before it writes");
            memory_of(buffer).last = std::max(memory_of(buffer).last, s);
        } else if (lives_.allocation_of[buffer] ==
                   kNone) { // else another segment or phase writes the rest of it
            plan_output(s, mode, buffer, find_dying_input);
        }
    }

    /// Pinned memory on the way between two GPUs.
    void plan_staging(uint32_t s, uint32_t buffer) {
        if (lives_.allocation_of[buffer] == kNone) {
            place(buffer, add_allocation(program_.buffers[buffer].bytes, kCpu, s));
            memory_of(buffer).pinned = true;
            memory_of(buffer).home = stream_of(s);
        }
        memory_of(buffer).last = s;
    }

    template <class F>
    void plan_output(uint32_t s, BufferMode mode, uint32_t buffer, F &&find_dying_input) {
        const BufferDesc &b = program_.buffers[buffer];
        const uint32_t result = lives_.result_of[buffer], replaces = program_.draft.buffers[buffer].replaces;
        const bool updates = mode == BufferMode::InOut;
        LZ_CHECK(!updates || (replaces != kNone && lives_.allocation_of[replaces] != kNone),
                 "a step updates a buffer that no step before it writes");
        uint32_t allocation = kNone;
        if (updates) {
            allocation = reuse_.allocation_of_dying(replaces, result);
            if (allocation == kNone && find_dying_input(result) != kNone)
                allocation = lives_.allocation_of[replaces];
        } else if (const uint32_t dying = find_dying_input(result); dying != kNone) {
            allocation = lives_.allocation_of[dying];
            plan_.in_place_bytes += b.bytes;
        }
        if (allocation == kNone && result != kNone && !updates)
            allocation = reuse_.find_donor(result, buffer);
        const bool shared = allocation != kNone;
        if (!shared)
            allocation = add_allocation(b.bytes, b.device, s);
        place(buffer, allocation);
        lives_.allocations[allocation].last = std::max(s, lives_.last_use[buffer]);
        if (result != kNone)
            lives_.allocations[allocation].result = result;
        if (lives_.allocations[allocation].input != kNone)
            reuse_.remove_donor(lives_.allocations[allocation].input);
        if (updates && !shared) {
            plan_.copies.push_back({s, replaces, buffer, s});
            memory_of(replaces).last = std::max(memory_of(replaces).last, s);
            use(lives_.allocation_of[replaces], s);
        }
        made_by_[buffer] = s;
    }

    /// A result that is an input, or another result too, becomes a copy.
    void add_results() {
        plan_.results = program_.results;
        for (uint32_t r = 0; r < program_.results.size(); ++r) {
            const uint32_t buffer = program_.results[r];
            LZ_CHECK(lives_.allocation_of[buffer] != kNone, "no step stores result " + std::to_string(r));
            if (lives_.result_of[buffer] == r)
                continue;
            BufferDesc copy{};
            copy.bytes = program_.buffers[buffer].bytes;
            copy.device = program_.buffers[buffer].device;
            copy.value = program_.buffers[buffer].value;
            uint32_t allocation = reuse_.find_donor_at_end(r, buffer);
            if (allocation != kNone)
                reuse_.remove_donor(allocation);
            else
                allocation = add_allocation(copy.bytes, copy.device, lives_.end);
            lives_.allocations[allocation].last = lives_.end;
            lives_.allocations[allocation].result = r;
            plan_.results[r] = static_cast<uint32_t>(plan_.buffers.size());
            plan_.buffers.push_back(copy);
            placed_.push_back({plan_.results[r], allocation});
            plan_.copies.push_back({lives_.end, buffer, plan_.results[r], made_by_[buffer]});
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
    const Target &target_;
    BufferLives lives_;
    BufferReuse reuse_;
    MemoryPlan plan_;
    std::vector<Placed> placed_;    // in the order in which buffers were given their memory
    std::vector<uint32_t> made_by_; // by buffer: the step that writes it first
};

} // namespace

MemoryPlan find_memory(const Program &program, const Dependences &dependences, const Target &target) {
    return Planner(program, dependences, target).take();
}

void plan_memory(Program &program, const Dependences &dependences, const Target &target) {
    MemoryPlan plan = find_memory(program, dependences, target);
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
