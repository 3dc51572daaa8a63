#include "passes/streams/dependences.h"

#include "passes/lower/lower_clusters.h"

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
    explicit DependenceFinder(const Program &program) : program_(program), places_(program.buffers.size()) {
        result_.begin_.reserve(program.steps.size() + 1);
        find_owners_before();
    }

    /// `stream_of(step)` groups steps that are ordered anyway.
    template <class F>
    Dependences take(F &&stream_of) {
        for (uint32_t s = 0; s < program_.steps.size(); ++s) {
            now_ = s;
            stream_ = stream_of(s);
            edges_.clear();
            visit();
            for (const uint32_t before : program_.draft.steps[s].after)
                after(before, false);
            finish();
        }
        return std::move(result_);
    }

private:
    struct Place {
        Latest writers, readers; // of the contents at hand
    };

    /// Who had the bytes of each buffer before.
    void find_owners_before() {
        const std::vector<Reuse> &reuses = program_.draft.reuses;
        first_before_.assign(program_.buffers.size() + 1, 0);
        before_.resize(reuses.size());
        for (const Reuse &reuse : reuses)
            ++first_before_[reuse.after + 1];
        for (size_t b = 0; b < program_.buffers.size(); ++b)
            first_before_[b + 1] += first_before_[b];
        std::vector<uint32_t> next(first_before_.begin(), first_before_.end() - 1);
        for (const Reuse &reuse : reuses)
            before_[next[reuse.after]++] = reuse.before;
    }

    void visit() {
        const auto for_buffers = [&](auto &&f) {
            for_operands(program_, now_, [&](BufferMode mode, uint32_t buffer) {
                if (program_.buffers[buffer].bytes > 0)
                    f(mode, buffer);
            });
        };
        for_buffers([&](BufferMode mode, uint32_t buffer) {
            const uint32_t from = read_buffer(program_, mode, buffer);
            if (from != kNone)
                read(from);
            if (mode == BufferMode::InOut)
                touched(from, false);
        });
        for_buffers([&](BufferMode mode, uint32_t buffer) {
            if (mode == BufferMode::In)
                return;
            if (being_written(buffer))
                for (uint32_t k = first_before_[buffer]; k < first_before_[buffer + 1]; ++k)
                    touched(before_[k], true);
            write(buffer);
        });
    }

    void read(uint32_t place) {
        for (const auto &[stream, step] : places_[place].writers)
            after(step, false);
        if (!is_wait_stream(program_.steps[now_])) // it waits for the contents, and has no use for the bytes
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

    const Program &program_;
    std::vector<Place> places_; // by buffer
    std::vector<uint32_t> before_, first_before_;
    std::vector<Dependence> edges_; // of the step at hand
    uint32_t now_ = 0, stream_ = 0;
    Dependences result_;
};

StreamNumbers::StreamNumbers(const Program &program) {
    of.reserve(program.steps.size());
    for (const Step &step : program.steps) {
        const StreamRef stream{step.device, step.stream};
        const auto known = std::ranges::find(streams, stream);
        of.push_back(static_cast<uint32_t>(known - streams.begin()));
        if (known == streams.end())
            streams.push_back(stream);
    }
}

Dependences find_dependences(const Program &program) {
    return DependenceFinder(program).take([](uint32_t s) { return s; });
}

Dependences find_dependences(const Program &program, const StreamNumbers &streams) {
    return DependenceFinder(program).take([&](uint32_t s) { return streams.of[s]; });
}

} // namespace lz::passes
