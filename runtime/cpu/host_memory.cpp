#include "runtime/cpu/host_memory.h"

#include "runtime/cpu/cgroup.h"
#include "runtime/cpu/system_file.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

namespace lz::runtime {

size_t physical_memory() {
    auto bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
    return std::min(bytes, static_cast<size_t>(cgroup_memory().value_or(INT64_MAX)));
}

size_t available_memory() {
    constexpr std::string_view kKey = "MemAvailable:";
    const std::string text = read_system_file("/proc/meminfo");
    const size_t key = text.find(kKey);
    const size_t number = key == std::string::npos ? key : text.find_first_not_of(' ', key + kKey.size());
    size_t kib = 0;
    if (number == std::string::npos ||
        std::from_chars(text.data() + number, text.data() + text.size(), kib).ec != std::errc())
        return SIZE_MAX;
    return kib << 10;
}

void *map_aligned(size_t bytes) {
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
    return begin + before;
}

void allow_huge_pages(void *memory, size_t bytes) {
    madvise(memory, bytes, MADV_HUGEPAGE); // refusal is fine
}

void move_to_huge_pages(void *memory, size_t bytes) {
    allow_huge_pages(memory, bytes);
    constexpr int kCollapse = 25; // MADV_COLLAPSE, since Linux 6.1; older headers lack its name
    madvise(memory, bytes, kCollapse);
}

} // namespace lz::runtime
