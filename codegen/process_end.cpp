#include "codegen/process_end.h"

#include <atomic>
#include <cstdlib>

namespace lz::codegen {

namespace {
std::atomic<bool> gone{false};
}

void note_llvm_use() {
    // Handlers run in the reverse order: this one before the destructors of all statics that exist now.
    std::atexit([] { gone.store(true, std::memory_order_release); });
}

bool llvm_is_gone() {
    return gone.load(std::memory_order_acquire);
}

} // namespace lz::codegen
