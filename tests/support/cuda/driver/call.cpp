#include "tests/support/cuda/driver/call.h"

#include "tests/support/cuda/driver/settings.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>

namespace lz::fake_cuda {
namespace {

std::atomic<bool> initialized{false}, ended{false};

} // namespace

void refuse(CUresult code, std::string why) {
    throw Refused{code, std::move(why)};
}

std::mutex &driver_mutex() {
    static auto *const mutex = new std::mutex;
    return *mutex;
}

bool is_initialized() {
    return initialized;
}

void set_initialized() {
    if (!initialized.exchange(true)) {
        std::atexit([] { ended = true; });
        // The child has no streams, and may find any lock taken.
        pthread_atfork([] { driver_mutex().lock(); }, [] { driver_mutex().unlock(); },
                       [] {
                           initialized = false;
                           driver_mutex().unlock();
                       });
    }
}

bool has_ended() {
    return ended;
}

bool &in_callback() {
    thread_local bool in = false;
    return in;
}

CUresult log_refused(const char *function, const Refused &refused) {
    if (settings().log) {
        const char *name = nullptr;
        cuGetErrorName(refused.code, &name);
        std::fprintf(stderr, "fake CUDA: %s: %s: %s.\n", function, name ? name : "?", refused.why.c_str());
    }
    return refused.code;
}

} // namespace lz::fake_cuda
