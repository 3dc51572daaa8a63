#pragma once
/// A source that NVRTC compiles, and what comes of it. For this folder alone.

#include "codegen/cuda/nvrtc.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lz::codegen {

/// Throws Failure(Compile) when NVRTC says that it did not give `what`.
void check_nvrtc(const Nvrtc &nvrtc, int error, std::string_view what);

namespace cuda {

class Unit {
public:
    /// What of CompileOptions is NVRTC's.
    struct Options {
        bool fast_math = false, fast_compile = false;
    };
    /// For an architecture, as `--gpu-architecture=sm_90`. Throws Failure(Compile) with NVRTC's log.
    Unit(const Nvrtc &nvrtc, const std::string &kernel, const std::string &source,
         const std::string &architecture, const Options &options);
    ~Unit() { nvrtc_.destroy(&program_); }
    Unit(const Unit &) = delete;
    Unit &operator=(const Unit &) = delete;

    std::vector<std::byte> ptx() const { return get(nvrtc_.ptx_size, nvrtc_.ptx); }
    std::vector<std::byte> cubin() const { return get(nvrtc_.cubin_size, nvrtc_.cubin); }
    std::string ptx_text() const;
    /// Of machine code what its assembler says of each entry: registers, spills, shared memory.
    std::string log() const;

private:
    std::vector<std::byte> get(int (*size_of)(Nvrtc::Program, size_t *),
                               int (*read)(Nvrtc::Program, char *)) const;

    const Nvrtc &nvrtc_;
    Nvrtc::Program program_ = nullptr;
};

} // namespace cuda
} // namespace lz::codegen
