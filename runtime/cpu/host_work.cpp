#include "runtime/cpu/host_work.h"

#include "ir/diagnostic.h"
#include "ir/program/program.h"
#include "runtime/api/parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>

namespace lz::runtime {

namespace {

/// Units of Step::cost. Handing a range to a thread that is awake costs about as much as this.
constexpr int64_t kRangeCost = 64 << 10;
/// What launches with scratch do in a nanosecond.
constexpr int64_t kProductCost = ir::kProductRate * ir::kCostOfNanosecond;
/// Bytes that a core's own caches do not hold, and how many of them it has in a nanosecond, on a fast
/// machine.
constexpr int64_t kUncachedBytes = 2 << 20, kUncachedRate = 60;
/// A copy of this many bytes is shared between threads.
constexpr size_t kCopyRange = size_t{1} << 20;

/// Where the `round`th of `rounds` equal parts of so many items begins.
int64_t part_of(int64_t items, int64_t round, int64_t rounds) {
    return items / rounds * round + std::min(items % rounds, round);
}

/// Runs launch items [begin, end): the parts of the segments they fall into, each with its own numbering.
void run_items(const Backend::Launch &launch, int64_t begin, int64_t end) {
    auto entry = reinterpret_cast<ir::PhaseEntry>(launch.entry);
    void *worker = launch.worker_bytes ? thread_scratch(launch.worker_bytes) : nullptr;
    if (launch.segments == 1) {
        entry(launch.frames, begin, end, worker);
        return;
    }
    const int64_t *ends = launch.ends;
    const auto first_of = [&](size_t s) { return s ? ends[s - 1] : 0; };
    if (launch.rounds > 1) { // [begin, end) counts turns
        for (int64_t turn = begin; turn < end; ++turn) {
            const auto s = static_cast<size_t>(turn % launch.segments);
            const int64_t round = turn / launch.segments, items = ends[s] - first_of(s);
            const int64_t from = part_of(items, round, launch.rounds);
            const int64_t to = part_of(items, round + 1, launch.rounds);
            if (from < to)
                entry(&launch.frames[s], from, to, worker);
        }
        return;
    }
    auto s = static_cast<size_t>(std::upper_bound(ends, ends + launch.segments, begin) - ends);
    for (; begin < end; ++s) {
        int64_t first = first_of(s);
        int64_t last = std::min(end, ends[s]);
        if (begin < last)
            entry(&launch.frames[s], begin - first, last - first, worker);
        begin = last;
    }
}

/// Ranges of a launch whose thread of the pool got no scratch. They are done by the thread that launched,
/// which had its own before anything was written: a launch with scratch is done as a whole or not at all.
class LeftOver {
public:
    /// As many as it takes; a launch has no more.
    static constexpr int64_t kRanges = 256;

    /// Whether the range is done here: the calling thread has scratch.
    bool takes(const Backend::Launch &launch, int64_t begin, int64_t end) {
        if (launch.worker_bytes == 0)
            return false;
        try {
            thread_scratch(launch.worker_bytes);
            return false;
        } catch (const ir::Failure &) {
            ranges_[count_.fetch_add(1, std::memory_order_relaxed)] = {begin, end};
            return true;
        }
    }
    void run(const Backend::Launch &launch) {
        for (size_t i = 0; i < count_.load(std::memory_order_relaxed); ++i)
            run_items(launch, ranges_[i].begin, ranges_[i].end);
    }

private:
    struct Range {
        int64_t begin, end;
    };
    std::array<Range, kRanges> ranges_;
    std::atomic<size_t> count_{0};
};

/// Runs `work`; when memory for scratch is missing, the fault says so and not the device.
template <class F>
void run_or_fault(ir::Fault *fault, F work) {
    auto out_of_memory = [fault] {
        // Whatever else was found: not all has run.
        fault->code.store(static_cast<int32_t>(ir::FaultCode::OutOfMemory), std::memory_order_release);
    };
    try {
        work();
    } catch (const std::bad_alloc &) {
        if (!fault)
            throw;
        out_of_memory();
    } catch (const ir::Failure &failure) {
        if (!fault || failure.kind() != ir::ErrorKind::OutOfMemory)
            throw;
        out_of_memory();
    }
}

/// About how many nanoseconds one thread takes.
int64_t nanoseconds_of(const Backend::Launch &launch) {
    const int64_t computing = launch.cost / (launch.worker_bytes ? kProductCost : ir::kCostOfNanosecond);
    return launch.bytes < kUncachedBytes ? computing : std::max(computing, launch.bytes / kUncachedRate);
}

/// Hands out consecutive arrays of 8-byte elements.
class Packer {
public:
    explicit Packer(void *at) : at_(static_cast<std::byte *>(at)) {}
    template <class T>
    T *take(size_t count) {
        static_assert(alignof(T) <= 8 && sizeof(T) % 8 == 0);
        T *array = reinterpret_cast<T *>(at_);
        at_ += count * sizeof(T);
        return array;
    }
    template <class T>
    T *copy(const T *from, size_t count) {
        T *array = take<T>(count);
        if (count)
            std::memcpy(static_cast<void *>(array), from, count * sizeof(T));
        return array;
    }

private:
    std::byte *at_;
};

} // namespace

void run_launch(const Backend::Launch &launch) {
    const bool in_turns = launch.rounds > 1 && launch.segments > 1;
    const int64_t items = in_turns ? launch.rounds * launch.segments : launch.items();
    if (launch.cost < ir::kAloneCost || items == 1) {
        if (items <= 0)
            return;
        if (launch.segments == 1 && launch.worker_bytes == 0) [[likely]]
            reinterpret_cast<ir::PhaseEntry>(launch.entry)(launch.frames, 0, items, nullptr);
        else
            run_items(launch, 0, items);
        return;
    }
    // Grain: as many items as cost kRangeCost, in doubles because cost * items may overflow.
    double each = static_cast<double>(launch.cost) / static_cast<double>(std::max<int64_t>(items, 1));
    auto grain = static_cast<int64_t>(static_cast<double>(kRangeCost) / std::max(each, 1e-9));
    if (launch.worker_bytes) {
        thread_scratch(launch.worker_bytes);
        grain = std::max(grain, (items - 1) / LeftOver::kRanges + 1);
    }
    LeftOver left;
    parallel_for(
        items, std::clamp<int64_t>(grain, 1, std::max<int64_t>(items, 1)),
        [&](int64_t begin, int64_t end) {
            if (!left.takes(launch, begin, end))
                run_items(launch, begin, end);
        },
        nanoseconds_of(launch));
    left.run(launch);
}

void copy_bytes(void *to, const void *from, size_t bytes) {
    if (bytes < 2 * kCopyRange) {
        if (bytes)
            std::memcpy(to, from, bytes);
        return;
    }
    parallel_for(static_cast<int64_t>(bytes), static_cast<int64_t>(kCopyRange),
                 [&](int64_t begin, int64_t end) {
                     std::memcpy(static_cast<char *>(to) + begin, static_cast<const char *>(from) + begin,
                                 static_cast<size_t>(end - begin));
                 });
}

// --- packed

size_t packed_size(const Backend::Launch &launch) {
    const size_t frame = sizeof(ir::KernelFrame) + sizeof(int64_t) + launch.buffers * sizeof(void *) +
                         launch.args * sizeof(int64_t) + launch.scalars * sizeof(uint64_t);
    return sizeof(Backend::Launch) + launch.segments * frame;
}

std::span<void *> pack(const Backend::Launch &launch, void *packed) {
    Packer packer(packed);
    const size_t segments = launch.segments;
    auto *out = packer.copy(&launch, 1);
    auto *frames = packer.copy(launch.frames, segments);
    out->frames = frames;
    out->ends = packer.copy(launch.ends, segments);
    void **pointers = packer.take<void *>(segments * launch.buffers);
    for (size_t s = 0; s < segments; ++s) {
        std::copy_n(launch.frames[s].buffers, launch.buffers, pointers + s * launch.buffers);
        frames[s].buffers = pointers + s * launch.buffers;
        frames[s].args = packer.copy(launch.frames[s].args, launch.args);
        frames[s].scalars = packer.copy(launch.frames[s].scalars, launch.scalars);
    }
    return {pointers, segments * launch.buffers};
}

void run_packed_launch(void *packed) {
    const auto &launch = *static_cast<const Backend::Launch *>(packed);
    const auto held_back = [&](size_t s) { return ir::is_held_back(launch.frames[s].guards); };
    size_t s = 0;
    while (s < launch.segments && !held_back(s))
        ++s;
    run_or_fault(launch.frames[0].fault, [&] {
        if (s == launch.segments) [[likely]]
            return run_launch(launch);
        for (s = 0; s < launch.segments; ++s)
            if (const int64_t items = launch.ends[s] - (s ? launch.ends[s - 1] : 0);
                items > 0 && !held_back(s)) {
                Backend::Launch one = launch;
                one.frames += s;
                one.ends = &items;
                one.segments = 1;
                run_launch(one);
            }
    });
}

size_t packed_size(const Backend::Call &call) {
    return sizeof(Backend::Call) + (call.args.buffers.size() + 1) * sizeof(void *) +
           call.args.ints.size() * sizeof(int64_t);
}

std::span<void *> pack(const Backend::Call &call, void *packed) {
    Packer packer(packed);
    auto *out = packer.copy(&call, 1);
    const size_t buffers = call.args.buffers.size();
    void **pointers = packer.take<void *>(buffers + 1);
    std::ranges::copy(call.args.buffers, pointers);
    pointers[buffers] = call.args.scratch.data();
    out->args.buffers = {pointers, buffers};
    out->args.ints = {packer.copy(call.args.ints.data(), call.args.ints.size()), call.args.ints.size()};
    return {pointers, buffers + 1};
}

void run_packed_call(void *packed) {
    const auto &call = *static_cast<const Backend::Call *>(packed);
    LibraryArgs args = call.args;
    // Behind the buffers: it may have been translated like them.
    args.scratch = {static_cast<std::byte *>(args.buffers.data()[args.buffers.size()]), args.scratch.size()};
    run_or_fault(args.fault, [&] { call.function(args); });
}

void run_packed_sequence(void *packed) {
    auto *at = static_cast<std::byte *>(packed);
    while (true) {
        const PackedHeader header = *reinterpret_cast<const PackedHeader *>(at);
        if (!header.run)
            return;
        at += sizeof(PackedHeader);
        header.run(at);
        at += header.bytes;
    }
}

void run_packed_copy(void *packed) {
    const auto &copy = *static_cast<const PackedCopy *>(packed);
    copy_bytes(copy.to, copy.from, copy.bytes);
}

} // namespace lz::runtime
