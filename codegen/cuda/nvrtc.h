#pragma once
/// The functions of NVRTC that are called. Types are written out as the ABI of NVRTC 12 and 13 has them, so
/// that no header of CUDA is needed to build.

#include <cstddef>

namespace lz::codegen {

/// NVRTC, opened by whoever knows where it is; it stays open.
struct Nvrtc {
    using Program = void *;
    int (*version)(int *major, int *minor) = nullptr;
    int (*num_archs)(int *count) = nullptr;
    int (*archs)(int *list) = nullptr;
    int (*create)(Program *, const char *source, const char *name, int headers, const char *const *,
                  const char *const *) = nullptr;
    int (*compile)(Program, int options, const char *const *) = nullptr;
    int (*log_size)(Program, size_t *) = nullptr;
    int (*log)(Program, char *) = nullptr;
    int (*ptx_size)(Program, size_t *) = nullptr;
    int (*ptx)(Program, char *) = nullptr;
    int (*cubin_size)(Program, size_t *) = nullptr;
    int (*cubin)(Program, char *) = nullptr;
    int (*destroy)(Program *) = nullptr;
    const char *(*error)(int) = nullptr;
};

/// The functions of a library that dlopen has opened. Throws Failure(Compile), which names what it lacks.
Nvrtc load_nvrtc(void *library);

} // namespace lz::codegen
