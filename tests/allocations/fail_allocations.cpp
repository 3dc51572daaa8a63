#include "fail_allocations.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <new>
#include <string_view>
#include <unwind.h>

namespace lz::test {
namespace {

constexpr int64_t kNever = INT64_MAX / 2;
std::atomic<int64_t> left{kNever};
std::atomic<Outcome> outcome{Outcome::NotReached};

/// Code of LLVM and of the loader, by address.
struct Range {
    uintptr_t begin = 0, end = 0;
};
std::array<Range, 64> spared_code;
size_t num_spared = 0;

int note_spared(dl_phdr_info *info, size_t, void *) {
    const std::string_view name = info->dlpi_name ? info->dlpi_name : "";
    if (name.find("libLLVM") == std::string_view::npos && name.find("/ld-linux") == std::string_view::npos)
        return 0;
    for (int i = 0; i < info->dlpi_phnum && num_spared < spared_code.size(); ++i) {
        const auto &segment = info->dlpi_phdr[i];
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
            spared_code[num_spared++] = {info->dlpi_addr + segment.p_vaddr,
                                         info->dlpi_addr + segment.p_vaddr + segment.p_memsz};
    }
    return 0;
}
const bool noted = (dl_iterate_phdr(note_spared, nullptr), true);

_Unwind_Reason_Code look_at_frame(_Unwind_Context *context, void *found) {
    const uintptr_t at = _Unwind_GetIP(context);
    for (size_t i = 0; i < num_spared; ++i)
        if (at >= spared_code[i].begin && at < spared_code[i].end) {
            *static_cast<bool *>(found) = true;
            return _URC_END_OF_STACK;
        }
    return _URC_NO_REASON;
}

/// Not inlined: the frames are looked at from here.
[[gnu::noinline, maybe_unused]] bool fails() {
    if (left.load(std::memory_order_relaxed) >= kNever || left.fetch_sub(1, std::memory_order_relaxed) != 0)
        return false;
    left.store(kNever, std::memory_order_relaxed);
    bool is_spared = false;
    _Unwind_Backtrace(look_at_frame, &is_spared);
    outcome.store(is_spared ? Outcome::Spared : Outcome::Failed, std::memory_order_relaxed);
    return !is_spared;
}

} // namespace

void fail_allocation_after(int64_t others) {
    outcome = Outcome::NotReached;
    left = others;
}

Outcome stop_failing() {
    left = kNever;
    return outcome;
}

bool allocations_can_fail() {
#if defined(LAZULI_SANITIZE_THREAD) || defined(LAZULI_SANITIZE_ADDRESS)
    return false;
#else
    return noted;
#endif
}

} // namespace lz::test

#if !defined(LAZULI_SANITIZE_THREAD) && !defined(LAZULI_SANITIZE_ADDRESS)
void *operator new(size_t bytes) {
    if (!lz::test::fails())
        if (void *memory = std::malloc(bytes ? bytes : 1))
            return memory;
    throw std::bad_alloc();
}
void *operator new(size_t bytes, std::align_val_t align) {
    const auto alignment = static_cast<size_t>(align);
    if (!lz::test::fails())
        if (void *memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment))
            return memory;
    throw std::bad_alloc();
}
void operator delete(void *memory) noexcept {
    std::free(memory);
}
void operator delete(void *memory, size_t) noexcept {
    std::free(memory);
}
void operator delete(void *memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void *memory, size_t, std::align_val_t) noexcept {
    std::free(memory);
}
#endif
