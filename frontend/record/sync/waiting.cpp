#include "frontend/record/sync/waiting.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace lz::detail {
namespace {

struct Waiting {
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<int> waiters{0};
    static Waiting &get() {
        static Waiting *const waiting = new Waiting;
        return *waiting;
    }
};

} // namespace

void prepare_waiting() {
    Waiting::get();
}

void notify_waiters() noexcept {
    Waiting &waiting = Waiting::get();
    std::atomic_thread_fence(std::memory_order_seq_cst); // the new states before the look at the waiters
    if (waiting.waiters.load(std::memory_order_seq_cst) == 0)
        return;
    const std::lock_guard lock(waiting.mutex);
    waiting.changed.notify_all();
}

void wait_while_claimed(Node *node) {
    if (node->state.load(std::memory_order_acquire) != State::Claimed)
        return;
    Waiting &waiting = Waiting::get();
    waiting.waiters.fetch_add(1, std::memory_order_seq_cst);
    std::unique_lock lock(waiting.mutex);
    waiting.changed.wait(lock, [&] { return node->state.load(std::memory_order_seq_cst) != State::Claimed; });
    waiting.waiters.fetch_sub(1, std::memory_order_relaxed);
}

} // namespace lz::detail
