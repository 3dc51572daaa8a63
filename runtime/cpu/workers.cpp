#include "runtime/cpu/workers.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <memory>

namespace lz::runtime {

struct Workers::Arena {
    // Slots: one more than there are workers, which is kept for a thread that joins and never does.
    explicit Arena(size_t count) : arena(static_cast<int>(count) + 1, 1) {
        // It is made now, and not by a loop that may come when oneTBB's static objects are gone.
        arena.initialize();
    }
    tbb::task_arena arena;
};

Workers::Workers(size_t count) : arena_(new Arena(count)) {}

void Workers::send(void (*work)(void *context), void *context) {
    arena_->arena.enqueue([=] { work(context); });
}

void allow_threads(size_t threads) {
    static auto *const more = new std::unique_ptr<tbb::global_control>;
    // oneTBB makes no more workers than there are processors unless told to.
    if (threads > static_cast<size_t>(tbb::info::default_concurrency()))
        *more = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, threads);
    else
        more->reset();
}

} // namespace lz::runtime
