#pragma once
/// The count of kernels launched: every launch adds to it, and statistics read it.

#include "ir/host/hot_tls.h"

#include <atomic>
#include <cstdint>

namespace lz::engine {

/// Of kernels launched. Each thread counts for itself, without a locked instruction; what a thread has
/// counted stays when it ends.
class LaunchCount {
public:
    static void add(int64_t count) {
        std::atomic<int64_t> &mine = (cell_ ? *cell_ : take()).count;
        mine.store(mine.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    }
    /// Of all threads since the process began.
    static int64_t total();

private:
    /// Of one thread at a time, never freed: a later thread goes on with it.
    struct Cell {
        std::atomic<int64_t> count{0};
        std::atomic<bool> owned{true};
        Cell *next = nullptr;
    };
    struct Owner {
        ~Owner();
    };
    [[gnu::cold]] static Cell &take() noexcept;

    static std::atomic<Cell *> all_;
    LZ_HOT_TLS static constinit thread_local Cell *cell_;
};

} // namespace lz::engine
