#include "codegen/process_end.h"

#include <atomic>
#include <cstdlib>

namespace lz::codegen {

namespace {
std::atomic<bool> llvm_gone{false}, nvrtc_gone{false};
} // namespace

void note_llvm_use() {
    // Handlers run in the reverse order: this one before the destructors of all statics that exist now.
    std::atexit([] { llvm_gone.store(true, std::memory_order_release); });
}

bool llvm_is_gone() {
    return llvm_gone.load(std::memory_order_acquire);
}

void note_nvrtc_use() {
    std::atexit([] { nvrtc_gone.store(true, std::memory_order_release); });
}

bool nvrtc_is_gone() {
    return nvrtc_gone.load(std::memory_order_acquire);
}

} // namespace lz::codegen
