#include "runtime/virtual/clock.h"

#include <algorithm>
#include <cmath>

namespace lz::runtime {

namespace {

int key(ir::Device device) {
    return static_cast<int>(device.kind) * 256 + device.index;
}
int64_t key(ir::StreamRef stream) {
    return int64_t{key(stream.device)} * ir::kMaxStreams + stream.stream;
}
bool is_host(ir::StreamRef stream) {
    return stream.device == ir::kCpu && stream.stream == ir::kHostStream;
}

/// Nanoseconds.
int64_t duration(double seconds) {
    return std::llround(seconds * 1e9);
}
int64_t duration(int64_t amount, double rate) {
    return duration(static_cast<double>(amount) / rate);
}

} // namespace

// --- engines

int64_t VirtualClock::Timetable::gap(int64_t start, int64_t duration, int64_t part) const {
    auto next = std::ranges::upper_bound(busy_, start, {}, &Busy::end);
    for (; next != busy_.end() && next->begin < start + std::max<int64_t>(duration, 1); ++next)
        if (next->part + part > kWhole)
            start = next->end;
    return start;
}

/// The first entry that begins at `at` or later, when the one that spans `at` has been cut there.
size_t VirtualClock::Timetable::split(int64_t at) {
    auto next = std::ranges::upper_bound(busy_, at, {}, &Busy::end);
    if (next != busy_.end() && next->begin < at) {
        const Busy first{next->begin, at, next->part};
        next->begin = at;
        next = busy_.insert(next, first) + 1;
    }
    return static_cast<size_t>(next - busy_.begin());
}

void VirtualClock::Timetable::take(int64_t begin, int64_t end, int64_t part) {
    if (begin == end)
        return;
    const size_t first = split(begin), last = split(end);
    // What is there between the two moments is shared from now on; the rest is this one's alone.
    std::vector<Busy> now;
    int64_t at = begin;
    const auto add = [&](Busy busy) {
        if (busy.begin == busy.end)
            return;
        if (!now.empty() && now.back().end == busy.begin && now.back().part == busy.part)
            now.back().end = busy.end;
        else
            now.push_back(busy);
    };
    if (first > 0)
        now.push_back(busy_[first - 1]);
    for (size_t i = first; i < last; ++i) {
        add({at, busy_[i].begin, part});
        add({busy_[i].begin, busy_[i].end, busy_[i].part + part});
        at = busy_[i].end;
    }
    add({at, end, part});
    if (last < busy_.size())
        add(busy_[last]);
    const auto from = busy_.begin() + static_cast<ptrdiff_t>(first > 0 ? first - 1 : 0);
    const auto to = busy_.begin() + static_cast<ptrdiff_t>(std::min(last + 1, busy_.size()));
    const auto place = busy_.erase(from, to);
    busy_.insert(place, now.begin(), now.end());
}

void VirtualClock::Timetable::forget(int64_t before) {
    const auto past = std::ranges::upper_bound(busy_, before, {}, &Busy::end);
    busy_.erase(busy_.begin(), past);
}

// --- streams

VirtualClock::Stream &VirtualClock::at(ir::StreamRef stream) {
    Stream &found = streams_[key(stream)];
    if (found.ends.empty())
        found.ends.resize(Stream::kRemembered);
    return found;
}

VirtualClock::Engines &VirtualClock::engines(ir::Device device) {
    Engines &found = engines_[key(device)];
    for (Timetable *engine : {&found.compute, &found.in, &found.out, &found.peer_in, &found.peer_out})
        engine->forget(host_); // nothing is issued before the host's time
    return found;
}

int64_t VirtualClock::time_of(ir::StreamRef stream, uint64_t tick) const {
    if (is_host(stream))
        return host_;
    const auto found = streams_.find(key(stream));
    if (tick == 0 || found == streams_.end() || found->second.ticks == 0)
        return 0;
    // Of ticks longer ago than is remembered, the oldest that is: they are past for all practical purposes.
    const Stream &s = found->second;
    const uint64_t oldest = s.ticks < Stream::kRemembered ? 1 : s.ticks - Stream::kRemembered + 1;
    return s.ends[std::clamp(tick, oldest, s.ticks) % Stream::kRemembered];
}

TimeSpan VirtualClock::finish(Stream &stream, int64_t begin, int64_t duration) {
    stream.time = begin + duration;
    ++stream.ticks;
    stream.ends[stream.ticks % Stream::kRemembered] = stream.time;
    return {begin, stream.time};
}

// --- what is issued

TimeSpan VirtualClock::work(ir::StreamRef stream, int64_t bytes, int64_t flops) {
    const bool cpu = stream.device == ir::kCpu;
    int64_t takes = std::max(duration(bytes, cpu ? model_.host_bandwidth : model_.memory_bandwidth),
                             duration(flops, cpu ? model_.host_flops : model_.flops));
    if (is_host(stream)) {
        host_ += takes;
        return {host_ - takes, host_};
    }
    host_ += cpu ? 0 : duration(model_.submit_seconds);
    int64_t part = Timetable::kWhole;
    if (const int64_t wave = cpu ? 0 : duration(model_.wave_seconds); takes < wave) {
        part = std::max<int64_t>((takes * Timetable::kWhole + wave - 1) / wave, 1);
        takes = wave;
    }
    Timetable &engine = engines(stream.device).compute;
    Stream &s = at(stream);
    const int64_t issued = host_ + (cpu ? 0 : duration(model_.launch_seconds));
    const int64_t begin = engine.gap(std::max(s.time, issued), takes, part);
    engine.take(begin, begin + takes, part);
    return finish(s, begin, takes);
}

TimeSpan VirtualClock::copy(ir::StreamRef stream, Route route, size_t bytes, bool pageable, ir::Device peer) {
    const auto amount = static_cast<int64_t>(bytes);
    if (stream.device == ir::kCpu)
        return work(stream, 2 * amount, 0);
    if (route == Route::Inside)
        return work(stream, 2 * amount, 0);
    host_ += duration(model_.submit_seconds);
    Engines &mine = engines(stream.device);
    Timetable *first = route == Route::In ? &mine.in : route == Route::Out ? &mine.out : &mine.peer_out;
    Timetable *second = route == Route::Peer ? &engines(peer).peer_in : first;
    const double rate = route == Route::Peer ? model_.peer_bandwidth
                        : pageable           ? model_.pageable_bandwidth
                                             : model_.link_bandwidth;
    const int64_t takes = duration(amount, rate);
    Stream &s = at(stream);
    int64_t begin = std::max(s.time, host_ + duration(model_.copy_seconds));
    for (int64_t before = -1; before != begin;) { // both ends are free
        before = begin;
        begin = second->gap(first->gap(begin, takes), takes);
    }
    first->take(begin, begin + takes);
    if (second != first)
        second->take(begin, begin + takes);
    const TimeSpan span = finish(s, begin, takes);
    if (pageable)
        host_ = std::max(host_, span.end);
    return span;
}

void VirtualClock::wait(ir::StreamRef stream, ir::StreamRef of, uint64_t tick) {
    const int64_t until = time_of(of, tick);
    if (is_host(stream)) {
        host_ = std::max(host_, until);
        return;
    }
    Stream &s = at(stream);
    finish(s, std::max(s.time, until), 0);
}

int64_t VirtualClock::pass(ir::StreamRef stream) {
    if (is_host(stream))
        return host_;
    return finish(at(stream), now(stream), 0).end;
}

int64_t VirtualClock::now(ir::StreamRef stream) const {
    if (is_host(stream))
        return host_;
    const auto found = streams_.find(key(stream));
    return found == streams_.end() ? host_ : std::max(host_, found->second.time);
}

void VirtualClock::synchronize(ir::StreamRef of, uint64_t tick) {
    host_ = std::max(host_, time_of(of, tick));
}

} // namespace lz::runtime
