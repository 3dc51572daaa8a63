#pragma once
/// Why a value could not be computed; shared by all values that depend on it (S26).

#include "ir/diagnostic.h"
#include "lazuli/core/location.h"

#include <atomic>
#include <cstdint>

namespace lz::detail {

struct FailureRecord {
    explicit FailureRecord(ir::Failure what, Location where) : failure(std::move(what)), loc(where) {}

    std::atomic<uint32_t> refs{1};
    const ir::Failure failure;
    const Location loc; ///< of the operation that failed
    /// Whether the thread that launched the operation knows. Until then its handles are as they would be if
    /// nobody had looked yet: when that happens does not show in results.
    std::atomic<bool> told{false};

    void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
    void release() noexcept {
        if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
            delete this;
    }
};

} // namespace lz::detail
