#include "passes/memory/live_order.h"

#include "passes/found_again.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <queue>

namespace lz::passes {

namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Edges between steps in the direction of a walk.
struct Edges {
    std::vector<uint32_t> begin, to;
    std::vector<uint32_t> missing; // by step: how many lead to it

    Edges(uint32_t n, std::span<const StepEdge> edges, bool backward)
        : begin(n + 1, 0), to(edges.size()), missing(n, 0) {
        for (const auto &[first, second] : edges) {
            ++begin[(backward ? second : first) + 1];
            ++missing[backward ? first : second];
        }
        std::partial_sum(begin.begin(), begin.end(), begin.begin());
        std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
        for (const auto &[first, second] : edges)
            to[next[backward ? second : first]++] = backward ? first : second;
    }
    std::span<const uint32_t> of(uint32_t s) const {
        return std::span(to).subspan(begin[s], begin[s + 1] - begin[s]);
    }
};

/// List scheduling: of the steps that may be next one that takes no more bytes than it gives free, else the
/// first in the order at hand. `backward`: from the end, where a step gives free what it makes, and takes
/// what it reads.
class Walk {
public:
    Walk(const Traffic &traffic, std::span<const StepEdge> edges, std::span<const uint32_t> order,
         bool backward)
        : traffic_(traffic), backward_(backward), n_(static_cast<uint32_t>(order.size())),
          edges_(n_, edges, backward), place_(n_), left_(backward ? traffic.makers : traffic.readers),
          alive_(traffic.bytes.size(), false), is_ready_(n_, false), is_free_(n_, false) {
        for (uint32_t k = 0; k < n_; ++k)
            place_[order[k]] = backward ? n_ - 1 - k : k;
        find_users();
    }

    std::vector<uint32_t> run() {
        for (uint32_t s = 0; s < n_; ++s)
            if (edges_.missing[s] == 0)
                put(s);
        std::vector<uint32_t> order;
        order.reserve(n_);
        while (!ready_.empty() || !free_.empty()) {
            const uint32_t s = take();
            if (s == kNone)
                continue;
            order.push_back(s);
            count_step(s);
            for (const uint32_t after : edges_.of(s))
                if (--edges_.missing[after] == 0)
                    put(after);
        }
        if (backward_)
            std::ranges::reverse(order);
        return order;
    }

private:
    using Entry = std::pair<uint32_t, uint32_t>; // place, step
    using Queue = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

    std::span<const uint32_t> begun_by(uint32_t s) const {
        return backward_ ? traffic_.read_by(s) : traffic_.made_by(s);
    }
    std::span<const uint32_t> ended_by(uint32_t s) const {
        return backward_ ? traffic_.made_by(s) : traffic_.read_by(s);
    }

    /// By buffer: the steps that may end it, and those that may begin it.
    void find_users() {
        const auto gather = [&](auto &&buffers_of, std::vector<uint32_t> &begin,
                                std::vector<uint32_t> &steps) {
            begin.assign(traffic_.bytes.size() + 1, 0);
            for (uint32_t s = 0; s < n_; ++s)
                for (const uint32_t b : buffers_of(s))
                    ++begin[b + 1];
            std::partial_sum(begin.begin(), begin.end(), begin.begin());
            steps.resize(begin.back());
            std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
            for (uint32_t s = 0; s < n_; ++s)
                for (const uint32_t b : buffers_of(s))
                    steps[next[b]++] = s;
        };
        gather([&](uint32_t s) { return ended_by(s); }, enders_begin_, enders_);
        gather([&](uint32_t s) { return begun_by(s); }, beginners_begin_, beginners_);
        growth_.assign(n_, 0);
        for (uint32_t s = 0; s < n_; ++s) {
            for (const uint32_t b : begun_by(s))
                growth_[s] += traffic_.bytes[b];
            for (const uint32_t b : ended_by(s))
                growth_[s] -= left_[b] == 1 ? traffic_.bytes[b] : 0;
        }
    }

    void put(uint32_t s) {
        is_ready_[s] = true;
        ready_.emplace(place_[s], s);
        queue_if_free(s);
    }
    void shrink(uint32_t s, uint32_t buffer) {
        growth_[s] -= traffic_.bytes[buffer];
        queue_if_free(s);
    }
    void queue_if_free(uint32_t s) {
        if (is_ready_[s] && !is_free_[s] && growth_[s] <= 0) {
            is_free_[s] = true;
            free_.emplace(place_[s], s);
        }
    }

    /// Free steps first, those after which no more bytes are alive than before. A free step stays free: a
    /// buffer that is alive is not counted again for those that begin it, and the last step that ends a
    /// buffer stays the last.
    uint32_t take() {
        Queue &queue = free_.empty() ? ready_ : free_;
        const uint32_t s = queue.top().second;
        queue.pop();
        const bool first = is_ready_[s]; // it may stand in both queues
        is_ready_[s] = false;
        return first ? s : kNone;
    }

    void count_step(uint32_t s) {
        for (const uint32_t b : begun_by(s))
            if (!alive_[b]) {
                alive_[b] = true;
                for (uint32_t k = beginners_begin_[b]; k < beginners_begin_[b + 1]; ++k)
                    shrink(beginners_[k], b);
            }
        for (const uint32_t b : ended_by(s))
            if (--left_[b] == 1)
                for (uint32_t k = enders_begin_[b]; k < enders_begin_[b + 1]; ++k)
                    shrink(enders_[k], b);
    }

    const Traffic &traffic_;
    const bool backward_;
    const uint32_t n_;
    Edges edges_;
    std::vector<uint32_t> place_; // by step: in the order at hand, from where the walk begins
    std::vector<uint32_t> left_;  // by buffer: steps that have to end it
    std::vector<bool> alive_;     // by buffer: begun
    /// By step: bytes that are alive after it and were not before it, less those that are not any more.
    std::vector<int64_t> growth_;
    std::vector<bool> is_ready_, is_free_;
    std::vector<uint32_t> enders_begin_, enders_, beginners_begin_, beginners_;
    Queue ready_, free_;
};

} // namespace

Traffic::Traffic(size_t buffers)
    : bytes(buffers, 0), makers(buffers, 0), readers(buffers, 0), seen_made_(buffers, kNone),
      seen_read_(buffers, kNone) {}

void Traffic::begin_step() {
    made_begin_.push_back(static_cast<uint32_t>(made_.size()));
    read_begin_.push_back(static_cast<uint32_t>(read_.size()));
    scratch.push_back(0);
}

void Traffic::add_made(uint32_t buffer) {
    const auto step = static_cast<uint32_t>(scratch.size() - 1);
    if (bytes[buffer] == 0 || std::exchange(seen_made_[buffer], step) == step)
        return;
    made_.push_back(buffer);
    ++makers[buffer];
}

void Traffic::add_read(uint32_t buffer) {
    const auto step = static_cast<uint32_t>(scratch.size() - 1);
    if (bytes[buffer] == 0 || std::exchange(seen_read_[buffer], step) == step)
        return;
    read_.push_back(buffer);
    ++readers[buffer];
}

void Traffic::end() {
    made_begin_.push_back(static_cast<uint32_t>(made_.size()));
    read_begin_.push_back(static_cast<uint32_t>(read_.size()));
}

int64_t peak_of(const Traffic &traffic, std::span<const uint32_t> order) {
    std::vector<uint32_t> readers = traffic.readers;
    std::vector<bool> alive(traffic.bytes.size(), false);
    int64_t live = 0, peak = 0;
    for (const uint32_t s : order) {
        for (const uint32_t b : traffic.made_by(s))
            if (!alive[b]) {
                alive[b] = true;
                live += traffic.bytes[b];
            }
        peak = std::max(peak, live + traffic.scratch[s]);
        for (const uint32_t b : traffic.read_by(s))
            if (--readers[b] == 0)
                live -= traffic.bytes[b];
        for (const uint32_t b : traffic.made_by(s))
            if (readers[b] == 0) // nobody reads it
                live -= traffic.bytes[b];
    }
    return peak;
}

namespace {

std::vector<uint32_t> search_order(const Traffic &traffic, std::span<const StepEdge> edges,
                                   int64_t least_alive) {
    std::vector<uint32_t> recorded(traffic.steps());
    std::iota(recorded.begin(), recorded.end(), 0u);
    const int64_t before = peak_of(traffic, recorded);
    if (before < least_alive)
        return {};
    int64_t least = before - std::max<int64_t>(before / 64, 1);
    std::vector<uint32_t> best;
    const auto consider = [&](std::span<const uint32_t> from, bool backward) {
        std::vector<uint32_t> order = Walk(traffic, edges, from, backward).run();
        if (const int64_t peak = peak_of(traffic, order); peak <= least) {
            least = peak - 1;
            best = order;
        }
        return order;
    };
    consider(recorded, false);
    consider(consider(recorded, true), false);
    return best;
}

} // namespace

int64_t least_alive(const ir::DeviceInfo &device) {
    constexpr int64_t kMost = int64_t{48} << 20, kPart = 64;
    return device.memory_bytes > 0 ? std::min<int64_t>(kMost, device.memory_bytes / kPart) : kMost;
}

std::vector<uint32_t> find_order(const Traffic &traffic, std::span<const StepEdge> edges, int64_t least) {
    if (!kManySizes)
        return search_order(traffic, edges, least);
    struct Kept {
        Traffic traffic;
        std::vector<StepEdge> edges;
    };
    const auto kept = std::make_shared<const Kept>(Kept{traffic, {edges.begin(), edges.end()}});
    std::vector<int64_t> bytes = traffic.bytes;
    bytes.insert(bytes.end(), traffic.scratch.begin(), traffic.scratch.end());
    const std::vector<int64_t> found = found_again(bytes, [kept, least](const auto &given) {
        if (std::accumulate(given.begin(), given.end(), int64_t{0}) < least)
            return std::vector<int64_t>(); // nor is any peak as high
        Traffic now = kept->traffic;
        const auto scratch = given.begin() + static_cast<std::ptrdiff_t>(now.bytes.size());
        std::copy(given.begin(), scratch, now.bytes.begin());
        std::copy(scratch, given.end(), now.scratch.begin());
        const std::vector<uint32_t> order = search_order(now, kept->edges, least);
        return std::vector<int64_t>(order.begin(), order.end());
    });
    std::vector<uint32_t> order;
    for (const int64_t step : found)
        order.push_back(static_cast<uint32_t>(step));
    return order;
}

} // namespace lz::passes
