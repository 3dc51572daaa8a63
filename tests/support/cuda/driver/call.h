#pragma once
/// How every exported function begins and ends: it is counted and may be made to fail, takes the driver's
/// lock, and turns what was refused into its result.

#include "tests/support/cuda/driver/cuda_api.h"
#include "tests/support/cuda/driver/faults.h"

#include <mutex>
#include <new>
#include <string>
#include <type_traits>

namespace lz::fake_cuda {

/// A call that fails, with the reason for people (LAZULI_FAKE_CUDA_LOG=1).
struct Refused {
    CUresult code;
    std::string why;
};
[[noreturn]] void refuse(CUresult code, std::string why);
/// A null pointer where a result goes is a value that is refused.
template <class T>
void need(T *pointer, const char *name) {
    if (!pointer)
        refuse(CUDA_ERROR_INVALID_VALUE, std::string(name) + " is null");
}

using Lock = std::unique_lock<std::mutex>;

/// The one lock, over all state but memory's table and the bytes themselves. Kernels, copies and callbacks
/// run without it.
std::mutex &driver_mutex();
/// Whether cuInit was called, in this process and not before a fork.
bool is_initialized();
void set_initialized();
/// Whether the process is ending, and what the driver needs may be gone: like the real one it does nothing
/// any more.
bool has_ended();
/// Set while this thread runs a function that the user gave to a stream: it may not call the driver.
bool &in_callback();

CUresult log_refused(const char *function, const Refused &refused);

template <class F>
CUresult call_without_init(const char *function, F &&body) {
    if (has_ended())
        return CUDA_ERROR_DEINITIALIZED;
    if (const CUresult injected = fail_or_count(function))
        return injected;
    if (in_callback())
        return log_refused(function, {CUDA_ERROR_NOT_PERMITTED, "a callback calls the driver"});
    try {
        Lock lock(driver_mutex());
        if constexpr (std::is_void_v<std::invoke_result_t<F, Lock &>>) {
            body(lock);
            return CUDA_SUCCESS;
        } else {
            return body(lock);
        }
    } catch (const Refused &refused) {
        return log_refused(function, refused);
    } catch (const std::bad_alloc &) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}

/// body(Lock &) returns nothing or a CUresult. __func__ is the exported name, for macros of cuda.h have
/// renamed the function.
template <class F>
CUresult call(const char *function, F &&body) {
    return call_without_init(function, [&](Lock &lock) {
        if (!is_initialized())
            refuse(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called in this process");
        return body(lock);
    });
}

} // namespace lz::fake_cuda
