#include "runtime/cuda/library/kernels.h"
#include "runtime/cuda/library/radix.h"

#include "ir/types/dtype.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

namespace lz::runtime::cuda {

namespace {

constexpr unsigned kThreads = 256;
/// Rows of so many elements at the most are sorted in shared memory, by one block, several where they are
/// short.
constexpr int64_t kShort = 2048;

/// The array is (outer, extent, inner), sorted along extent, of which the first `kept` are wanted.
struct Job {
    int64_t outer, extent, inner;
    int32_t descending;
    int64_t kept;

    explicit Job(std::span<const int64_t> ints)
        : outer(ints[1]), extent(ints[2]), inner(ints[3]), descending(ints[4] != 0),
          kept(ints.size() > 5 ? ints[5] : extent) {}
    int64_t rows() const { return outer * inner; }
    bool empty() const { return rows() * kept == 0; }
    bool is_short() const { return extent <= kShort; }
    /// Few of a long row.
    bool is_first() const { return !is_short() && kept <= kShort; }
    bool wide_places() const { return extent > std::numeric_limits<uint32_t>::max(); }
    RadixSort by_key(ir::DType dtype) const {
        const int bytes = static_cast<int>(ir::size_of(dtype));
        return {rows(), extent, 8 * bytes, bytes == 8, wide_places()};
    }
};

/// A key has the order of its element: NaN is above everything, -0 equals +0.
constexpr std::string_view kKeys = R"(
struct Rows {
    long long outer, extent, inner;
    int descending;
    long long kept;
    __device__ long long count() const { return outer * inner; }
    // The first element of a row, where rows have `length` elements.
    __device__ long long begin(long long row, long long length) const { return row / inner * length * inner + row % inner; }
};

__device__ __forceinline__ Key key_of(Bits bits, bool descending) {
    const Bits sign = (Bits)1 << (8 * sizeof(Bits) - 1);
    Bits key = bits;
    if (is_float) {
        const Bits magnitude = bits & (Bits)~sign;
        key = magnitude > infinity ? (Bits)~(Bits)0 : magnitude == 0 ? sign : bits & sign ? (Bits)~bits : (Bits)(bits | sign);
    } else if (is_signed) {
        key = bits ^ sign;
    }
    return descending ? (Bits)~key : key;
}
)";

/// Pairs of a key and a place are never equal, so that any sort by both is a stable one. Slots behind a row's
/// end have the highest key and places behind all others.
constexpr std::string_view kBitonic = R"(
const int kThreads = 256, kSlots = 2048;

// Rows of `slots` pairs each, a power of two.
__device__ __forceinline__ void sort_slots(Key *keys, Place *places, int slots) {
    for (int size = 2; size <= slots; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            for (int t = threadIdx.x; t < kSlots / 2; t += kThreads) {
                const int low = t / step * 2 * step + t % step, high = low + step;
                const bool falling = (low % slots & size) != 0;
                const Key x = keys[low], y = keys[high];
                const Place at_x = places[low], at_y = places[high];
                if ((x > y || (x == y && at_x > at_y)) != falling) {
                    keys[low] = y;
                    keys[high] = x;
                    places[low] = at_y;
                    places[high] = at_x;
                }
            }
            __syncthreads();
        }
}
)";

constexpr std::string_view kShortRows = R"(
extern "C" __global__ void __launch_bounds__(kThreads)
sort_short(const Bits *in, Bits *values, long long *indices, Rows rows, int slots) {
    __shared__ Key keys[kSlots];
    __shared__ Place places[kSlots];
    const int together = kSlots / slots; // rows
    for (long long first = (long long)blockIdx.x * together; first < rows.count(); first += (long long)gridDim.x * together) {
        for (int s = threadIdx.x; s < kSlots; s += kThreads) {
            const long long row = first + s / slots;
            const int place = s % slots;
            const bool there = row < rows.count() && place < rows.extent;
            keys[s] = there ? key_of(in[rows.begin(row, rows.extent) + place * rows.inner], rows.descending) : (Key)~(Key)0;
            places[s] = place;
        }
        __syncthreads();
        sort_slots(keys, places, slots); // then a thread reads the slots that it writes again
        for (int s = threadIdx.x; s < kSlots; s += kThreads) {
            const long long row = first + s / slots;
            const int i = s % slots;
            if (row < rows.count() && i < rows.kept) {
                const long long to = rows.begin(row, rows.kept) + i * rows.inner;
                values[to] = in[rows.begin(row, rows.extent) + places[s] * rows.inner];
                indices[to] = places[s];
            }
        }
    }
}
)";

constexpr std::string_view kLongRows = R"(
extern "C" __global__ void __launch_bounds__(kThreads)
sort_begin(const Bits *in, Key *keys, Place *places, Rows rows) {
    const long long count = rows.count() * rows.extent;
    for (long long n = (long long)blockIdx.x * kThreads + threadIdx.x; n < count; n += (long long)gridDim.x * kThreads) {
        const long long place = n % rows.extent;
        keys[n] = key_of(in[rows.begin(n / rows.extent, rows.extent) + place * rows.inner], rows.descending);
        places[n] = (Place)place;
    }
}
extern "C" __global__ void __launch_bounds__(kThreads)
sort_end(const Bits *in, const Place *places, Bits *values, long long *indices, Rows rows) {
    const long long count = rows.count() * rows.kept;
    for (long long n = (long long)blockIdx.x * kThreads + threadIdx.x; n < count; n += (long long)gridDim.x * kThreads) {
        const long long row = n / rows.kept, i = n % rows.kept, place = (long long)places[row * rows.extent + i];
        const long long to = rows.begin(row, rows.kept) + i * rows.inner;
        values[to] = in[rows.begin(row, rows.extent) + place * rows.inner];
        indices[to] = place;
    }
}
)";

/// The first of a long row without a sort of all of it: the last of them is found digit by digit of eight
/// bits, from the highest of its key to the lowest of its place, by counting those that agree with what is
/// known of it; then all up to it are taken and sorted. Sums of counts do not depend on which block is when,
/// and in which order the pairs are taken does not matter to the sort.
constexpr std::string_view kFirst = R"(
const int kTile = 8192, kDigits = 256;

// Of a row: what is known of the last one that is wanted, how many of those that agree are, and how many were taken.
struct Last {
    Key key;
    Place place;
    Place left, taken;
    int known; // all of it
};

extern "C" __global__ void __launch_bounds__(kThreads)
first_begin(Last *last, Place *counts, Rows rows) {
    for (long long row = blockIdx.x; row < rows.count(); row += gridDim.x) {
        counts[row * kDigits + threadIdx.x] = 0;
        if (threadIdx.x == 0) {
            Last begin = {};
            begin.left = (Place)rows.kept;
            last[row] = begin;
        }
    }
}

// The digit at `shift` bits, of places where `of_places`.
extern "C" __global__ void __launch_bounds__(kThreads)
first_count(const Bits *in, const Last *last, Place *counts, Rows rows, int of_places, int shift) {
    __shared__ unsigned in_tile[kDigits];
    const long long tiles = (rows.extent + kTile - 1) / kTile;
    for (long long block = blockIdx.x; block < rows.count() * tiles; block += gridDim.x) {
        const long long row = block / tiles, first = block % tiles * kTile;
        const Last of_row = last[row];
        if (of_row.known)
            continue;
        in_tile[threadIdx.x] = 0;
        __syncthreads();
        const Bits *const from = in + rows.begin(row, rows.extent);
        for (int i = threadIdx.x; i < kTile; i += kThreads) {
            const long long place = first + i;
            int digit = kDigits;
            if (place < rows.extent) {
                const Key key = key_of(from[place * rows.inner], rows.descending);
                // What lies above the digit; in two steps, since it may be all bits.
                const bool agrees = of_places ? key == of_row.key && (Place)place >> shift >> 8 == of_row.place >> shift >> 8
                                              : key >> shift >> 8 == of_row.key >> shift >> 8;
                if (agrees)
                    digit = (int)((of_places ? (unsigned long long)place : (unsigned long long)key) >> shift) & (kDigits - 1);
            }
            const unsigned same = __match_any_sync(0xffffffffu, digit);
            if (digit < kDigits && (same & ((1u << threadIdx.x % 32) - 1)) == 0)
                atomicAdd(&in_tile[digit], __popc(same));
        }
        __syncthreads();
        if (in_tile[threadIdx.x] != 0)
            atomicAdd(&counts[row * kDigits + threadIdx.x], (Place)in_tile[threadIdx.x]);
    }
}

// The digit of the last one; counts are 0 again.
extern "C" __global__ void __launch_bounds__(kThreads)
first_digit(Last *last, Place *counts, Rows rows, int of_places, int shift) {
    __shared__ Place sums[2][kDigits];
    for (long long row = blockIdx.x; row < rows.count(); row += gridDim.x) {
        Last of_row = last[row];
        const Place count = counts[row * kDigits + threadIdx.x];
        counts[row * kDigits + threadIdx.x] = 0;
        sums[0][threadIdx.x] = count;
        int at = 0;
        for (int h = 1; h < kDigits; h *= 2, at = 1 - at) {
            __syncthreads();
            sums[1 - at][threadIdx.x] = sums[at][threadIdx.x] + (threadIdx.x >= h ? sums[at][threadIdx.x - h] : 0);
        }
        const Place before = sums[at][threadIdx.x] - count;
        if (!of_row.known && before < of_row.left && of_row.left <= before + count) {
            of_row.left -= before;
            of_row.known = of_row.left == count; // all that agree are wanted
            if (of_places)
                of_row.place |= (Place)threadIdx.x << shift | (of_row.known ? ((Place)1 << shift) - 1 : 0);
            else
                of_row.key |= (Key)threadIdx.x << shift | (of_row.known ? ((Key)1 << shift) - 1 : 0);
            if (of_row.known && !of_places)
                of_row.place = (Place)~(Place)0;
            last[row] = of_row;
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
first_take(const Bits *in, Last *last, Key *keys, Place *places, Rows rows) {
    const long long tiles = (rows.extent + kTile - 1) / kTile;
    for (long long block = blockIdx.x; block < rows.count() * tiles; block += gridDim.x) {
        const long long row = block / tiles, first = block % tiles * kTile;
        const Key most = last[row].key;
        const Place behind = last[row].place;
        const Bits *const from = in + rows.begin(row, rows.extent);
        for (int i = threadIdx.x; i < kTile && first + i < rows.extent; i += kThreads) {
            const Place place = (Place)(first + i);
            const Key key = key_of(from[(first + i) * rows.inner], rows.descending);
            if (key < most || (key == most && place <= behind)) {
                const long long to = row * rows.kept + atomicAdd(&last[row].taken, (Place)1);
                keys[to] = key;
                places[to] = place;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
first_sort(const Bits *in, const Key *from_keys, const Place *from_places, Bits *values, long long *indices, Rows rows,
           int slots) {
    __shared__ Key keys[kSlots];
    __shared__ Place places[kSlots];
    const int together = kSlots / slots; // rows
    for (long long first = (long long)blockIdx.x * together; first < rows.count(); first += (long long)gridDim.x * together) {
        for (int s = threadIdx.x; s < kSlots; s += kThreads) {
            const long long row = first + s / slots, at = row * rows.kept + s % slots;
            const bool there = row < rows.count() && s % slots < rows.kept;
            keys[s] = there ? from_keys[at] : (Key)~(Key)0;
            places[s] = there ? from_places[at] : (Place)~(Place)0;
        }
        __syncthreads();
        sort_slots(keys, places, slots); // then a thread reads the slots that it writes again
        for (int s = threadIdx.x; s < kSlots; s += kThreads) {
            const long long row = first + s / slots, i = s % slots;
            if (row < rows.count() && i < rows.kept) {
                const long long to = rows.begin(row, rows.kept) + i * rows.inner;
                values[to] = in[rows.begin(row, rows.extent) + (long long)places[s] * rows.inner];
                indices[to] = (long long)places[s];
            }
        }
    }
}
)";

/// Types Bits and what is known of them.
std::string header(ir::DType dtype) {
    constexpr std::string_view kBits[] = {"unsigned char", "unsigned short", "unsigned",
                                          "unsigned long long"};
    const auto bytes = static_cast<unsigned>(ir::size_of(dtype));
    const uint64_t infinity = dtype == ir::DType::F16    ? 0x7C00
                              : dtype == ir::DType::BF16 ? 0x7F80
                              : dtype == ir::DType::F32  ? 0x7F800000
                              : dtype == ir::DType::F64  ? 0x7FF0000000000000
                                                         : 0;
    return fmt::format("using Bits = {};\nconst bool is_float = {}, is_signed = {};\nconst Bits infinity = "
                       "{:#x};\n",
                       kBits[std::countr_zero(bytes)], ir::is_float(dtype), ir::is_signed(dtype), infinity) +
           std::string(kKeys);
}

/// Types Key and Place.
std::string pair_types(ir::DType dtype, bool wide_places) {
    const auto type = [](bool wide) { return wide ? "unsigned long long" : "unsigned"; };
    return fmt::format("using Key = {};\nusing Place = {};\n", type(ir::size_of(dtype) == 8),
                       type(wide_places));
}

/// What sorts such rows.
std::string name_of(const Job &job, ir::DType dtype) {
    if (job.is_short())
        return fmt::format("sort {} of short rows", ir::name(dtype));
    return job.is_first()
               ? fmt::format("the first of {}{}", ir::name(dtype), job.wide_places() ? ", 64-bit places" : "")
               : fmt::format("sort {} {}", ir::name(dtype), job.by_key(dtype).name());
}

KernelSource source_of(const Job &job, ir::DType dtype) {
    const std::string name = name_of(job, dtype);
    if (job.is_short())
        return {name,
                pair_types(dtype, false) + header(dtype) + std::string(kBitonic) + std::string(kShortRows),
                {"sort_short"},
                true};
    if (job.is_first())
        return {name,
                pair_types(dtype, job.wide_places()) + header(dtype) + std::string(kBitonic) +
                    std::string(kFirst),
                {"first_begin", "first_count", "first_digit", "first_take", "first_sort"},
                true};
    KernelSource source{name, "", {"sort_begin", "sort_end"}, true};
    source.text = job.by_key(dtype).source(source.entries) + header(dtype) + std::string(kLongRows);
    return source;
}

const Module &find_code(const LibraryKernels &kernels, const Job &job, ir::DType dtype) {
    return kernels.find(name_of(job, dtype), [&] { return source_of(job, dtype); });
}

void sort_short(const LibraryKernels &kernels, const LibraryArgs &args, const Job &job, ir::DType dtype) {
    const Module &code = find_code(kernels, job, dtype);
    const auto slots = static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(job.extent)));
    const int64_t together = kShort / slots;
    const KernelLauncher launch(kernels, code, args.driver_stream);
    launch("sort_short", (job.rows() + together - 1) / together, kThreads, args.buffers[0], args.buffers[1],
           args.buffers[2], job, slots);
}

void sort_long(const LibraryKernels &kernels, const LibraryArgs &args, const Job &job, ir::DType dtype) {
    const RadixSort by_key = job.by_key(dtype);
    const Module &code = find_code(kernels, job, dtype);
    const KernelLauncher launch(kernels, code, args.driver_stream);
    DeviceScratch scratch(args);
    const RadixSort::Pairs pairs = by_key.take(scratch);
    const auto blocks = [](int64_t items) { return (items + kThreads - 1) / kThreads; };
    launch("sort_begin", blocks(by_key.items()), kThreads, args.buffers[0], pairs.keys, pairs.places, job);
    const RadixSort::Pairs sorted = by_key.sort(launch, pairs, scratch);
    launch("sort_end", blocks(job.rows() * job.kept), kThreads, args.buffers[0], sorted.places,
           args.buffers[1], args.buffers[2], job);
}

/// What first_begin and those after it work on.
struct FirstArrays {
    int64_t last, counts, keys, places; ///< bytes

    FirstArrays(const Job &job, ir::DType dtype) {
        const int64_t key = ir::size_of(dtype) == 8 ? 8 : 4, place = job.wide_places() ? 8 : 4;
        last = job.rows() * (key + 3 * place + 16); // of Last, at most
        counts = job.rows() * 256 * place;
        keys = job.rows() * job.kept * key;
        places = job.rows() * job.kept * place;
    }
    int64_t all() const {
        int64_t bytes = 0;
        for (const int64_t array : {last, counts, keys, places})
            bytes += DeviceScratch::rounded(array);
        return bytes;
    }
};

void sort_first(const LibraryKernels &kernels, const LibraryArgs &args, const Job &job, ir::DType dtype) {
    const Module &code = find_code(kernels, job, dtype);
    const KernelLauncher launch(kernels, code, args.driver_stream);
    DeviceScratch scratch(args);
    const FirstArrays arrays(job, dtype);
    const void *const in = args.buffers[0];
    void *const last = scratch.take_bytes(arrays.last), *const counts = scratch.take_bytes(arrays.counts),
                *const keys = scratch.take_bytes(arrays.keys),
                *const places = scratch.take_bytes(arrays.places);
    constexpr int64_t kTile = 8192;
    const int64_t tiles = job.rows() * ((job.extent + kTile - 1) / kTile);
    launch("first_begin", job.rows(), kThreads, last, counts, job);
    const auto digits = [&](bool of_places, int bits) {
        for (int32_t shift = (bits + 7) / 8 * 8 - 8, of = of_places; shift >= 0; shift -= 8) {
            launch("first_count", tiles, kThreads, in, last, counts, job, of, shift);
            launch("first_digit", job.rows(), kThreads, last, counts, job, of, shift);
        }
    };
    digits(false, 8 * static_cast<int>(ir::size_of(dtype)));
    digits(true, static_cast<int>(std::bit_width(static_cast<uint64_t>(job.extent - 1))));
    launch("first_take", tiles, kThreads, in, last, keys, places, job);
    const auto slots = static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(job.kept)));
    const int64_t together = kShort / slots;
    launch("first_sort", (job.rows() + together - 1) / together, kThreads, in, keys, places, args.buffers[1],
           args.buffers[2], job, slots);
}

} // namespace

int64_t sort_scratch(std::span<const int64_t> ints, const ir::DeviceInfo &) {
    const Job job(ints);
    if (job.empty() || job.is_short())
        return 0;
    const auto dtype = static_cast<ir::DType>(ints[0]);
    return job.is_first() ? FirstArrays(job, dtype).all() : job.by_key(dtype).scratch_bytes();
}

std::optional<KernelSource> sort_source(std::span<const int64_t> ints) {
    const Job job(ints);
    if (job.empty())
        return std::nullopt;
    return source_of(job, static_cast<ir::DType>(ints[0]));
}

void sort(const LibraryKernels &kernels, const LibraryArgs &args) {
    const Job job(args.ints);
    if (!job.empty())
        (job.is_short()   ? sort_short
         : job.is_first() ? sort_first
                          : sort_long)(kernels, args, job, static_cast<ir::DType>(args.ints[0]));
}

} // namespace lz::runtime::cuda
