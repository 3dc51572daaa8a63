#pragma once
/// A CUDA driver for machines without a GPU: a shared library with the functions of libcuda.so.1 that an
/// engine opens. Kernels are PTX, run by the interpreter of tests/support/cuda/ptx.
///
/// **To run a program on it** give its path to whatever opens the driver; Lazuli reads it from
///
///     LAZULI_CUDA_DRIVER=build/release/lib/liblazuli_fake_cuda.so ./train
///
/// and then also `LAZULI_CUBLASLT=build/release/lib/liblazuli_fake_cublaslt.so`
/// (tests/support/cuda/cublaslt). The file may not be named libcuda.so.1 nor lie where the loader finds it
/// under that name: NVRTC opens that by itself.
///
/// | variable | what it sets | without it |
/// |---|---|---|
/// | `LAZULI_FAKE_CUDA_DEVICES` | devices, 0 to 16 | 1 |
/// | `LAZULI_FAKE_CUDA_MEMORY` | bytes of each, `512M`, `2G` | 4G |
/// | `LAZULI_FAKE_CUDA_PEERS` | `0`: no device reaches another's memory | 1 |
/// | `LAZULI_FAKE_CUDA_VMM` | `0`: no virtual memory management | 1 |
/// | `LAZULI_FAKE_CUDA_CAPABILITY` | compute capability; `7.5,9.0`: of device 0, others | 99.0: new |
/// | `LAZULI_FAKE_CUDA_VERSION` | what cuDriverGetVersion says, `12010` | that of the headers, any PTX |
/// | `LAZULI_FAKE_CUDA_SEED` | streams wait at random, graphs run in random order | 0: they do not wait |
/// | `LAZULI_FAKE_CUDA_DELAY_US` | the longest such wait | 300 |
/// | `LAZULI_FAKE_CUDA_THREADS` | host threads that run the blocks of a kernel | those of the machine |
/// | `LAZULI_FAKE_CUDA_DEADLOCK_MS` | how long all may stand still before that is reported | 60000 |
/// | `LAZULI_FAKE_CUDA_FAIL` | `cuMemAlloc_v2:3:2`: the third call fails with CUresult 2 | none |
/// | `LAZULI_FAKE_CUDA_LOG` | `1`: the reason of each call that fails, on stderr | off |
/// | `CUDA_VISIBLE_DEVICES` | as for the real driver | all |
///
/// **What differs from a GPU**, all of it on purpose:
/// - Memory of a device lies at addresses that the host cannot read, blocks apart from each other, and an
///   address is not given out again before all others were. Bytes of up to 64 MiB that nobody wrote are 0xff.
/// - Handles are numbers that point nowhere; one that was destroyed is refused.
/// - A kernel that does what the interpreter reports (see ptx/machine.h) stops, says on stderr which block,
///   thread and line it was, and leaves the context with the error that the device would have found, or
///   CUDA_ERROR_LAUNCH_FAILED for what a device would not have noticed.
/// - When every stream that has work waits for a value in memory, a host thread waits for them, and nothing
///   has moved for a while, that is said on stderr, and the contexts fail with CUDA_ERROR_LAUNCH_TIMEOUT.
/// - Machine code (cubins) is refused as code for another device: CUDA_ERROR_NO_BINARY_FOR_GPU.
/// - Not there: contexts other than primary ones, managed memory, arrays and textures, cooperative launches,
///   memory pools as objects, interprocess handles, copies of several rows, nodes of graphs that hold memory,
///   child graphs or values, and the symbols for per-thread default streams (CU_STREAM_PER_THREAD is there).
///
/// Functions may be called from any thread. When the process ends they return CUDA_ERROR_DEINITIALIZED, as
/// the real driver's do, from the moment at which statics made before cuInit are destroyed. After fork, the
/// child's calls return CUDA_ERROR_NOT_INITIALIZED.

#include <stddef.h>
#include <stdint.h>

extern "C" {

/// The nth call of a function from now on (1: the next) returns `error` and does nothing else. The name is
/// that of the exported symbol; "*" stands for any. nth 0 takes it back. Several may be set.
void lazuli_fake_cuda_fail(const char *function, unsigned nth, int error);
/// The same, and the error stays with the context that is current then, as that of a kernel does: nothing
/// more runs on it.
void lazuli_fake_cuda_lose(const char *function, unsigned nth, int error);
/// Calls of a function so far, failed ones too; of all with "*".
uint64_t lazuli_fake_cuda_calls(const char *function);
/// Names of all functions that can fail, ended by null.
const char *const *lazuli_fake_cuda_functions();
/// The last report about a kernel or a deadlock, as on stderr. Returns its length, which may be more than
/// fit.
size_t lazuli_fake_cuda_message(char *text, size_t capacity);
/// What is alive: handles of all kinds but contexts, and bytes of device and pinned memory.
void lazuli_fake_cuda_live(uint64_t *handles, uint64_t *bytes);
/// Instructions that threads of kernels have run.
uint64_t lazuli_fake_cuda_instructions();
/// Turns of an SM that they would take in machine code, of a thread each (ptx/issue_slots.h).
uint64_t lazuli_fake_cuda_issue_slots();

/// For libraries beside the driver: `run(data)` is called in the order of the stream (a CUstream), then
/// `drop(data)`, also when it never ran. Captured like a kernel, then `run` may be called several times. What
/// `run` returns is a CUresult: one that is not 0 stays with the context. Returns a CUresult.
int lazuli_fake_cuda_enqueue(void *stream, int (*run)(void *data), void (*drop)(void *data), void *data);
/// Counts a call of a function of such a library; what it has to fail with (lazuli_fake_cuda_fail), else 0.
int lazuli_fake_cuda_count(const char *function);
/// The bytes of `bytes` contiguous ones at a device address that the current context may touch; null when
/// there are none. Inside `run`, the current context is the stream's.
void *lazuli_fake_cuda_bytes(uint64_t address, size_t bytes);
}
