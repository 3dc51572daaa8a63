#include "codegen/cuda/rows/barriers.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lz::codegen::cuda {

size_t RowBarriers::place(int rank, bool of_cluster) {
    ranks_.push_back(rank);
    events_.push_back({.kind = Event::Place, .barrier = ranks_.size() - 1, .of_cluster = of_cluster});
    return ranks_.size() - 1;
}

void RowBarriers::repeat(size_t barrier) {
    const auto is_it = [&](const Event &e) { return e.kind == Event::Place && e.barrier == barrier; };
    events_.push_back(*std::ranges::find_if(events_, is_it));
}

/// Follows the events with some of the barriers standing.
class RowBarriers::Walk {
public:
    Walk(const std::vector<Event> &events, const std::vector<bool> &standing, bool lengths_differ)
        : events_(events), standing_(standing), lengths_differ_(lengths_differ) {}

    Races run() {
        Pending pending;
        for (bool again = true; again;) { // rows follow each other
            const size_t known = pending.size();
            size_t at = 0;
            for (const auto &[event, earlier] : walk(at, pending))
                if (!events_[event].array.of_row)
                    pending.emplace(event, true);
            again = pending.size() != known;
        }
        return std::move(races_);
    }

private:
    /// Events from `at` on until their Close, or the end; leaves `at` behind it.
    Pending walk(size_t &at, Pending pending) {
        for (; at < events_.size(); ++at) {
            const Event &e = events_[at];
            switch (e.kind) {
            case Event::Access:
                check(at, pending);
                pending.emplace(at, false);
                break;
            case Event::Place:
            case Event::Always:
                if (e.kind == Event::Always || standing_[e.barrier])
                    std::erase_if(pending, [&](const auto &p) {
                        return e.of_cluster || !events_[p.first].array.of_cluster;
                    });
                break;
            case Event::Loop:
            case Event::Branch: {
                const size_t first = at + 1;
                for (bool again = true; again;) {
                    const size_t known = pending.size();
                    at = first;
                    pending.merge(walk(at, pending));
                    again = e.kind == Event::Loop && pending.size() != known;
                }
                break; // at its Close
            }
            case Event::Close:
                return pending;
            }
        }
        return pending;
    }

    void check(size_t at, const Pending &pending) {
        const Event &now = events_[at];
        for (const auto &[event, earlier] : pending) {
            const Event &then = events_[event];
            if (then.array.name != now.array.name || !(then.writes || now.writes))
                continue;
            const bool own = !now.owners.empty() && now.owners == then.owners &&
                             !(earlier && lengths_differ_ && now.owners.front() == '~');
            if (!own)
                races_.emplace(event, at);
        }
    }

    const std::vector<Event> &events_;
    const std::vector<bool> &standing_;
    const bool lengths_differ_;
    Races races_;
};

RowBarriers::Races RowBarriers::races(const std::vector<bool> &standing, bool lengths_differ) const {
    return Walk(events_, standing, lengths_differ).run();
}

std::vector<bool> RowBarriers::needed(bool lengths_differ) const {
    std::vector<bool> standing(ranks_.size(), true);
    const Races with_all = races(standing, lengths_differ); // none, but for what is no row kernel
    std::vector<size_t> order(ranks_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t b) { return std::pair(ranks_[b], b); });
    for (const size_t b : order) {
        standing[b] = false;
        if (races(standing, lengths_differ) != with_all)
            standing[b] = true;
    }
    return standing;
}

} // namespace lz::codegen::cuda
