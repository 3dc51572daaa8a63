#include "frontend/optim/skips.h"

#include <algorithm>
#include <unordered_set>

namespace lz::optim {

void begin_counting_skips(std::vector<Change> &changes, bool has_number, std::vector<Tensor> &made,
                          Location loc) {
    std::vector<const Change *> first;
    for (Change &change : changes) {
        if (change.skipped.defined())
            continue;
        const Device device = change.parameter.device(loc);
        const auto there = std::ranges::find_if(first, [&](const Change *other) {
            // Numbers go on as options of the group and counts of steps say.
            return other->parameter.device() == device &&
                   (!has_number || (other->number == change.number && other->steps == change.steps &&
                                    other->group == change.group));
        });
        if (there != first.end()) {
            change.skipped = (*there)->skipped;
            change.number_now = (*there)->number_now;
            continue;
        }
        first.push_back(&change);
        made.push_back(change.skipped = full({}, 0.0, {.dtype = f64, .device = device}, loc));
        if (has_number)
            made.push_back(change.number_now =
                               full({}, change.number, {.dtype = f64, .device = device}, loc));
    }
}

void part_counters(std::vector<Change> &changes, const CounterOwners &owners, std::vector<Tensor> &made,
                   Location loc) {
    CounterOwners here;
    for (const Change &change : changes)
        ++here[change.skipped.id()];
    std::unordered_map<const void *, std::pair<Tensor, Tensor>> parted;
    for (Change &change : changes) {
        const auto owned = owners.find(change.skipped.id());
        if (owned == owners.end() || owned->second == here[change.skipped.id()])
            continue;
        const auto [own, is_first] = parted.try_emplace(change.skipped.id());
        if (is_first) {
            made.push_back(own->second.first = change.skipped.clone(loc));
            if (change.number_now.defined())
                made.push_back(own->second.second = change.number_now.clone(loc));
        }
        change.skipped = own->second.first;
        change.number_now = own->second.second;
    }
}

void count_skips(const std::vector<Change> &changes, const Tensor &skip, Location loc) {
    std::unordered_set<const void *> counted;
    for (const Change &change : changes) {
        if (!change.skipped.defined() || !counted.insert(change.skipped.id()).second)
            continue;
        Tensor skipped = change.skipped, number = change.number_now;
        if (change.number_to.defined())
            number.copy_(skip.defined()
                             ? where(skip.to(number.device(loc), loc), number, change.number_to, loc)
                             : change.number_to,
                         loc);
        if (skip.defined())
            skipped.add_(skip.to(skipped.device(loc), f64, loc), loc);
    }
}

} // namespace lz::optim
