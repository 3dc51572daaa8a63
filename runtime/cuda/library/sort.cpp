#include "runtime/cuda/library/kernels.h"
#include "runtime/cuda/library/radix.h"

#include "ir/dtype.h"

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
    RadixSort by_key(ir::DType dtype) const {
        const int bytes = static_cast<int>(ir::size_of(dtype));
        return {rows(), extent, 8 * bytes, bytes == 8, extent > std::numeric_limits<uint32_t>::max()};
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

/// Bitonic: pairs of a key and a place are never equal, so that any sort is a stable one. Slots behind a
/// row's end have the highest key and places behind all others.
constexpr std::string_view kShortRows = R"(
const int kThreads = 256, kSlots = 2048;

extern "C" __global__ void __launch_bounds__(kThreads)
sort_short(const Bits *in, Bits *values, long long *indices, Rows rows, int slots) {
    __shared__ Key keys[kSlots];
    __shared__ unsigned places[kSlots];
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
        for (int size = 2; size <= slots; size *= 2)
            for (int step = size / 2; step > 0; step /= 2) {
                for (int t = threadIdx.x; t < kSlots / 2; t += kThreads) {
                    const int low = t / step * 2 * step + t % step, high = low + step;
                    const bool falling = (low % slots & size) != 0;
                    const Key x = keys[low], y = keys[high];
                    const unsigned at_x = places[low], at_y = places[high];
                    if ((x > y || (x == y && at_x > at_y)) != falling) {
                        keys[low] = y;
                        keys[high] = x;
                        places[low] = at_y;
                        places[high] = at_x;
                    }
                }
                __syncthreads();
            }
        for (int s = threadIdx.x; s < kSlots; s += kThreads) {
            const long long row = first + s / slots;
            const int i = s % slots;
            if (row < rows.count() && i < rows.kept) {
                const long long to = rows.begin(row, rows.kept) + i * rows.inner;
                values[to] = in[rows.begin(row, rows.extent) + places[s] * rows.inner];
                indices[to] = places[s];
            }
        }
        __syncthreads();
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

void sort_short(const LibraryKernels &kernels, const LibraryArgs &args, const Job &job, ir::DType dtype) {
    const std::string name = fmt::format("sort {} of short rows", ir::name(dtype));
    const Module &code = kernels.find(name, [&] {
        return KernelSource{
            name,
            fmt::format("using Key = {};\n", ir::size_of(dtype) == 8 ? "unsigned long long" : "unsigned") +
                header(dtype) + std::string(kShortRows),
            {"sort_short"},
            true};
    });
    const auto slots = static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(job.extent)));
    const int64_t together = kShort / slots;
    const KernelLauncher launch(kernels, code, args.driver_stream);
    launch("sort_short", (job.rows() + together - 1) / together, kThreads, args.buffers[0], args.buffers[1],
           args.buffers[2], job, slots);
}

void sort_long(const LibraryKernels &kernels, const LibraryArgs &args, const Job &job, ir::DType dtype) {
    const RadixSort by_key = job.by_key(dtype);
    const std::string name = fmt::format("sort {} {}", ir::name(dtype), by_key.name());
    const Module &code = kernels.find(name, [&] {
        KernelSource source{name, "", {"sort_begin", "sort_end"}, true};
        source.text = by_key.source(source.entries) + header(dtype) + std::string(kLongRows);
        return source;
    });
    const KernelLauncher launch(kernels, code, args.driver_stream);
    DeviceScratch scratch(args);
    const RadixSort::Pairs pairs = by_key.take(scratch);
    const auto blocks = [](int64_t items) { return (items + kThreads - 1) / kThreads; };
    launch("sort_begin", blocks(by_key.items()), kThreads, args.buffers[0], pairs.keys, pairs.places, job);
    const RadixSort::Pairs sorted = by_key.sort(launch, pairs, scratch);
    launch("sort_end", blocks(job.rows() * job.kept), kThreads, args.buffers[0], sorted.places,
           args.buffers[1], args.buffers[2], job);
}

} // namespace

int64_t sort_scratch(std::span<const int64_t> ints, const ir::DeviceInfo &) {
    const Job job(ints);
    return job.empty() || job.is_short() ? 0 : job.by_key(static_cast<ir::DType>(ints[0])).scratch_bytes();
}

void sort(const LibraryKernels &kernels, const LibraryArgs &args) {
    const Job job(args.ints);
    if (!job.empty())
        (job.is_short() ? sort_short : sort_long)(kernels, args, job, static_cast<ir::DType>(args.ints[0]));
}

} // namespace lz::runtime::cuda
