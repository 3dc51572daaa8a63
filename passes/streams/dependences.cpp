#include "passes/streams/dependences.h"

#include "passes/memory/plan_memory.h"
#include "passes/streams/assign_streams.h"
#include "passes/streams/insert_syncs.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

/// The last steps that did something, one a stream.
using Latest = std::vector<std::pair<uint32_t, uint32_t>>; // stream, step

void note(Latest &latest, uint32_t stream, uint32_t step) {
    for (auto &[s, last] : latest)
        if (s == stream) {
            last = step;
            return;
        }
    latest.emplace_back(stream, step);
}

} // namespace

class DependenceFinder {
public:
    DependenceFinder(const Graph &graph, std::span<const LoweredStep> steps, size_t places)
        : graph_(graph), steps_(steps), places_(places), step_of_(graph.nodes().size(), kNone) {
        result_.begin_.reserve(steps.size() + 1);
    }

    /// `visit(step, finder)` calls read, write and touched; `stream_of(step)` groups steps that are ordered
    /// anyway.
    template <class F, class G>
    Dependences take(F &&visit, G &&stream_of) {
        for (uint32_t s = 0; s < steps_.size(); ++s) {
            now_ = s;
            stream_ = stream_of(s);
            edges_.clear();
            visit(s, *this);
            for (const NodeId n : steps_[s].nodes) {
                for (const NodeId before : graph_.order(graph_.node(n)))
                    if (step_of_[before] != kNone)
                        after(step_of_[before], false);
                step_of_[n] = s;
            }
            finish();
        }
        return std::move(result_);
    }

    void read(uint32_t place) {
        for (const auto &[stream, step] : places_[place].writers)
            after(step, false);
        if (!is_wait_stream(steps_[now_])) // it waits for the contents, and has no use for the bytes
            note(places_[place].readers, stream_, now_);
    }
    void write(uint32_t place) {
        Place &p = places_[place];
        if (!p.readers.empty()) { // another generation of contents
            touched(place, false);
            p.writers.clear();
            p.readers.clear();
        }
        note(p.writers, stream_, now_);
    }
    /// Comes after all that touched the place: its contents or its bytes go.
    void touched(uint32_t place, bool memory) {
        for (const auto &[stream, step] : places_[place].writers)
            after(step, memory);
        for (const auto &[stream, step] : places_[place].readers)
            after(step, memory);
    }
    bool being_written(uint32_t place) const { return places_[place].readers.empty(); }

private:
    struct Place {
        Latest writers, readers; // of the contents at hand
    };

    void after(uint32_t step, bool memory) {
        if (step != now_)
            edges_.push_back({step, memory});
    }

    void finish() {
        std::ranges::sort(edges_, [](const Dependence &a, const Dependence &b) {
            return a.step != b.step ? a.step > b.step : a.memory < b.memory;
        });
        const auto more = std::ranges::unique(edges_, {}, &Dependence::step);
        result_.edges_.insert(result_.edges_.end(), edges_.begin(), more.begin());
        result_.begin_.push_back(static_cast<uint32_t>(result_.edges_.size()));
    }

    const Graph &graph_;
    std::span<const LoweredStep> steps_;
    std::vector<Place> places_;
    std::vector<uint32_t> step_of_; // by node, so far
    std::vector<Dependence> edges_; // of the step at hand
    uint32_t now_ = 0, stream_ = 0;
    Dependences result_;
};

Dependences find_dependences(const Graph &graph, std::span<const LoweredStep> steps) {
    const auto values = static_cast<uint32_t>(graph.values().size());
    uint32_t places = values;
    for (const LoweredStep &step : steps)
        for (const LoweredBuffer &b : step.operands)
            if (b.staging != kNone)
                places = std::max(places, values + b.staging + 1);
    const auto place = [&](const LoweredBuffer &b) {
        return b.staging != kNone ? values + b.staging : b.value;
    };
    return DependenceFinder(graph, steps, places)
        .take(
            [&](uint32_t s, DependenceFinder &to) {
                for_operands(steps[s], [&](const LoweredBuffer &b) {
                    if (b.mode == BufferMode::In)
                        to.read(place(b));
                    if (b.mode == BufferMode::InOut && b.replaces != kNone) {
                        to.read(b.replaces);
                        to.touched(b.replaces, false);
                    }
                });
                for_operands(steps[s], [&](const LoweredBuffer &b) {
                    if (b.mode == BufferMode::Out || b.mode == BufferMode::InOut)
                        to.write(place(b));
                });
            },
            [](uint32_t s) { return s; });
}

Dependences find_dependences(const Graph &graph, std::span<const LoweredStep> steps, const MemoryPlan &plan,
                             const Schedule &schedule) {
    // Who had the bytes of each buffer before.
    std::vector<uint32_t> first(plan.buffers.size() + 1, 0), before(plan.reuses.size());
    for (const Reuse &reuse : plan.reuses)
        ++first[reuse.after + 1];
    for (size_t b = 0; b < plan.buffers.size(); ++b)
        first[b + 1] += first[b];
    std::vector<uint32_t> next(first.begin(), first.end() - 1);
    for (const Reuse &reuse : plan.reuses)
        before[next[reuse.after]++] = reuse.before;

    const auto for_buffers = [&](uint32_t s, auto &&f) {
        uint32_t k = plan.step_begin[s];
        for_operands(steps[s], [&](const LoweredBuffer &b) {
            const uint32_t buffer = plan.operands[k++];
            if (buffer != kNone && plan.buffers[buffer].bytes > 0)
                f(b.mode, buffer);
        });
    };
    return DependenceFinder(graph, steps, plan.buffers.size())
        .take(
            [&](uint32_t s, DependenceFinder &to) {
                for_buffers(s, [&](BufferMode mode, uint32_t buffer) {
                    if (mode == BufferMode::In)
                        to.read(buffer);
                    if (mode == BufferMode::InOut) {
                        const uint32_t old = plan.continues[buffer];
                        to.read(old != kNone ? old : buffer);
                        to.touched(old != kNone ? old : buffer, false);
                    }
                });
                for_buffers(s, [&](BufferMode mode, uint32_t buffer) {
                    if (mode == BufferMode::In)
                        return;
                    if (to.being_written(buffer))
                        for (uint32_t r = first[buffer]; r < first[buffer + 1]; ++r)
                            to.touched(before[r], true);
                    to.write(buffer);
                });
            },
            [&](uint32_t s) { return schedule.stream[s]; });
}

} // namespace lz::passes
