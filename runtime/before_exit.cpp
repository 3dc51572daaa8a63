#include "runtime/before_exit.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace lz::runtime {
namespace {

constinit std::atomic<int> inside{0};
constinit std::atomic<bool> leaving{false};
constinit thread_local int inside_here = 0;
constinit thread_local bool leaves = false;
constinit pid_t main_thread = 0; ///< 0: it is not known

double seconds(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
/// What other threads of this process have computed.
double others_computed() {
    return seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(CLOCK_THREAD_CPUTIME_ID);
}

// On a machine that does much else, a compilation of a tenth of a second may take more than ten: it is not
// stuck as long as somebody computes.
constexpr double kStuck = 5, kAdvance = 0.01, kMost = 60; // seconds; of processor time: the latter two

void leave() {
    leaves = true;
    leaving.store(true, std::memory_order_seq_cst);
    const double limit = others_computed() + kMost;
    double computed = others_computed(), since = seconds(CLOCK_MONOTONIC);
    while (inside.load(std::memory_order_seq_cst) > inside_here) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const double now = seconds(CLOCK_MONOTONIC), then = others_computed();
        if (then > limit)
            return;
        if (then > computed + kAdvance) {
            computed = then;
            since = now;
        } else if (now > since + kStuck) {
            return;
        }
    }
}

/// Destructors of the main thread's variables run before those of any static object, also of those that are
/// made by the function which somebody is in just now.
struct MainThread {
    MainThread() { main_thread = ::gettid(); }
    ~MainThread() { leave(); }
};

const bool registered = [] {
    if (::gettid() == ::getpid()) {
        thread_local const MainThread main;
        (void)main;
    }
    // A forked child has only the thread that forked: nobody waits for the others.
    pthread_atfork(nullptr, nullptr, [] { inside.store(inside_here, std::memory_order_seq_cst); });
    return std::atexit(leave) == 0; // exit may be called by another thread
}();

/// The main thread has ended by pthread_exit, and the process goes on.
bool main_thread_is_gone() {
    std::ifstream file("/proc/self/task/" + std::to_string(main_thread) + "/stat");
    std::string line;
    std::getline(file, line);
    const size_t state = line.rfind(')');
    return state != std::string::npos && state + 2 < line.size() && line[state + 2] == 'Z';
}

} // namespace

BeforeExit::Announced::Announced() : counts_(true) {
    inside.fetch_add(1, std::memory_order_seq_cst);
    if (leaving.load(std::memory_order_seq_cst)) {
        inside.fetch_sub(1, std::memory_order_seq_cst);
        counts_ = false;
    }
}

BeforeExit::Announced::~Announced() {
    if (counts_)
        inside.fetch_sub(1, std::memory_order_seq_cst);
}

BeforeExit::BeforeExit(Announced work) : BeforeExit(std::exchange(work.counts_, false)) {}

BeforeExit::BeforeExit() : BeforeExit(false) {}

BeforeExit::BeforeExit(bool is_counted) {
    if (is_counted) {
        ++inside_here;
        return;
    }
    for (int turn = 0;; ++turn) {
        inside.fetch_add(1, std::memory_order_seq_cst);
        // Who is inside is waited for: it has to get on.
        if (!leaving.load(std::memory_order_seq_cst) || leaves || inside_here > 0 || !registered) [[likely]]
            break;
        inside.fetch_sub(1, std::memory_order_seq_cst);
        // So seldom that it does not count as computing.
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (turn % 10 == 0 && main_thread != 0 && main_thread_is_gone())
            leaving.store(false, std::memory_order_seq_cst);
    }
    ++inside_here;
}

bool BeforeExit::exit_has_begun() {
    return leaving.load(std::memory_order_relaxed);
}

BeforeExit::~BeforeExit() {
    --inside_here;
    inside.fetch_sub(1, std::memory_order_seq_cst);
}

} // namespace lz::runtime
