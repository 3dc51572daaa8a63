#pragma once
/// What orders the uses of one block of memory by different runs: the moments after which it has been
/// written, and those after which it has been read since. Only work on streams that run later is noted: what
/// runs on the calling thread is over when the call returns.

#include "ir/stream.h"

#include <atomic>
#include <vector>

namespace lz::ir {

class MemoryUse {
public:
    /// From now on the contents are those of these moments; reads so far are in their past.
    void written(const Point &point) {
        const Lock lock(busy_);
        writes_.assign(1, point);
        reads_.clear();
    }
    /// Another part of the same run's contents.
    void also_written(const Point &point) {
        const Lock lock(busy_);
        note(writes_, point);
    }
    void read(const Point &point) {
        const Lock lock(busy_);
        note(reads_, point);
    }
    /// Calls f(point) for what a reader has to wait for, or a writer.
    template <class F>
    void for_each(bool writer, F &&f) const {
        const Lock lock(busy_);
        for (const Point &p : writes_)
            f(p);
        if (writer)
            for (const Point &p : reads_)
                f(p);
    }
    /// Nothing was ever noted (or all of it forgotten).
    bool idle() const {
        const Lock lock(busy_);
        return writes_.empty() && reads_.empty();
    }
    /// Everything that was noted is over: the caller has waited for it.
    void forget() {
        const Lock lock(busy_);
        writes_.clear();
        reads_.clear();
    }

private:
    /// Held for a few instructions, by readers of one value on several threads.
    class Lock {
    public:
        explicit Lock(std::atomic_flag &flag) : flag_(flag) {
            while (flag_.test_and_set(std::memory_order_acquire)) {
            }
        }
        ~Lock() { flag_.clear(std::memory_order_release); }
        Lock(const Lock &) = delete;
        Lock &operator=(const Lock &) = delete;

    private:
        std::atomic_flag &flag_;
    };
    /// The latest moment of each stream.
    static void note(std::vector<Point> &points, const Point &point) {
        for (Point &p : points)
            if (p.stream == point.stream) {
                if (p.tick < point.tick)
                    p.tick = point.tick;
                return;
            }
        points.push_back(point);
    }

    mutable std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
    std::vector<Point> writes_, reads_;
};

} // namespace lz::ir
