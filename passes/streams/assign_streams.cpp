#include "passes/streams/assign_streams.h"

#include "passes/lower/lower_clusters.h"
#include "passes/streams/estimates.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <queue>

namespace lz::passes {

using namespace ir;

namespace {

/// Where steps run, and when by the estimates.
struct Schedule {
    std::vector<uint32_t> stream;   // by step: the Assigner's number of it
    std::vector<double> begin, end; // by step: seconds from the start; on one stream never decreasing

    double seconds() const { return end.empty() ? 0 : *std::ranges::max_element(end); }
};

/// The two devices of a copy.
struct Sides {
    Device from, to;
};

class Assigner {
public:
    Assigner(const Program &program, const Dependences &dependences, const Target &target)
        : program_(program), steps_(program.steps), dependences_(dependences), target_(target) {}

    Schedule find(Overlap overlap) {
        place_what_is_fixed();
        Schedule best = simulate(stream_);
        if (overlap == Overlap::Yes && overlap_is_possible())
            best = spread(std::move(best));
        return best;
    }

    StreamRef stream(uint32_t number) const { return streams_[number]; }

private:
    static bool on_gpu(Device device) { return device.kind == DeviceKind::Cuda; }

    Sides sides(const Step &step) const {
        if (step.kind != StepKind::Copy)
            return {step.device, step.device};
        return {program_.buffers[step.operands[0]].device, program_.buffers[step.operands[1]].device};
    }

    /// Whether streams of `who` can copy from and to memory of `whose`.
    bool addresses(Device who, Device whose) const {
        return !on_gpu(whose) || target_.may_access(who, whose);
    }

    void place_what_is_fixed() {
        costs_.reserve(steps_.size());
        issued_.reserve(steps_.size());
        double host_seconds = 0;
        for (uint32_t s = 0; s < steps_.size(); ++s) {
            const Step &step = steps_[s];
            const int32_t user = program_.draft.steps[s].user_stream;
            const Sides copy = sides(step);
            const StreamRef unnamed = place(step, user, copy);
            const bool named = user != kNoStream && on_gpu(unnamed.device) &&
                               unnamed.device == stream_owner(step, copy) &&
                               unnamed.stream != kCopyPeerStream;
            if (unnamed.stream == kNoStream && !named)
                free_.push_back(s);
            stream_.push_back(
                stream_id({unnamed.device, named ? user : std::max(unnamed.stream, kDefaultStream)}));
            const DeviceInfo &device = info_of(target_, unnamed.device);
            costs_.push_back(estimate(step, device, copy.from, copy.to));
            // The host issues the steps one after another.
            if (costs_.back().resource != Resource::None && on_gpu(unnamed.device))
                host_seconds += device.submit_seconds;
            issued_.push_back(host_seconds + (on_gpu(unnamed.device) ? device.launch_seconds : 0));
        }
    }

    /// The device of the stream that the user named for the step.
    static Device stream_owner(const Step &step, const Sides &copy) {
        return step.kind != StepKind::Copy ? step.device : on_gpu(copy.to) ? copy.to : copy.from;
    }

    /// The device whose stream runs the step, and which stream if the user named none: kNoStream where that
    /// is open.
    StreamRef place(const Step &step, int32_t user, const Sides &copy) const {
        if (copy.from != copy.to) {
            if (!on_gpu(copy.from))
                return {copy.to, kCopyInStream};
            if (!on_gpu(copy.to))
                return {copy.from, kCopyOutStream};
            if (user != kNoStream && addresses(copy.to, copy.from))
                return {copy.to, kDefaultStream};
            return {addresses(copy.from, copy.to) ? copy.from : copy.to, kCopyPeerStream};
        }
        const bool work = step.kind == StepKind::Launch || step.kind == StepKind::Copy ||
                          (step.kind == StepKind::Library && !is_wait_stream(step));
        return {step.device, work && on_gpu(step.device) ? kNoStream : kDefaultStream};
    }

    uint32_t stream_id(StreamRef stream) {
        const int64_t key = device_word(stream.device) * kMaxStreams + stream.stream;
        const auto [it, is_new] = stream_ids_.try_emplace(key, static_cast<uint32_t>(streams_.size()));
        if (is_new)
            streams_.push_back(stream);
        return it->second;
    }

    /// The steps that depend on each, in order; made once.
    void find_successors() {
        const size_t n = steps_.size();
        if (!first_successor_.empty())
            return;
        first_successor_.assign(n + 1, 0);
        for (uint32_t s = 0; s < n; ++s)
            for (const Dependence &d : dependences_.of(s))
                ++first_successor_[d.step + 1];
        for (size_t s = 0; s < n; ++s)
            first_successor_[s + 1] += first_successor_[s];
        std::vector<uint32_t> next(first_successor_.begin(), first_successor_.end() - 1);
        successors_.resize(first_successor_[n]);
        for (uint32_t s = 0; s < n; ++s)
            for (const Dependence &d : dependences_.of(s))
                successors_[next[d.step]++] = s;
    }
    std::span<const uint32_t> successors_of(uint32_t s) const {
        return std::span(successors_)
            .subspan(first_successor_[s], first_successor_[s + 1] - first_successor_[s]);
    }

    /// What a step loses by waiting for another stream.
    double sync_seconds(uint32_t s) const {
        return info_of(target_, streams_[stream_[s]].device).launch_seconds;
    }

    double ready(uint32_t s, uint32_t stream, const std::vector<uint32_t> &streams,
                 const std::vector<double> &end) const {
        double ready = issued_[s];
        for (const Dependence &d : dependences_.of(s))
            ready = std::max(ready, end[d.step] + (streams[d.step] == stream ? 0 : sync_seconds(s)));
        return ready;
    }

    /// Each stream does its steps one after another, and the engines of a device what comes to them first.
    Schedule simulate(const std::vector<uint32_t> &streams) {
        find_successors();
        const auto n = static_cast<uint32_t>(steps_.size());
        Schedule schedule{streams, std::vector<double>(n), std::vector<double>(n)};
        std::vector<uint32_t> next_on_stream(n, kNone), last(streams_.size(), kNone), missing(n);
        for (uint32_t s = 0; s < n; ++s) {
            missing[s] = static_cast<uint32_t>(dependences_.of(s).size());
            if (const uint32_t before = last[streams[s]]; before != kNone) {
                next_on_stream[before] = s;
                ++missing[s];
            }
            last[streams[s]] = s;
        }
        using Ready = std::pair<double, uint32_t>;
        std::priority_queue<Ready, std::vector<Ready>, std::greater<>> waiting;
        std::vector<double> free_at(streams_.size(), 0);
        const auto put = [&](uint32_t s) {
            waiting.emplace(std::max(free_at[streams[s]], ready(s, streams[s], streams, schedule.end)), s);
        };
        for (uint32_t s = 0; s < n; ++s)
            if (missing[s] == 0)
                put(s);
        EngineTimes engines;
        while (!waiting.empty()) {
            const auto [at, s] = waiting.top();
            waiting.pop();
            schedule.begin[s] = engines.begin(streams_[streams[s]].device, costs_[s], at);
            schedule.end[s] = free_at[streams[s]] = schedule.begin[s] + costs_[s].seconds;
            for (const uint32_t after : successors_of(s))
                if (--missing[after] == 0)
                    put(after);
            if (const uint32_t after = next_on_stream[s]; after != kNone && --missing[after] == 0)
                put(after);
        }
        return schedule;
    }

    /// Two steps whose stream is open that do not depend on each other, by a chain test that is cheap.
    bool overlap_is_possible() const {
        std::map<int64_t, std::pair<size_t, double>> work; // by device: steps, seconds
        for (const uint32_t s : free_) {
            auto &[count, seconds] = work[device_word(steps_[s].device)];
            ++count;
            seconds += costs_[s].seconds;
        }
        return std::ranges::any_of(work, [&](const auto &entry) {
            const DeviceInfo &device = info_of(target_, device_from_word(entry.first));
            return entry.second.first > 1 &&
                   entry.second.second > kWorthwhile.launches * device.launch_seconds;
        });
    }

    Schedule spread(Schedule best) {
        std::vector<uint32_t> streams = place_longest_first();
        Schedule schedule = simulate(streams);
        std::vector<uint32_t> in_order = place_in_order();
        if (Schedule other = simulate(in_order); other.seconds() <= schedule.seconds()) {
            schedule = std::move(other);
            streams = std::move(in_order);
        }
        if (!is_worth(schedule, best))
            return best;
        // A device that gains nothing of its own stays on one stream.
        std::vector<int64_t> devices;
        for (const uint32_t s : free_)
            if (const int64_t d = device_word(steps_[s].device);
                streams[s] != stream_[s] && std::ranges::find(devices, d) == devices.end())
                devices.push_back(d);
        if (devices.size() > 1)
            for (const int64_t d : devices) {
                std::vector<uint32_t> fewer = streams;
                for (const uint32_t s : free_)
                    if (device_word(steps_[s].device) == d)
                        fewer[s] = stream_[s];
                Schedule other = simulate(fewer);
                if (!is_worth(schedule, other)) {
                    schedule = std::move(other);
                    streams = std::move(fewer);
                }
            }
        return schedule;
    }

    bool is_worth(const Schedule &many, const Schedule &few) const {
        const double gain = few.seconds() - many.seconds();
        double launch = 0, work = 0;
        for (const uint32_t s : free_) {
            launch = std::max(launch, sync_seconds(s));
            work += costs_[s].seconds;
        }
        return gain > kWorthwhile.part * work && gain > kWorthwhile.launches * launch;
    }

    /// Streams for what is free, as they are found.
    struct Placing {
        std::vector<uint32_t> stream; // by step
        std::vector<double> end;
        std::vector<double> free_at; // by stream
    };
    Placing nothing_placed() {
        choices_.assign(steps_.size(), kNone);
        for (const uint32_t s : free_)
            choices_[s] = compute_streams(steps_[s].device);
        return {stream_, std::vector<double>(steps_.size(), 0), std::vector<double>(streams_.size(), 0)};
    }

    /// Puts a step where it can begin first.
    void place(uint32_t s, Placing &p) const {
        const auto begin_on = [&](uint32_t stream) {
            return std::max(p.free_at[stream], ready(s, stream, p.stream, p.end));
        };
        double begin = begin_on(p.stream[s]);
        if (choices_[s] != kNone)
            for (const uint32_t stream : compute_[choices_[s]])
                if (const double other = begin_on(stream); other < begin) {
                    begin = other;
                    p.stream[s] = stream;
                }
        p.free_at[p.stream[s]] = p.end[s] = begin + costs_[s].seconds;
    }

    /// In the order of the steps, which is that of each stream.
    std::vector<uint32_t> place_in_order() {
        Placing placing = nothing_placed();
        for (uint32_t s = 0; s < steps_.size(); ++s)
            place(s, placing);
        return std::move(placing.stream);
    }

    /// Of the steps whose dependences are placed, the one with the longest way to the end is next, and then
    /// the longest way on from there, as far as it waits for nothing else.
    std::vector<uint32_t> place_longest_first() {
        const size_t n = steps_.size();
        std::vector<double> way(n);
        std::vector<uint32_t> missing(n);
        for (uint32_t s = static_cast<uint32_t>(n); s-- > 0;) {
            way[s] += costs_[s].seconds;
            for (const Dependence &d : dependences_.of(s))
                way[d.step] = std::max(way[d.step], way[s]);
            missing[s] = static_cast<uint32_t>(dependences_.of(s).size());
        }
        std::priority_queue<std::pair<double, uint32_t>> waiting; // way, step counted from the end
        const auto put = [&](uint32_t s) { waiting.emplace(way[s], static_cast<uint32_t>(n) - s); };
        for (uint32_t s = 0; s < n; ++s)
            if (missing[s] == 0)
                put(s);

        Placing placing = nothing_placed();
        while (!waiting.empty()) {
            uint32_t s = static_cast<uint32_t>(n) - waiting.top().second;
            waiting.pop();
            while (s != kNone) {
                place(s, placing);
                uint32_t longest = kNone;
                for (uint32_t open : successors_of(s)) {
                    if (--missing[open] != 0)
                        continue;
                    if (longest == kNone || way[open] > way[longest])
                        std::swap(open, longest);
                    if (open != kNone)
                        put(open);
                }
                s = longest;
            }
        }
        return std::move(placing.stream);
    }

    /// Which entry of `compute_` holds the device's streams.
    uint32_t compute_streams(Device device) {
        const int64_t key = device_word(device);
        const auto [it, is_new] = compute_ids_.try_emplace(key, static_cast<uint32_t>(compute_.size()));
        if (is_new) {
            std::array<uint32_t, kComputeStreams> ids{};
            for (int32_t k = 0; k < kComputeStreams; ++k)
                ids[static_cast<size_t>(k)] = stream_id({device, k});
            compute_.push_back(ids);
        }
        return it->second;
    }

    const Program &program_;
    const std::vector<Step> &steps_;
    const Dependences &dependences_;
    const Target &target_;
    std::vector<StreamRef> streams_;
    std::map<int64_t, uint32_t> stream_ids_, compute_ids_;
    std::vector<std::array<uint32_t, kComputeStreams>> compute_;
    std::vector<uint32_t> stream_;  // by step: where it is, or would be on one compute stream
    std::vector<uint32_t> free_;    // steps whose stream is open
    std::vector<uint32_t> choices_; // by step: entry of `compute_`, or kNone
    std::vector<StepCost> costs_;   // by step
    std::vector<double> issued_;    // by step: when it can begin, as far as the host is concerned
    std::vector<uint32_t> first_successor_, successors_;
};

} // namespace

void assign_streams(Program &program, const Dependences &dependences, const Target &target, Overlap overlap) {
    Assigner assigner(program, dependences, target);
    const Schedule schedule = assigner.find(overlap);
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
        const StreamRef stream = assigner.stream(schedule.stream[s]);
        program.steps[s].device = stream.device;
        program.steps[s].stream = stream.stream;
        program.draft.steps[s].begin = schedule.begin[s];
        program.draft.steps[s].end = schedule.end[s];
    }
    program.stage = Stage::Streamed;
}

} // namespace lz::passes
