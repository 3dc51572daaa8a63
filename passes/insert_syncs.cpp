#include "passes/insert_syncs.h"

#include "passes/stream_clocks.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

class Inserter {
public:
    Inserter(std::span<const LoweredStep> steps, const Schedule &schedule, const Dependences &dependences)
        : steps_(steps), schedule_(schedule), dependences_(dependences),
          clocks_(schedule.streams.size(), steps.size()) {}

    Syncs take() {
        syncs_.event_after.assign(steps_.size(), kNone);
        for (uint32_t s = 0; s < steps_.size(); ++s) {
            // The latest first: what they waited for themselves needs no wait of its own.
            for (const Dependence &d : dependences_.of(s))
                wait(s, d.step, d.memory);
            if (is_wait_stream(steps_[s]))
                wait_stream(s);
            clocks_.add(schedule_.stream[s]);
        }
        return std::move(syncs_);
    }

private:
    void wait(uint32_t s, uint32_t before, bool memory) {
        if (clocks_.covers(schedule_.stream[s], before))
            return;
        uint32_t &event = syncs_.event_after[before];
        if (event == kNone)
            event = syncs_.num_events++;
        syncs_.waits.push_back({s, event, memory});
        clocks_.wait(schedule_.stream[s], before);
    }

    /// Everything that is on the other stream so far, of earlier runs too; on the default stream: all unnamed
    /// work, wherever it runs.
    void wait_stream(uint32_t s) {
        const auto &ints = steps_[s].ints;
        const StreamRef of{device_from_word(ints[0].constant), static_cast<int32_t>(ints[1].constant)};
        const StreamRef own{steps_[s].device, steps_[s].stream};
        if (of == own || of.device.kind == DeviceKind::Cpu)
            return;
        const bool unnamed = of.stream == kDefaultStream;
        for (int32_t number = of.stream; number < (unnamed ? kFirstUserStream : of.stream + 1); ++number)
            if (const StreamRef stream{of.device, number}; stream != own)
                wait_for_all_on(stream, s);
    }

    void wait_for_all_on(StreamRef stream, uint32_t s) {
        const auto found = std::ranges::find(schedule_.streams, stream);
        const auto number = static_cast<uint32_t>(found - schedule_.streams.begin());
        if (found != schedule_.streams.end() && clocks_.last(number) != UINT32_MAX)
            wait(s, clocks_.last(number), false);
        else
            wait_for_earlier_runs(stream, s);
    }

    /// This run has put nothing on the stream yet, so that one event says it for all who wait now or later.
    void wait_for_earlier_runs(StreamRef stream, uint32_t s) {
        auto earlier = std::ranges::find(earlier_, stream, &Earlier::stream);
        if (earlier == earlier_.end()) {
            syncs_.records.push_back({s, stream, syncs_.num_events});
            earlier = earlier_.insert(earlier, {stream, syncs_.num_events++, {}});
        }
        const uint32_t own = schedule_.stream[s];
        if (std::ranges::find(earlier->waited, own) == earlier->waited.end()) {
            syncs_.waits.push_back({s, earlier->event, false});
            earlier->waited.push_back(own);
        }
    }

    /// What earlier runs left on a stream, where somebody asked for it before this run used that.
    struct Earlier {
        StreamRef stream;
        uint32_t event;
        std::vector<uint32_t> waited; ///< streams of this run that wait for it
    };

    std::span<const LoweredStep> steps_;
    const Schedule &schedule_;
    const Dependences &dependences_;
    StreamClocks clocks_;
    std::vector<Earlier> earlier_;
    Syncs syncs_;
};

} // namespace

bool is_wait_stream(const LoweredStep &step) {
    return step.kind == StepKind::Library && step.symbol == kWaitStream;
}

Syncs insert_syncs(std::span<const LoweredStep> steps, const Schedule &schedule,
                   const Dependences &dependences) {
    return Inserter(steps, schedule, dependences).take();
}

} // namespace lz::passes
