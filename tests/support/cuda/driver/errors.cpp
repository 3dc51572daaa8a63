// Names and texts of errors.

#include "tests/support/cuda/driver/call.h"

#include <algorithm>
#include <array>

namespace lz::fake_cuda {
namespace {

struct ErrorText {
    CUresult code;
    const char *name, *text;
};

#define ERROR(code, text)                                                                                    \
    ErrorText {                                                                                              \
        code, #code, text                                                                                    \
    }
constexpr std::array kErrors{
    ERROR(CUDA_SUCCESS, "no error"),
    ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    ERROR(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed"),
    ERROR(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
    ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    ERROR(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          "part or all of the requested memory range is already mapped"),
    ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
          "system has unsupported display driver / cuda driver combination"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR(CUDA_ERROR_CAPTURED_EVENT,
          "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
          "attempt to terminate a thread-local capture sequence from another thread"),
    ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
          "the graph update was not performed because it included changes which violated constraints "
          "specific to instantiated graph update"),
    ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE,
          "a kernel launch error has occurred due to cluster misconfiguration"),
    ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef ERROR

const ErrorText *find(CUresult code) {
    const auto *found = std::ranges::find(kErrors, code, &ErrorText::code);
    return found == kErrors.end() ? nullptr : found;
}

CUresult answer(CUresult code, const char **to, const char *ErrorText::*part) {
    if (!to)
        return CUDA_ERROR_INVALID_VALUE;
    const ErrorText *found = find(code);
    *to = found ? found->*part : nullptr;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace
} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

// Not counted and never made to fail: a program that reports an error must not meet another.
CUresult cuGetErrorName(CUresult error, const char **name) {
    return answer(error, name, &ErrorText::name);
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    return answer(error, text, &ErrorText::text);
}
