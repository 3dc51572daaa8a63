#include "runtime/cpu_backend.h"

#include "ir/diagnostic.h"
#include "runtime/api/parallel.h"
#include "runtime/host_memory.h"
#include "runtime/host_work.h"
#include "runtime/real_timestamp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sys/mman.h>

namespace lz::runtime {

namespace {

constexpr size_t kAlignment = 512;

/// Runs `work` here and now.
template <class F>
void run_now(const OnDone &done, F work) {
    if (!done) {
        work();
        return;
    }
    TimeSpan span;
    span.begin = profile_clock();
    work();
    span.end = profile_clock();
    done(span);
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
                       ? map_huge(round_up(bytes, kHugePage))
                       : std::aligned_alloc(kAlignment, round_up(std::max<size_t>(bytes, 1), kAlignment));
    if (!memory) {
        give_back();
        refuse(free_memory());
    }
    return memory;
}

void CpuBackend::free(void *memory, size_t bytes) noexcept {
    if (!memory)
        return;
    given_.fetch_sub(bytes, std::memory_order_relaxed);
    if (bytes >= kHugePage)
        munmap(memory, round_up(bytes, kHugePage));
    else
        std::free(memory);
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

uint64_t CpuBackend::record(StreamId stream) {
    return stream == ir::kHostStream ? 0 : streams_.at(stream).ticks();
}

std::shared_ptr<Timestamp> CpuBackend::record_time(StreamId stream) {
    if (stream != ir::kHostStream)
        return RealTimestamp::on(streams_.at(stream));
    auto timestamp = std::make_shared<RealTimestamp>();
    timestamp->take();
    return timestamp;
}

void CpuBackend::wait(StreamId stream, Backend &other, StreamId of, uint64_t tick) {
    if (&other == this && (stream == of || of == ir::kHostStream))
        return;
    if (stream == ir::kHostStream)
        other.synchronize(of, tick);
    else if (!other.reached(of, tick))
        streams_.at(stream).put_wait(other, of, tick);
}

bool CpuBackend::reached(StreamId stream, uint64_t tick) {
    return stream == ir::kHostStream || streams_.at(stream).reached(tick);
}

void CpuBackend::synchronize(StreamId stream, uint64_t tick) {
    if (stream != ir::kHostStream)
        streams_.at(stream).synchronize(tick);
}

void CpuBackend::call_host(StreamId stream, std::function<void()> callback) {
    if (stream == ir::kHostStream)
        callback();
    else
        streams_.at(stream).put(std::move(callback));
}

// --- work

void CpuBackend::copy(void *to, const void *from, size_t bytes, StreamId stream, OnDone done) {
    if (stream == ir::kHostStream) {
        run_now(done, [&] { copy_bytes(to, from, bytes); });
        return;
    }
    streams_.at(stream).put(StreamQueue::Kind::Copy, sizeof(PackedCopy), run_packed_copy, std::move(done),
                            [&](void *packed) {
                                *static_cast<PackedCopy *>(packed) = {to, from, bytes};
                                return std::nullopt;
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
    if (stream == ir::kHostStream) {
        run_now(done, [&] { run_launch(launch); });
        return;
    }
    streams_.at(stream).put(StreamQueue::Kind::Work, packed_size(launch), run_packed_launch, std::move(done),
                            [&](void *packed) {
                                pack(launch, packed);
                                return std::nullopt;
                            });
}

void CpuBackend::call(const Call &call, StreamId stream, OnDone done) {
    if (stream == ir::kHostStream) {
        run_now(done, [&] { call.function(call.args); });
        return;
    }
    streams_.at(stream).put(StreamQueue::Kind::Work, packed_size(call), run_packed_call, std::move(done),
                            [&](void *packed) {
                                pack(call, packed);
                                return std::nullopt;
                            });
}

} // namespace lz::runtime
