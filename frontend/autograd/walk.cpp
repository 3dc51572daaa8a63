#include "frontend/autograd/walk.h"

#include "frontend/record/record.h"

#include <string>

namespace lz::detail {

size_t Walk::place_of(const Step *step) const {
    const size_t mask = table_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(step) >> 6) * 0x9e3779b97f4a7c15u >> 32 & mask;
    while (table_[at] != 0 && visits_[table_[at] - 1].step.get() != step)
        at = (at + 1) & mask;
    return at;
}

void Walk::rehash(size_t room) {
    table_.assign(room, 0);
    for (uint32_t v = 0; v < visits_.size(); ++v)
        table_[place_of(visits_[v].step.get())] = v + 1;
}

uint32_t Walk::find(const Step *step) const {
    const uint32_t found = table_[place_of(step)];
    return found == 0 ? kNone : found - 1;
}

uint32_t Walk::find_or_add(Step *step) {
    size_t at = place_of(step);
    if (table_[at] != 0)
        return table_[at] - 1;
    if (2 * visits_.size() >= table_.size()) {
        rehash(2 * table_.size());
        at = place_of(step);
    }
    const auto number = static_cast<uint32_t>(visits_.size());
    visits_.push_back({StepRef(step), 0, static_cast<uint32_t>(slots_), false, false});
    slots_ += step->num_results;
    table_[at] = number + 1;
    return number;
}

void Walk::enter(uint32_t number, const char *function, Location loc) {
    visits_[number].entered = true;
    Step &step = *visits_[number].step; // visits may move, steps do not
    const auto first = static_cast<uint32_t>(children_.size());
    visits_[number].first_child = first;
    {
        const StepLock lock(step);
        if (step.consumed) [[unlikely]]
            throw_consumed(step, function, loc);
        for (const Edge &edge : step.inputs())
            children_.push_back(edge.step ? find_or_add(edge.step) : kNone);
    }
    pending_.push_back({number, first, static_cast<uint32_t>(children_.size())});
}

void throw_consumed(const Step &step, const char *function, Location loc) {
    throw StateError(std::string(function) + ": what " + std::string(ir::called(step.op, step.loc)) + " at " +
                         ir::to_string(step.loc) + " had saved for its gradient was let go of by " +
                         std::string(ir::function_name(step.consumed_by)) +
                         "; say retain_graph there to go through it again",
                     loc);
}

} // namespace lz::detail
