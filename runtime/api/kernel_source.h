#pragma once
/// Kernels that the runtime or the user writes as text, and launches by hand: they are compiled where code is
/// generated, and kept in the kernel cache beside what is emitted.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lz::runtime {

class Backend;
class Module;

/// CUDA C++ without #include.
struct KernelSource {
    std::string name; ///< for people
    std::string text;
    std::vector<std::string> entries; ///< `extern "C" __global__` functions of the text
    bool uses_prelude = false; ///< the emitter's (codegen/cuda/prelude.h): what it uses is put before it
    uint32_t shared_bytes = 0; ///< of dynamic shared memory, the most that a launch of one asks for
};

/// Code of a source for a backend, compiled or found. Its entries (Module::entry) are launched by who asked.
/// Throws Failure(Compile), with the compiler's words, for a text that is wrong.
using SourceLoader = std::function<std::shared_ptr<const Module>(const KernelSource &, Backend &)>;

} // namespace lz::runtime
