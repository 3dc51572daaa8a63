#include "runtime/cpu_backend.h"

#include "ir/diagnostic.h"
#include "runtime/api/parallel.h"
#include "runtime/cgroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>

namespace lz::runtime {

namespace {

constexpr size_t kAlignment = 512;
constexpr size_t kHugePage = size_t{2} << 20;
/// Blocks past this are compared with what the system says it has: overcommit would grant and then kill us.
constexpr size_t kAskSystem = size_t{256} << 20;

/// Units of Step::cost: about a byte moved in a tenth of a nanosecond. Handing a range to another thread
/// costs about as much as this; a launch below twice that is faster alone.
constexpr int64_t kRangeCost = 64 << 10;
/// A copy of this many bytes is shared between threads.
constexpr size_t kCopyRange = size_t{1} << 20;

size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

size_t physical_memory() {
    auto bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
    return std::min(bytes, static_cast<size_t>(cgroup_memory().value_or(INT64_MAX)));
}

/// MemAvailable: what can be had without swapping.
size_t available_memory() {
    std::ifstream file("/proc/meminfo");
    for (std::string key, unit; file >> key;) {
        size_t kib = 0;
        if (!(file >> kib))
            break;
        if (key == "MemAvailable:")
            return kib << 10;
        std::getline(file, unit);
    }
    return SIZE_MAX;
}

/// Maps a multiple of the huge page at a multiple of it; nullptr when the system refuses.
void *map_huge(size_t bytes) {
    size_t room = bytes + kHugePage;
    if (room < bytes)
        return nullptr;
    void *memory =
        mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return nullptr;
    auto *begin = static_cast<char *>(memory);
    size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    if (before)
        munmap(begin, before);
    if (size_t after = room - before - bytes)
        munmap(begin + before + bytes, after);
    madvise(begin + before, bytes, MADV_HUGEPAGE); // refusal is fine
    return begin + before;
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
    auto s = static_cast<size_t>(std::upper_bound(ends, ends + launch.segments, begin) - ends);
    for (; begin < end; ++s) {
        int64_t first = s ? ends[s - 1] : 0;
        int64_t last = std::min(end, ends[s]);
        if (begin < last)
            entry(&launch.frames[s], begin - first, last - first, worker);
        begin = last;
    }
}

} // namespace

CpuBackend::CpuBackend(ModuleLoader loader, size_t memory_limit)
    : loader_(std::move(loader)), limit_(memory_limit ? memory_limit : physical_memory()) {}

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

void CpuBackend::copy(void *to, const void *from, size_t bytes, StreamId) {
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

StreamId CpuBackend::create_stream(int) {
    return streams_.fetch_add(1, std::memory_order_relaxed) + 1;
}
void CpuBackend::destroy_stream(StreamId) noexcept {}
EventId CpuBackend::record_event(StreamId) {
    return events_.fetch_add(1, std::memory_order_relaxed) + 1;
}
void CpuBackend::wait_event(StreamId, EventId) {}
bool CpuBackend::query_event(EventId) {
    return true;
}
void CpuBackend::synchronize_event(EventId) {}
void CpuBackend::synchronize_stream(StreamId) {}

std::unique_ptr<Module> CpuBackend::load(const CompiledKernel &kernel) {
    if (!loader_)
        throw ir::Failure(
            ir::ErrorKind::Compile,
            fmt::format("cpu: kernel {} cannot be loaded, because this build has no loader of compiled "
                        "code.",
                        kernel.name));
    return loader_(kernel);
}

void CpuBackend::launch(const Launch &launch, StreamId) {
    int64_t items = launch.items();
    if (launch.cost < 2 * kRangeCost || items == 1) {
        if (items > 0)
            run_items(launch, 0, items);
        return;
    }
    // Grain: as many items as cost kRangeCost, in doubles because cost * items may overflow.
    double each = static_cast<double>(launch.cost) / static_cast<double>(std::max<int64_t>(items, 1));
    auto grain = static_cast<int64_t>(static_cast<double>(kRangeCost) / std::max(each, 1e-9));
    parallel_for(items, std::clamp<int64_t>(grain, 1, items),
                 [&](int64_t begin, int64_t end) { run_items(launch, begin, end); });
}

} // namespace lz::runtime
