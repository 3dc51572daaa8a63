#pragma once
/// Kernels that the library has as text (runtime/api/kernel_source.h), compiled and kept in program files.

#include "ir/program/program.h"
#include "ir/saved/saved_program.h"
#include "runtime/api/backend.h"
#include "runtime/api/kernel_source.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lz::runtime {

/// What a call of a function of the library launches on CUDA devices (runtime/cuda/gpus.h).
using LibrarySource = std::optional<KernelSource> (*)(std::string_view symbol, std::span<const int64_t> ints);

/// What tells texts apart.
uint64_t hash_of(const KernelSource &source);

/// The integers of a library call, of a Program whose runtime words are these. Throws Failure(Io) where it
/// names words that are not there.
std::vector<int64_t> ints_of(const ir::Step &step, std::span<const int64_t> words);

/// What the program files of a process have, for backends that cannot compile it, or need not. Any thread.
class LibraryCode {
public:
    /// Copies what a file has.
    void add(const ir::SavedProgram &file);
    /// Whether there is code of a text that a device of this compute capability runs.
    bool has(const KernelSource &source, uint32_t sm) const;
    /// That code, loaded; null: there is none. Throws as Backend::load.
    std::shared_ptr<const Module> load(const KernelSource &source, Backend &backend) const;

private:
    const ir::SavedCode *find(const KernelSource &source, uint32_t sm) const;

    mutable std::mutex mutex_;
    /// By hash_of. What is there once stays.
    std::map<uint64_t, std::vector<std::unique_ptr<const ir::SavedCode>>> kernels_;
};

} // namespace lz::runtime
