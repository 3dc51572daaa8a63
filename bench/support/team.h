#pragma once
/// Threads that measure what a machine can do.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace lz::bench {

/// Threads that stay: starting them would count as time of a pass.
class Team {
public:
    using Part = std::function<void(int64_t, int64_t)>;

    explicit Team(int threads) : threads_(threads) {
        for (int t = 1; t < threads; ++t)
            workers_.emplace_back([this, t] { work(t); });
    }
    ~Team() {
        part_ = nullptr;
        start();
        for (std::thread &worker : workers_)
            worker.join();
    }
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    /// Runs f(begin, end) on equal parts of [0, n), multiples of 64 elements, one a thread.
    void run(int64_t n, const Part &f) {
        part_ = &f;
        size_ = n;
        busy_.store(threads_ - 1, std::memory_order_relaxed);
        start();
        run_part(0);
        for (int left = busy_.load(); left != 0; left = busy_.load())
            busy_.wait(left);
    }

private:
    void start() {
        round_.fetch_add(1);
        round_.notify_all();
    }
    void run_part(int t) {
        const int64_t part = (size_ / threads_ + 63) / 64 * 64;
        (*part_)(std::min(size_, t * part), std::min(size_, (t + 1) * part));
    }
    void work(int t) {
        for (int seen = 0;; ++seen) {
            round_.wait(seen);
            if (!part_)
                return;
            run_part(t);
            busy_.fetch_sub(1);
            busy_.notify_all();
        }
    }

    const int threads_;
    const Part *part_ = nullptr;
    int64_t size_ = 0;
    std::atomic<int> round_ = 0, busy_ = 0;
    std::vector<std::thread> workers_;
};

} // namespace lz::bench
