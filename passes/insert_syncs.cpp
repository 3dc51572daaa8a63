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
    /// work.
    void wait_stream(uint32_t s) {
        const auto &ints = steps_[s].ints;
        const StreamRef of{device_from_word(ints[0].constant), static_cast<int32_t>(ints[1].constant)};
        const StreamRef own{steps_[s].device, steps_[s].stream};
        if (of == own || of.device.kind == DeviceKind::Cpu)
            return;
        bool used = false;
        for (uint32_t k = 0; k < schedule_.streams.size(); ++k) {
            const StreamRef stream = schedule_.streams[k];
            const bool unnamed =
                of.stream == kDefaultStream && stream.device == of.device && stream.stream < kFirstUserStream;
            const uint32_t last = clocks_.last(k);
            if ((stream != of && !unnamed) || stream == own || last == UINT32_MAX)
                continue;
            wait(s, last, false);
            used = used || stream == of;
        }
        if (used)
            return;
        syncs_.records.push_back({s, of, syncs_.num_events});
        syncs_.waits.push_back({s, syncs_.num_events++, false});
    }

    std::span<const LoweredStep> steps_;
    const Schedule &schedule_;
    const Dependences &dependences_;
    StreamClocks clocks_;
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
