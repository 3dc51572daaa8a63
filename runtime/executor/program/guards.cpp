// Which faults hold back the segments that overwrite what a handle goes back to (BufferDesc::guarded).
#include "runtime/executor/blame.h"
#include "runtime/executor/program/layout.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lz::runtime {

namespace {

/// Sets of numbers, each kept once: most values of a Program are lost by the same faults.
class Sets {
public:
    using Id = uint32_t;
    static constexpr Id kEmpty = 0;

    Sets() { id_of({}); }
    const std::vector<uint32_t> &operator[](Id id) const { return *sets_[id]; }
    Id unite(Id a, Id b) {
        if (a == b || b == kEmpty)
            return a;
        if (a == kEmpty)
            return b;
        const auto [known, is_new] = united_.try_emplace(std::minmax(a, b), kEmpty);
        if (is_new) {
            std::vector<uint32_t> both;
            std::ranges::set_union(*sets_[a], *sets_[b], std::back_inserter(both));
            known->second = id_of(std::move(both));
        }
        return known->second;
    }
    Id of(uint32_t member) { return id_of({member}); }

private:
    Id id_of(std::vector<uint32_t> set) {
        const auto [known, is_new] = ids_.try_emplace(std::move(set), static_cast<Id>(sets_.size()));
        if (is_new)
            sets_.push_back(&known->first);
        return known->second;
    }

    std::map<std::vector<uint32_t>, Id> ids_;
    std::vector<const std::vector<uint32_t> *> sets_; // by id: keys of `ids_`
    std::map<std::pair<Id, Id>, Id> united_;
};

} // namespace

/// Finds for each buffer, step by step, the faults after which its contents are not valid (it is "lost").
/// Blame does the same after a failure, for the faults that have happened; this does it for all of them when
/// the Program is loaded.
class LoadedProgram::Layout::GuardFinder {
public:
    GuardFinder(Layout &layout, const ir::Program &program)
        : layout_(layout), program_(program), lost_by_(program.buffers.size(), Sets::kEmpty) {
        for (const Faults &f : layout.faults) {
            first_of_device_.push_back(count_);
            count_ += f.count;
        }
    }

    void run() {
        std::vector<const Action *> last(program_.steps.size()); // by step: its last action
        for (const Action &action : layout_.actions)
            last[action.step] = &action;
        uint32_t frame = 0;
        for (uint32_t s = 0; s < program_.steps.size(); ++s) {
            const ir::Step &step = program_.steps[s];
            if (step.kind != ir::StepKind::Launch) {
                if (step.kind == ir::StepKind::Library || step.kind == ir::StepKind::Copy)
                    visit(step, *last[s]);
                continue;
            }
            // A launch that runs out of memory says so in the first fault of the segment it came to. Which
            // work items have run by then is not known: all segments of the step are lost.
            Sets::Id unfinished = Sets::kEmpty;
            for (size_t i = 0; i < step.segments.size(); ++i)
                if (const Frame &f = layout_.frames[frame + i]; f.faults != ir::kNone)
                    unfinished = sets_.unite(unfinished, sets_.of(member(f.slot, f.faults, true)));
            for (const ir::Segment &segment : step.segments)
                visit(step, segment, layout_.frames[frame++], unfinished);
        }
    }

private:
    /// The number of a fault in the sets: as any failure, or as running out of memory only.
    uint32_t member(uint32_t slot, uint32_t fault, bool only_out_of_memory) const {
        return 2 * (first_of_device_[slot] + fault) + only_out_of_memory;
    }

    /// A call or a copy.
    void visit(const ir::Step &step, const Action &action) {
        Sets::Id lost = Sets::kEmpty;
        for (uint32_t f = action.faults; f < action.end_faults; ++f)
            lost = sets_.unite(lost, sets_.of(member(action.slot, f, false)));
        const std::vector<BufferUse> uses = uses_of(program_, step, 0);
        for (const BufferUse &use : uses)
            lost = sets_.unite(lost, lost_by_[use.buffer]);
        for (const BufferUse &use : uses)
            if (use.write)
                lost_by_[use.buffer] = lost;
    }

    void visit(const ir::Step &step, const ir::Segment &segment, Frame &frame, Sets::Id unfinished) {
        const ir::Kernel &kernel = program_.kernels[step.kernel];
        const auto [known, is_new] = flows_.try_emplace(step.kernel);
        if (is_new)
            known->second = ir::flow_of(kernel);
        const ir::KernelFlow &flow = known->second;
        std::vector<Sets::Id> sources = lost_operands(step, segment);
        for (uint32_t c = 0; c < flow.checks.size(); ++c)
            sources.push_back(sets_.of(member(frame.slot, frame.faults + c, false)));
        Sets::Id guards = Sets::kEmpty;
        bool guarded = false;
        for (size_t b = 0; b < segment.buffers.size(); ++b) {
            const uint32_t buffer = segment.buffers[b];
            if (buffer == ir::kNone || !flow.written[b])
                continue;
            Sets::Id lost = sets_.unite(lost_by_[buffer], unfinished);
            for (size_t source = 0; source < sources.size(); ++source)
                if (flow.stored[b][source])
                    lost = sets_.unite(lost, sources[source]);
            lost_by_[buffer] = lost;
            if (program_.buffers[buffer].guarded) {
                guarded = true;
                guards = sets_.unite(guards, lost);
            }
        }
        if (guarded && guards != Sets::kEmpty)
            hold_back(frame, sets_[guards]);
    }

    /// For each buffer of the kernel, the faults by which its contents are lost when the segment begins.
    std::vector<Sets::Id> lost_operands(const ir::Step &step, const ir::Segment &segment) {
        const ir::Kernel &kernel = program_.kernels[step.kernel];
        std::vector<Sets::Id> lost(segment.buffers.size(), Sets::kEmpty);
        for (size_t b = 0; b < lost.size(); ++b) {
            const uint32_t buffer = segment.buffers[b];
            const ir::BufferMode mode = kernel.buffers[b].mode;
            if (buffer == ir::kNone || (mode != ir::BufferMode::In && mode != ir::BufferMode::InOut))
                continue;
            lost[b] = lost_by_[buffer];
            if (mode == ir::BufferMode::InOut)
                for (const ir::ByteRange &access : step.accesses)
                    if (!access.write && share_memory(program_, access.buffer, buffer))
                        lost[b] = sets_.unite(lost[b], lost_by_[access.buffer]);
        }
        return lost;
    }

    void hold_back(Frame &frame, const std::vector<uint32_t> &members) {
        frame.guards = static_cast<uint32_t>(layout_.guards.size());
        for (const uint32_t m : members) {
            const auto device = std::ranges::upper_bound(first_of_device_, m / 2) - 1;
            layout_.guards.push_back(
                {static_cast<uint32_t>(device - first_of_device_.begin()), m / 2 - *device, m % 2 != 0});
        }
        layout_.guards.push_back({});
    }

    Layout &layout_;
    const ir::Program &program_;
    Sets sets_;
    std::vector<uint32_t> first_of_device_;
    uint32_t count_ = 0;
    std::vector<Sets::Id> lost_by_;            // by buffer
    std::map<uint32_t, ir::KernelFlow> flows_; // by kernel
};

void LoadedProgram::Layout::find_guards(const ir::Program &program) {
    if (can_fault && std::ranges::any_of(program.buffers, &ir::BufferDesc::guarded))
        GuardFinder(*this, program).run();
}

} // namespace lz::runtime
