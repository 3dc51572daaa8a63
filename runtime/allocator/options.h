#pragma once
/// Options of the caching allocator, by PyTorch's names (PYTORCH_CUDA_ALLOC_CONF).

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lz::runtime {

struct AllocatorOptions {
    /// false: every request is the driver's (LAZULI_NO_MEMORY_CACHING).
    bool caching = true;
    /// `max_split_size_mb`: free blocks of this size and more are not split, and serve only requests that
    /// large.
    size_t max_split_size = SIZE_MAX;
    /// `max_non_split_rounding_mb`: how much larger such a block may be than the request it serves.
    size_t max_non_split_rounding = size_t{20} << 20;
    /// `roundup_power2_divisions`: sizes are rounded up to one of so many steps between powers of two; entry
    /// i is for sizes in [2^i MiB, 2^(i+1) MiB), the first also for smaller and the last for larger ones. 0:
    /// not rounded.
    std::vector<uint32_t> roundup_divisions;
    /// `garbage_collection_threshold`: above this part of the memory allowed, old unused segments go back to
    /// the driver before a new one is asked for. 0: off.
    double garbage_collection_threshold = 0;

    /// Reads `name:value,name:value,...`, as PyTorch does; lists are [256:1,512:2,>:4]. Throws Failure(State)
    /// that names what it cannot read; an option of PyTorch's with no meaning here is such a thing.
    static AllocatorOptions parse(std::string_view text);

    /// The size a request is served with: at least 512, a multiple of it.
    size_t round(size_t bytes) const;
};

} // namespace lz::runtime
