#pragma once
/// NVRTC, opened at run time, for tests: CUDA C++ to PTX, which needs no GPU.

#include <string>
#include <string_view>

namespace lz::test {

/// Why there is no NVRTC; empty when there is one. Looks at LAZULI_NVRTC, CUDA_HOME, CUDA_PATH,
/// /usr/local/cuda and where the loader looks.
const std::string &why_no_nvrtc();

/// The library, as dlopen gave it; null where there is none.
void *nvrtc_library();

/// PTX of compute_90 with the flags that the engine uses. Throws std::runtime_error with the compiler's log.
std::string compile_to_ptx(std::string_view source);

} // namespace lz::test
