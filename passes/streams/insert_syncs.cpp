#include "passes/streams/insert_syncs.h"

#include "passes/streams/stream_clocks.h"

#include <algorithm>
#include <ranges>

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
        auto copy = schedule_.peer_copies.begin();
        for (uint32_t s = 0; s < steps_.size(); ++s) {
            // The latest first: what they waited for themselves needs no wait of its own.
            for (const Dependence &d : dependences_.of(s))
                wait(s, d.step, d.memory);
            const bool is_peer_copy = copy != schedule_.peer_copies.end() && copy->step == s;
            if (is_peer_copy && copy->user != kNoStream)
                wait_for_all_on({copy->other, copy->user}, s);
            if (is_wait_stream(steps_[s]))
                wait_stream(s);
            else if (is_effect_on_default_stream(s) && steps_[s].kind != StepKind::WaitEvent)
                wait_for_unnamed_work_of(steps_[s].device, s);
            clocks_.add(schedule_.stream[s]);
            if (is_effect_on_default_stream(s) && steps_[s].kind != StepKind::RecordEvent)
                hold_back_unnamed_work(s);
            if (is_peer_copy && copy->user != kNoStream)
                hold({copy->other, copy->user}, s);
            else if (is_peer_copy)
                note_peer_copy(*copy);
            if (is_peer_copy)
                ++copy;
        }
        leave_peer_copies_to_later_runs();
        return std::move(syncs_);
    }

private:
    StreamRef own(uint32_t s) const { return {steps_[s].device, steps_[s].stream}; }
    /// Its number in the schedule, or kNone.
    uint32_t find(StreamRef stream) const {
        const auto found = std::ranges::find(schedule_.streams, stream);
        return found == schedule_.streams.end() ? kNone
                                                : static_cast<uint32_t>(found - schedule_.streams.begin());
    }

    uint32_t event_after(uint32_t s) {
        uint32_t &event = syncs_.event_after[s];
        if (event == kNone)
            event = syncs_.num_events++;
        return event;
    }

    void wait(uint32_t s, uint32_t before, bool memory) {
        if (clocks_.covers(schedule_.stream[s], before))
            return;
        syncs_.waits.push_back({s, event_after(before), memory});
        clocks_.wait(schedule_.stream[s], before);
    }

    /// Everything that is on the other stream so far, of earlier runs too.
    void wait_stream(uint32_t s) {
        const auto &ints = steps_[s].ints;
        const StreamRef of{device_from_word(ints[0].constant), static_cast<int32_t>(ints[1].constant)};
        if (of == own(s) || of.device.kind == DeviceKind::Cpu)
            return;
        if (of.stream == kDefaultStream)
            wait_for_unnamed_work_of(of.device, s);
        else
            wait_for_all_on(of, s);
    }

    bool is_effect_on_default_stream(uint32_t s) const {
        const StepKind kind = steps_[s].kind;
        return steps_[s].device.kind != DeviceKind::Cpu && steps_[s].stream == kDefaultStream &&
               (kind == StepKind::RecordEvent || kind == StepKind::WaitEvent ||
                kind == StepKind::HostCallback || is_wait_stream(steps_[s]));
    }

    void note_peer_copy(const PeerCopy &copy) {
        const auto earlier = std::ranges::find_if(peers_, [&](const PeerCopy &c) {
            return c.other == copy.other && schedule_.stream[c.step] == schedule_.stream[copy.step];
        });
        if (earlier == peers_.end())
            peers_.push_back(copy);
        else
            *earlier = copy;
    }

    /// Nothing has to be done where unnamed work of the other device waits for the copy anyway.
    void leave_peer_copies_to_later_runs() {
        for (const PeerCopy &copy : peers_) {
            const auto waits = [&](int32_t number) {
                const uint32_t stream = find({copy.other, number});
                return stream != kNone && clocks_.covers(stream, copy.step);
            };
            if (std::ranges::none_of(std::views::iota(kDefaultStream, kFirstUserStream), waits))
                syncs_.holds.push_back({static_cast<uint32_t>(steps_.size() - 1),
                                        {copy.other, kPeersCopyStream},
                                        event_after(copy.step)});
        }
    }

    void wait_for_unnamed_work_of(Device device, uint32_t s) {
        for (const PeerCopy &copy : peers_)
            if (copy.other == device)
                wait(s, copy.step, false);
        for (int32_t number = kDefaultStream; number < kFirstUserStream; ++number)
            if (const StreamRef stream{device, number}; stream != own(s))
                wait_for_all_on(stream, s);
    }

    void hold_back_unnamed_work(uint32_t s) {
        for (int32_t number = kDefaultStream + 1; number < kFirstUserStream; ++number)
            hold({steps_[s].device, number}, s);
    }

    /// The stream goes on after the step, which was added.
    void hold(StreamRef stream, uint32_t s) {
        syncs_.holds.push_back({s, stream, event_after(s)});
        if (const uint32_t k = find(stream); k != kNone)
            clocks_.wait(k, s);
    }

    void wait_for_all_on(StreamRef stream, uint32_t s) {
        const uint32_t number = find(stream);
        if (number != kNone && clocks_.last(number) != UINT32_MAX)
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
    std::vector<PeerCopy> peers_; ///< the last ones so far, one for each stream and other device
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
