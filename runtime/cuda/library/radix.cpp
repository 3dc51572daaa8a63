#include "runtime/cuda/library/radix.h"

#include <fmt/format.h>

#include <utility>

namespace lz::runtime::cuda {

namespace {

constexpr unsigned kThreads = 256;
constexpr int64_t kTile = 2048;
constexpr int kDigitBits = 8;
constexpr int64_t kDigits = int64_t{1} << kDigitBits;

constexpr std::string_view kSource = R"(
const int kThreads = 256, kEach = 8, kTile = kThreads * kEach, kWarps = kThreads / 32, kDigits = 256;

__device__ __forceinline__ int digit_of(Key key, int shift) { return (int)(key >> shift) & (kDigits - 1); }

// The sum of what threads before this one have, and of all. `warps`: kWarps words of shared memory, which are
// read until the next barrier.
__device__ __forceinline__ Place sum_before(Place x, Place *warps, Place &total) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Place sum = x;
#pragma unroll
    for (int h = 1; h < 32; h *= 2) {
        const Place other = __shfl_up_sync(0xffffffffu, sum, h);
        sum += lane >= h ? other : 0;
    }
    if (lane == 31)
        warps[warp] = sum;
    __syncthreads();
    Place before = 0;
    total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
        before += w < warp ? warps[w] : 0;
        total += warps[w];
    }
    return before + sum - x;
}

// counts[row][digit][tile]: how often the digit is in the tile.
extern "C" __global__ void __launch_bounds__(kThreads)
radix_count(const Key *keys, Place *counts, long long rows, long long length, long long tiles, int shift) {
    __shared__ unsigned in_tile[kDigits];
    for (long long block = blockIdx.x; block < rows * tiles; block += gridDim.x) {
        const long long row = block / tiles, tile = block % tiles, left = length - tile * kTile;
        const Key *const from = keys + row * length + tile * kTile;
        in_tile[threadIdx.x] = 0;
        __syncthreads();
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            const int i = threadIdx.x + e * kThreads;
            if (i < left)
                atomicAdd(&in_tile[digit_of(from[i], shift)], 1u);
        }
        __syncthreads();
        counts[(row * kDigits + threadIdx.x) * tiles + tile] = in_tile[threadIdx.x];
    }
}

// counts[row][digit][tile] becomes how often the digit is in the tiles before; totals[row][digit]: in all.
extern "C" __global__ void __launch_bounds__(kThreads)
radix_sum(Place *counts, Place *totals, long long lists, long long tiles) {
    __shared__ Place warps[kWarps];
    for (long long list = blockIdx.x; list < lists; list += gridDim.x) {
        Place *const of_list = counts + list * tiles;
        Place before = 0;
        for (long long first = 0; first < tiles; first += kThreads) {
            const bool there = first + threadIdx.x < tiles;
            Place total;
            const Place sum = sum_before(there ? of_list[first + threadIdx.x] : 0, warps, total);
            if (there)
                of_list[first + threadIdx.x] = before + sum;
            before += total;
            __syncthreads();
        }
        if (threadIdx.x == 0)
            totals[list] = before;
    }
}

// Puts the pairs of each tile where their digits belong, in their order: within the tile first, so that
// neighbours go to neighbours.
extern "C" __global__ void __launch_bounds__(kThreads)
radix_put(const Key *keys, const Place *places, Key *to_keys, Place *to_places, const Place *counts, const Place *totals,
          long long rows, long long length, long long tiles, int shift) {
    __shared__ Key sorted_keys[kTile];
    __shared__ Place sorted_places[kTile], ahead[kDigits], warps[kWarps];
    __shared__ unsigned begins[kDigits], in_warp[kWarps][kDigits];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (long long block = blockIdx.x; block < rows * tiles; block += gridDim.x) {
        const long long row = block / tiles, tile = block % tiles, at = row * length + tile * kTile;
        const int count = (int)min((long long)kTile, length - tile * kTile);
#pragma unroll
        for (int w = 0; w < kWarps; ++w)
            in_warp[w][threadIdx.x] = 0;
        __syncthreads();

        // How many pairs of the warp with the same digit come before each.
        Key key[kEach];
        Place place[kEach];
        unsigned rank[kEach];
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            const int i = (warp * kEach + e) * 32 + lane;
            const bool there = i < count;
            if (e > 0)
                __syncwarp();
            key[e] = there ? keys[at + i] : 0;
            place[e] = there ? places[at + i] : 0;
            const int digit = there ? digit_of(key[e], shift) : kDigits;
            const unsigned same = __match_any_sync(0xffffffffu, digit), before = same & ((1u << lane) - 1);
            rank[e] = (there ? in_warp[warp][digit] : 0) + __popc(before);
            __syncwarp();
            if (there && before == 0)
                in_warp[warp][digit] += __popc(same);
        }
        __syncthreads();

        // A thread a digit: where it begins in each warp, in the tile, and in the row.
        unsigned in_tile = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            const unsigned in_this = in_warp[w][threadIdx.x];
            in_warp[w][threadIdx.x] = in_tile;
            in_tile += in_this;
        }
        const long long list = row * kDigits + threadIdx.x;
        Place unused;
        const unsigned begin = (unsigned)sum_before(in_tile, warps, unused);
        __syncthreads();
        const Place in_row = sum_before(totals[list], warps, unused) + counts[list * tiles + tile];
        begins[threadIdx.x] = begin;
        ahead[threadIdx.x] = in_row - begin;
        __syncthreads();

#pragma unroll
        for (int e = 0; e < kEach; ++e)
            if ((warp * kEach + e) * 32 + lane < count) {
                const int digit = digit_of(key[e], shift);
                const unsigned to = begins[digit] + in_warp[warp][digit] + rank[e];
                sorted_keys[to] = key[e];
                sorted_places[to] = place[e];
            }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            const int i = threadIdx.x + e * kThreads;
            if (i < count) {
                const Place to = ahead[digit_of(sorted_keys[i], shift)] + (Place)i;
                to_keys[row * length + to] = sorted_keys[i];
                to_places[row * length + to] = sorted_places[i];
            }
        }
    }
}
)";

} // namespace

int64_t RadixSort::tiles() const {
    return (length + kTile - 1) / kTile;
}

int64_t RadixSort::counts_bytes() const {
    return DeviceScratch::rounded(rows * kDigits * tiles() * place_bytes());
}

int64_t RadixSort::totals_bytes() const {
    return DeviceScratch::rounded(rows * kDigits * place_bytes());
}

std::string RadixSort::name() const {
    return fmt::format("{} {}", 8 * key_bytes(), 8 * place_bytes());
}

std::string RadixSort::source(std::vector<std::string> &entries) const {
    entries.insert(entries.end(), {"radix_count", "radix_sum", "radix_put"});
    return fmt::format("using Key = {};\nusing Place = {};\n", wide_keys ? "unsigned long long" : "unsigned",
                       wide_places ? "unsigned long long" : "unsigned") +
           std::string(kSource);
}

RadixSort::Pairs RadixSort::sort(const KernelLauncher &launch, Pairs pairs, DeviceScratch &scratch) const {
    Pairs other = take(scratch);
    std::byte *const counts = scratch.take_bytes(counts_bytes()), *const totals =
                                                                      scratch.take_bytes(totals_bytes());
    const int64_t blocks = rows * tiles(), lists = rows * kDigits;
    for (int shift = 0; shift < key_bits; shift += kDigitBits) {
        launch("radix_count", blocks, kThreads, pairs.keys, counts, rows, length, tiles(), shift);
        launch("radix_sum", lists, kThreads, counts, totals, lists, tiles());
        launch("radix_put", blocks, kThreads, pairs.keys, pairs.places, other.keys, other.places, counts,
               totals, rows, length, tiles(), shift);
        std::swap(pairs, other);
    }
    return pairs;
}

} // namespace lz::runtime::cuda
