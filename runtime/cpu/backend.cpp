#include "runtime/cpu/backend.h"

#include "ir/diagnostic.h"
#include "ir/host/float_environment.h"
#include "runtime/api/parallel.h"
#include "runtime/cpu/host_memory.h"
#include "runtime/cpu/host_work.h"
#include "runtime/streams/threads.h"
#include "runtime/streams/timestamps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sys/mman.h>

namespace lz::runtime {

namespace {

constexpr size_t kAlignment = 512;

constexpr ir::StreamRef on_cpu(StreamId stream) {
    return {ir::kCpu, stream};
}

/// `clock` under a lock that is given up when it has answered.
template <class Clock>
auto unlocking(std::unique_lock<std::mutex> &lock, Clock clock) {
    return [&lock, clock] {
        const std::optional<TimeSpan> span = clock();
        if (lock.owns_lock())
            lock.unlock();
        return span;
    };
}

/// Runs `work` here and now; `clock()` says when that would be, if anything.
template <class F, class Clock>
void run_now(const OnDone &done, F work, Clock clock) {
    const std::optional<TimeSpan> would_be = clock();
    if (!done) {
        work();
        return;
    }
    TimeSpan span;
    span.begin = profile_clock();
    work();
    span.end = profile_clock();
    done(would_be.value_or(span));
}

} // namespace

CpuBackend::CpuBackend(ModuleLoader loader, size_t memory_limit, StreamQueue::Options streams)
    : loader_(std::move(loader)), limit_(memory_limit ? memory_limit : physical_memory()),
      streams_(std::make_shared<StreamGroup>("cpu", ir::ErrorKind::Device), streams) {}

CpuBackend::~CpuBackend() = default;

DeviceProperties CpuBackend::properties() const {
    DeviceProperties out;
    out.name = "cpu";
    out.total_memory = static_cast<int64_t>(limit_);
    out.multi_processor_count = num_threads();
    return out;
}

void *CpuBackend::allocate(size_t bytes) {
    auto refuse = [&](size_t there) {
        throw ir::Failure(ir::ErrorKind::OutOfMemory,
                          fmt::format("cpu: the system has no block of {} bytes; {} of {} bytes are free.",
                                      bytes, there, limit_));
    };
    size_t given = given_.fetch_add(bytes, std::memory_order_relaxed);
    auto give_back = [&] { given_.fetch_sub(bytes, std::memory_order_relaxed); };
    if (bytes > limit_ || given > limit_ - bytes) {
        give_back();
        refuse(limit_ - std::min(given, limit_));
    }
    if (bytes >= kAskSystem) {
        if (size_t there = available_memory(); bytes > there) {
            give_back();
            refuse(there);
        }
    }
    void *memory = bytes >= kHugePage
                       ? map_large(round_up(bytes, kHugePage))
                       : std::aligned_alloc(kAlignment, round_up(std::max<size_t>(bytes, 1), kAlignment));
    if (!memory) {
        give_back();
        refuse(free_memory());
    }
    return memory;
}

/// The first block, if it is a small one, has ordinary pages up to the second: a small program touches little
/// of it, and the system needs a quarter of a millisecond to clear a huge page.
void *CpuBackend::map_large(size_t bytes) {
    void *const memory = map_aligned(bytes);
    void *none = nullptr;
    if (!memory || (bytes == kHugePage && first_.compare_exchange_strong(none, memory)))
        return memory;
    allow_huge_pages(memory, bytes);
    if (void *const first = first_.exchange(this); first && first != this)
        move_to_huge_pages(first, kHugePage);
    return memory;
}

void CpuBackend::free(void *memory, size_t bytes) noexcept {
    if (!memory)
        return;
    given_.fetch_sub(bytes, std::memory_order_relaxed);
    if (bytes >= kHugePage) {
        void *first = memory;
        first_.compare_exchange_strong(first, nullptr);
        munmap(memory, round_up(bytes, kHugePage));
    } else {
        std::free(memory);
    }
}

size_t CpuBackend::free_memory() const {
    size_t given = given_.load(std::memory_order_relaxed);
    return std::min(limit_ - std::min(given, limit_), available_memory());
}

void CpuBackend::set_peer_access(Backend &other, bool) {
    throw ir::Failure(ir::ErrorKind::Device,
                      fmt::format("Peer access is between GPUs: cpu and {} were given.", other.name()));
}

// --- streams

std::unique_lock<std::mutex> CpuBackend::lock_clock() const {
    return clock_ ? clock_->lock() : std::unique_lock<std::mutex>();
}

uint64_t CpuBackend::record(StreamId stream) {
    return stream == ir::kHostStream ? 0 : streams_.at(stream).ticks();
}

std::shared_ptr<Timestamp> CpuBackend::record_time(StreamId stream) {
    if (clock_) {
        const auto lock = lock_clock();
        if (stream == ir::kHostStream)
            return std::make_shared<VirtualTimestamp>(nullptr, 0, clock_->host());
        StreamQueue &queue = streams_.at(stream);
        return std::make_shared<VirtualTimestamp>(queue.shared_from_this(), queue.ticks(),
                                                  clock_->now(on_cpu(stream)));
    }
    if (stream != ir::kHostStream)
        return RealTimestamp::on(streams_.at(stream));
    auto timestamp = std::make_shared<RealTimestamp>();
    timestamp->take();
    return timestamp;
}

void CpuBackend::wait(StreamId stream, Backend &other, StreamId of, uint64_t tick) {
    if (&other == this && (stream == of || of == ir::kHostStream))
        return;
    if (stream == ir::kHostStream) {
        other.synchronize(of, tick);
    } else if (clock_ || !other.reached(of, tick)) {
        const auto lock = lock_clock();
        streams_.at(stream).put_wait(other, of, tick);
        if (clock_)
            clock_->wait(on_cpu(stream), {other.device(), of}, tick);
    }
}

bool CpuBackend::reached(StreamId stream, uint64_t tick) {
    return stream == ir::kHostStream || streams_.at(stream).reached(tick);
}

bool CpuBackend::pending(StreamId stream, uint64_t tick) {
    if (!clock_ || stream == ir::kHostStream)
        return !reached(stream, tick);
    const auto lock = lock_clock();
    return clock_->is_ahead(on_cpu(stream), tick);
}

void CpuBackend::synchronize(StreamId stream, uint64_t tick) {
    if (stream == ir::kHostStream)
        return;
    if (clock_ && !on_stream_thread()) {
        const auto lock = lock_clock();
        clock_->synchronize(on_cpu(stream), tick);
    }
    streams_.at(stream).synchronize(tick);
}

void CpuBackend::call_host(StreamId stream, std::function<void()> callback) {
    if (stream == ir::kHostStream) {
        const ir::FloatEnvironment environment; // what it changes is undone
        callback();
        return;
    }
    const auto lock = lock_clock();
    streams_.at(stream).put(std::move(callback));
    if (clock_)
        clock_->pass(on_cpu(stream));
}

// --- work

void CpuBackend::copy(void *to, const void *from, size_t bytes, StreamId stream, OnDone done) {
    const auto clock = [&]() -> std::optional<TimeSpan> {
        if (!clock_)
            return std::nullopt;
        return clock_->copy(on_cpu(stream), VirtualClock::Route::Inside, bytes, false);
    };
    auto lock = lock_clock();
    if (stream == ir::kHostStream) {
        run_now(done, [&] { copy_bytes(to, from, bytes); }, unlocking(lock, clock));
        return;
    }
    streams_.at(stream).put(StreamQueue::Kind::Copy, sizeof(PackedCopy), run_packed_copy, std::move(done),
                            [&](void *packed) {
                                *static_cast<PackedCopy *>(packed) = {to, from, bytes};
                                return clock();
                            });
}

std::unique_ptr<Module> CpuBackend::load(const CompiledKernel &kernel) {
    if (!loader_)
        throw ir::Failure(
            ir::ErrorKind::Compile,
            fmt::format("cpu: kernel {} cannot be loaded, because this build has no loader of compiled "
                        "code.",
                        kernel.name));
    return loader_(kernel);
}

void CpuBackend::launch(const Launch &launch, StreamId stream, OnDone done) {
    if (stream == ir::kHostStream && !done && !clock_) [[likely]] { // the hot path of programs on the CPU
        run_launch(launch);
        return;
    }
    perform(launch, stream, std::move(done), run_packed_launch, [](const Launch &l) { run_launch(l); });
}

void CpuBackend::call(const Call &call, StreamId stream, OnDone done) {
    if (stream == ir::kHostStream && !done && !clock_) [[likely]] {
        call.function(call.args);
        return;
    }
    perform(call, stream, std::move(done), run_packed_call, [](const Call &c) { c.function(c.args); });
}

/// A launch or a call.
template <class Work, class RunNow>
void CpuBackend::perform(const Work &work, StreamId stream, OnDone done, StreamQueue::RunFn run_packed,
                         RunNow run) {
    const auto clock = [&]() -> std::optional<TimeSpan> {
        if (!clock_)
            return std::nullopt;
        return clock_->work(on_cpu(stream), work.bytes, work.flops);
    };
    auto lock = lock_clock();
    if (stream == ir::kHostStream) {
        run_now(done, [&] { run(work); }, unlocking(lock, clock));
        return;
    }
    streams_.at(stream).put(StreamQueue::Kind::Work, packed_size(work), run_packed, std::move(done),
                            [&](void *packed) {
                                pack(work, packed);
                                return clock();
                            });
}

} // namespace lz::runtime
