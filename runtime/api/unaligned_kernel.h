#pragma once
/// Code of a kernel for launches that its own code is not for: made when the first of them comes, because
/// most kernels see none, and it takes as long to compile as the other.

#include "ir/diagnostic.h"
#include "runtime/api/backend.h"

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace lz::runtime {

class UnalignedKernel {
public:
    /// Gives the code of ir::any_address(kernel), whose launches are described as the kernel's but for their
    /// shared memory.
    using Make = std::function<LoadedKernel()>;

    explicit UnalignedKernel(Make make) : make_(std::move(make)) {}

    /// The first caller makes the code, and others wait. Throws what `make` throws; the next caller then
    /// tries again. Any thread.
    void prepare() const {
        if (!is_made_.load(std::memory_order_acquire)) [[unlikely]]
            make();
    }
    /// The entry of a phase, in order of Kernel::phases, prepared.
    void *entry(size_t phase) const {
        prepare();
        LZ_CHECK(phase < entries_.size(), "a launch is of a phase that its kernel does not have");
        return entries_[phase];
    }

private:
    [[gnu::cold]] void make() const {
        const std::lock_guard lock(mutex_);
        if (is_made_.load(std::memory_order_relaxed))
            return;
        try {
            LoadedKernel made = make_();
            std::vector<void *> entries;
            for (const ir::CompiledPhase &phase : made.phases)
                entries.push_back(made.module->entry(phase.symbol));
            module_ = std::move(made.module);
            entries_ = std::move(entries);
        } catch (const ir::Failure &failure) {
            if (failure.kind() != ir::ErrorKind::Compile)
                throw;
            throw ir::Failure(failure.kind(), fmt::format("the kernel for addresses that are no multiples of "
                                                          "16 bytes could not be made: {}",
                                                          failure.message()));
        }
        make_ = nullptr;
        is_made_.store(true, std::memory_order_release);
    }

    mutable std::mutex mutex_; ///< guards what follows, which stays as it is once it is made
    mutable Make make_;
    mutable std::shared_ptr<const Module> module_;
    mutable std::vector<void *> entries_;
    mutable std::atomic<bool> is_made_{false};
};

} // namespace lz::runtime
