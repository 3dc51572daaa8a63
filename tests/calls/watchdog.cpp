#include "watchdog.h"

#include "tests/support/environment.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

namespace lz::test::calls {

namespace {

using Clock = std::chrono::steady_clock;

/// One thread that looks once a second at what runs.
class Watch {
public:
    static Watch &get() {
        static Watch *const watch = new Watch; // outlives main, as its thread does
        return *watch;
    }

    size_t begin(const Program &program) {
        const std::lock_guard lock(mutex_);
        for (size_t k = 0; k < running_.size(); ++k)
            if (!running_[k].program) {
                running_[k] = {&program, Clock::now()};
                return k;
            }
        running_.push_back({&program, Clock::now()});
        return running_.size() - 1;
    }
    void end(size_t slot) {
        const std::lock_guard lock(mutex_);
        running_[slot].program = nullptr;
    }

private:
    struct Running {
        const Program *program;
        Clock::time_point since;
    };

    Watch() {
#if !LAZULI_SANITIZE_ADDRESS && !LAZULI_SANITIZE_THREAD // which have more to say
        for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
            std::signal(signal, [](int number) {
                std::signal(number, SIG_DFL);
                for (const Running &r : get().running_)
                    if (r.program)
                        std::fprintf(stderr, "seed %llu dies of signal %d:\n%s\n",
                                     static_cast<unsigned long long>(r.program->seed), number,
                                     print(*r.program).c_str());
                std::raise(number);
            });
#endif
        std::thread([this] { watch(); }).detach();
    }
    [[noreturn]] void watch() {
        for (;;) {
            std::this_thread::sleep_for(std::chrono::seconds(1));
            const std::lock_guard lock(mutex_);
            for (const Running &r : running_)
                if (r.program && Clock::now() - r.since > std::chrono::seconds(limit_)) {
                    std::fprintf(stderr, "seed %llu has not come to its end within %lld seconds:\n%s\n",
                                 static_cast<unsigned long long>(r.program->seed),
                                 static_cast<long long>(limit_), print(*r.program).c_str());
                    std::fflush(stderr);
                    std::_Exit(1);
                }
        }
    }

#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
    const int64_t limit_ = number_from("LAZULI_FUZZ_SECONDS", 600);
#else
    const int64_t limit_ = number_from("LAZULI_FUZZ_SECONDS", 120);
#endif
    std::mutex mutex_;
    std::vector<Running> running_;
};

} // namespace

Watchdog::Guard::Guard(const Program &program) : slot_(Watch::get().begin(program)) {}
Watchdog::Guard::~Guard() {
    Watch::get().end(slot_);
}

} // namespace lz::test::calls
