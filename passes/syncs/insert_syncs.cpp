#include "passes/syncs/insert_syncs.h"

#include "passes/lower/lower_clusters.h"
#include "passes/streams/dependences.h"
#include "passes/syncs/stream_clocks.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

/// A copy between two GPUs on a stream of ours, of the one that makes it: the work of both.
struct PeerCopy {
    uint32_t step;
    Device other; // the one of the two that does not make the copy
    /// The user's stream of `other` that the copy was recorded on, where that GPU may not address the one
    /// that is read; else kNoStream.
    int32_t user;
};

/// The Program's own events, around its steps.
struct Syncs {
    struct Wait {
        uint32_t before_step, event;
        bool memory; // only for bytes that are used again
    };
    /// An event on a stream that nothing in the Program has used so far.
    struct Record {
        uint32_t before_step;
        StreamRef stream;
        uint32_t event;
    };
    /// A stream that goes on after a step of another one.
    struct Hold {
        uint32_t after_step;
        StreamRef stream;
        uint32_t event; // event_after of the step
    };
    std::vector<uint32_t> event_after; // by step: recorded right behind it on its stream, or kNone
    std::vector<Wait> waits;           // in the order of the steps, on their streams
    std::vector<Record> records;       // in the order of the steps
    std::vector<Hold> holds;           // in the order of the steps, behind the records of their events
    uint32_t num_events = 0;
};

class Inserter {
public:
    Inserter(const Program &program, const StreamNumbers &streams, const Dependences &dependences)
        : program_(program), steps_(program.steps), streams_(streams), dependences_(dependences),
          clocks_(streams.streams.size(), program.steps.size()) {}

    Syncs take() {
        syncs_.event_after.assign(steps_.size(), kNone);
        for (uint32_t s = 0; s < steps_.size(); ++s) {
            // The latest first: what they waited for themselves needs no wait of its own.
            for (const Dependence &d : dependences_.of(s))
                wait(s, d.step, d.memory);
            const std::optional<PeerCopy> copy = peer_copy(s);
            if (copy && copy->user != kNoStream)
                wait_for_all_on({copy->other, copy->user}, s);
            if (is_wait_stream(steps_[s]))
                wait_stream(s);
            else if (is_effect_on_default_stream(s) && steps_[s].kind != StepKind::WaitEvent)
                wait_for_unnamed_work_of(steps_[s].device, s);
            clocks_.add(streams_.of[s]);
            if (is_effect_on_default_stream(s) && steps_[s].kind != StepKind::RecordEvent)
                hold_back_unnamed_work(s);
            if (copy && copy->user != kNoStream)
                hold({copy->other, copy->user}, s);
            else if (copy)
                note_peer_copy(*copy);
        }
        leave_peer_copies_to_later_runs();
        return std::move(syncs_);
    }

private:
    StreamRef own(uint32_t s) const { return {steps_[s].device, steps_[s].stream}; }
    /// Its number, or kNone.
    uint32_t find(StreamRef stream) const {
        const auto found = std::ranges::find(streams_.streams, stream);
        return found == streams_.streams.end() ? kNone
                                               : static_cast<uint32_t>(found - streams_.streams.begin());
    }

    std::optional<PeerCopy> peer_copy(uint32_t s) const {
        const Step &step = steps_[s];
        if (step.kind != StepKind::Copy || step.device == kCpu || step.stream != kCopyPeerStream)
            return std::nullopt;
        const Device from = program_.buffers[step.operands[0]].device,
                     to = program_.buffers[step.operands[1]].device;
        if (from == to)
            return std::nullopt;
        return PeerCopy{s, step.device == from ? to : from, program_.draft.steps[s].user_stream};
    }

    uint32_t event_after(uint32_t s) {
        uint32_t &event = syncs_.event_after[s];
        if (event == kNone)
            event = syncs_.num_events++;
        return event;
    }

    void wait(uint32_t s, uint32_t before, bool memory) {
        if (clocks_.covers(streams_.of[s], before))
            return;
        syncs_.waits.push_back({s, event_after(before), memory});
        clocks_.wait(streams_.of[s], before);
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
            return c.other == copy.other && streams_.of[c.step] == streams_.of[copy.step];
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
        const uint32_t own = streams_.of[s];
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

    const Program &program_;
    const std::vector<Step> &steps_;
    const StreamNumbers &streams_;
    const Dependences &dependences_;
    StreamClocks clocks_;
    std::vector<Earlier> earlier_;
    std::vector<PeerCopy> peers_; ///< the last ones so far, one for each stream and other device
    Syncs syncs_;
};

/// Puts the events among the steps.
class Merge {
public:
    explicit Merge(Program &program) : program_(program) {}

    void run(const Syncs &syncs) {
        std::vector<Step> steps = std::exchange(program_.steps, {});
        std::vector<StepDraft> drafts = std::exchange(program_.draft.steps, {});
        const size_t all = steps.size() + syncs.waits.size() + syncs.num_events + syncs.holds.size();
        program_.steps.reserve(all);
        program_.draft.steps.reserve(all);
        program_.num_events = syncs.num_events;
        auto record = syncs.records.begin();
        auto wait = syncs.waits.begin();
        auto hold = syncs.holds.begin();
        for (uint32_t s = 0; s < steps.size(); ++s) {
            const StreamRef stream{steps[s].device, steps[s].stream};
            for (; record != syncs.records.end() && record->before_step == s; ++record)
                add(StepKind::RecordEvent, record->stream, record->event);
            for (; wait != syncs.waits.end() && wait->before_step == s; ++wait) {
                add(StepKind::WaitEvent, stream, wait->event);
                program_.draft.steps.back().for_memory = wait->memory;
            }
            program_.steps.push_back(std::move(steps[s]));
            program_.draft.steps.push_back(std::move(drafts[s]));
            if (syncs.event_after[s] != kNone)
                add(StepKind::RecordEvent, stream, syncs.event_after[s]);
            for (; hold != syncs.holds.end() && hold->after_step == s; ++hold)
                add(StepKind::WaitEvent, hold->stream, hold->event);
        }
    }

private:
    void add(StepKind kind, StreamRef stream, uint32_t event) {
        Step &step = program_.steps.emplace_back();
        step.kind = kind;
        step.device = stream.device;
        step.stream = stream.stream;
        step.event = event;
        program_.draft.steps.emplace_back();
    }

    Program &program_;
};

} // namespace

void insert_syncs(Program &program) {
    const StreamNumbers streams(program);
    const Syncs syncs = Inserter(program, streams, find_dependences(program, streams)).take();
    if (syncs.num_events > 0)
        Merge(program).run(syncs);
    for (StepDraft &draft : program.draft.steps)
        draft.after.clear();
    program.stage = Stage::Ordered;
}

} // namespace lz::passes
