#pragma once
/// Devices and their primary contexts: which is current, what may be reached from it, and the error that
/// stays with it.

#include "tests/support/cuda/driver/call.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace lz::fake_cuda {

struct Stream;

struct Context {
    int device = 0;
    CUcontext handle = nullptr; ///< the same as long as the process lives
    unsigned retained = 0;
    bool active = false;
    unsigned flags = 0;
    uint32_t generation = 0;                   ///< counts activations
    std::atomic<uint32_t> reach{0};            ///< devices whose memory its kernels may touch, one bit each
    std::atomic<CUresult> error{CUDA_SUCCESS}; ///< of what ran; stays until the context goes
    std::shared_ptr<Stream> legacy;            ///< the null stream
    std::vector<std::shared_ptr<Stream>> streams; ///< all that are alive or still have work
    std::atomic<uint64_t> used{0};                ///< bytes of the device, of any context's
};

/// Of device `index`, active or not; refuses numbers that no device has.
Context &context_of_device(int device);
int device_count();
/// Live ones only: refuses null, unknown, and destroyed ones.
Context &context_of(CUcontext handle);
/// What this thread has made current, alive and without an error of its own; else refuses.
Context &current_context();
/// The same, though it may have an error.
Context &current_context_even_failed();
/// For the duration of a callback of a library.
class MadeCurrent {
public:
    explicit MadeCurrent(Context &context);
    ~MadeCurrent();
    MadeCurrent(const MadeCurrent &) = delete;
    MadeCurrent &operator=(const MadeCurrent &) = delete;
};

/// The first error of what ran stays. Any thread.
void fail_context(Context &context, CUresult error);
/// Of the context that is current on this thread, if there is one; who waits for something on it gives up.
void fail_current_context(CUresult error);

/// Ends all that belongs to the context: its work, handles and memory.
void destroy_context(Context &context, Lock &lock);

} // namespace lz::fake_cuda
