#pragma once
/// Launches, library calls and copies as threads of the host do them: at once, or packed for later.

#include "runtime/api/backend.h"

#include <cstddef>
#include <span>

namespace lz::runtime {

/// Runs a launch to its end on this thread, with the pool's help where its cost is worth it.
void run_launch(const Backend::Launch &launch);
/// Copies on this thread, large blocks with the pool's help.
void copy_bytes(void *to, const void *from, size_t bytes);

/// Bytes (aligned to 16) that hold a launch and all that it points to, but for the faults.
size_t packed_size(const Backend::Launch &launch);
/// Writes it there. Returns all buffer pointers of all segments, for translation.
std::span<void *> pack(const Backend::Launch &launch, void *packed);
/// Runs what `pack` wrote, but for segments that their guards hold back. When there is no memory for scratch
/// the fault of its first segment says so; where that has none (nothing was known to need any) it throws.
void run_packed_launch(void *packed);

/// The same for library calls; their scratch is among the pointers.
size_t packed_size(const Backend::Call &call);
std::span<void *> pack(const Backend::Call &call, void *packed);
void run_packed_call(void *packed);

/// A copy.
struct PackedCopy {
    void *to;
    const void *from;
    size_t bytes;
};
void run_packed_copy(void *packed);

/// Several of these one after another in one block: each behind a header that says how it is run, the last
/// header with nothing to run.
struct PackedHeader {
    void (*run)(void *packed);
    size_t bytes; ///< of what is behind it
};
void run_packed_sequence(void *packed);

} // namespace lz::runtime
