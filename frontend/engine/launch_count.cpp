#include "frontend/engine/launch_count.h"

#include <new>

namespace lz::engine {

constinit std::atomic<LaunchCount::Cell *> LaunchCount::all_ = nullptr;
LZ_HOT_TLS constinit thread_local LaunchCount::Cell *LaunchCount::cell_ = nullptr;

LaunchCount::Owner::~Owner() {
    if (cell_)
        cell_->owned.store(false, std::memory_order_release);
    cell_ = nullptr;
}

LaunchCount::Cell &LaunchCount::take() noexcept {
    thread_local const Owner owner;
    (void)owner;
    for (Cell *cell = all_.load(std::memory_order_acquire); cell; cell = cell->next)
        if (!cell->owned.exchange(true, std::memory_order_acquire))
            return *(cell_ = cell);
    auto *const cell = new (std::nothrow) Cell;
    if (!cell) { // what is counted there is lost
        static constinit Cell of_all;
        return of_all;
    }
    cell->next = all_.load(std::memory_order_relaxed);
    while (
        !all_.compare_exchange_weak(cell->next, cell, std::memory_order_release, std::memory_order_relaxed)) {
    }
    return *(cell_ = cell);
}

int64_t LaunchCount::total() {
    int64_t total = 0;
    for (const Cell *cell = all_.load(std::memory_order_acquire); cell; cell = cell->next)
        total += cell->count.load(std::memory_order_relaxed);
    return total;
}

} // namespace lz::engine
