#pragma once
/// A stable sort of pairs of a key and a place by keys, on a GPU: digits of eight bits, least significant
/// first. Each digit takes three kernels: tiles count theirs, the counts become where each tile begins, and
/// tiles put their pairs there. Nothing depends on which block is when.

#include "runtime/cuda/library/kernels.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lz::runtime::cuda {

/// Rows of `length` pairs, each sorted by itself, one behind another in memory.
struct RadixSort {
    int64_t rows, length;
    int key_bits;   ///< the low ones of a key; the others are 0
    bool wide_keys; ///< 8 bytes, else 4
    bool wide_places;

    /// Keys and places, length * rows of each.
    struct Pairs {
        void *keys, *places;
    };

    int64_t items() const { return rows * length; }
    int64_t key_bytes() const { return wide_keys ? 8 : 4; }
    int64_t place_bytes() const { return wide_places ? 8 : 4; }
    int64_t pairs_bytes() const {
        return DeviceScratch::rounded(items() * key_bytes()) +
               DeviceScratch::rounded(items() * place_bytes());
    }
    /// Of everything: two arrays of pairs, and counts.
    int64_t scratch_bytes() const { return 2 * pairs_bytes() + counts_bytes() + totals_bytes(); }
    Pairs take(DeviceScratch &scratch) const {
        std::byte *const keys = scratch.take_bytes(items() * key_bytes());
        return {keys, scratch.take_bytes(items() * place_bytes())};
    }
    /// Sorts pairs that were taken from the same scratch, which has room for the rest. Where they are then.
    Pairs sort(const KernelLauncher &launch, Pairs pairs, DeviceScratch &scratch) const;

    /// Types Key and Place, and the kernels; to be put before what uses them. `entries` gets their names.
    std::string source(std::vector<std::string> &entries) const;
    /// `32 32`: what tells sources apart.
    std::string name() const;

private:
    int64_t tiles() const;
    int64_t counts_bytes() const;
    int64_t totals_bytes() const;
};

} // namespace lz::runtime::cuda
