#include "runtime/cuda/library/elements.h"
#include "runtime/cuda/library/kernels.h"

#include <fmt/format.h>

namespace lz::runtime::cuda {

namespace {

/// Lines of more columns than this are neighbours in memory, a thread each; those of fewer go through tiles.
constexpr int64_t kNarrow = 16;
constexpr unsigned kThreads = 128;
/// Lines in a tile.
constexpr int64_t kLines = 8;
/// Few long lines are cut into chunks, those of the language, whose totals are scanned likewise. Where there
/// are many a thread goes through all of a line.
constexpr int64_t kChunk = ir::kScanChunk, kManyLines = 16384;

/// An array (outer, extent, inner) is `outer * chunks` lines of `inner` columns; each column of a line is
/// folded first to last by one thread.
constexpr std::string_view kSource = R"(
const int kThreads = 128, kLines = 8, kWidth = 256, kTogether = 8, kLevels = 3;

struct Shape {
    long long outer, extent, inner, chunk;
    __device__ long long chunks() const { return (extent + chunk - 1) / chunk; }
    __device__ long long begin(long long line) const {
        return (line / chunks() * extent + line % chunks() * chunk) * inner;
    }
    __device__ long long length(long long line) const { return min(chunk, extent - line % chunks() * chunk); }
};

// What comes before the chunks of a line that one thread goes through: results of whole chunks, and of chunks
// of those.
struct Above {
    Folded running[kLevels], before[kLevels + 1];
    long long taken;

    __device__ void take(Folded total) {
        long long all = taken++;
        bool full = true;
#pragma unroll
        for (int l = 0; l < kLevels; ++l) {
            if (full) {
                running[l] = all % kChunk == 0 ? total : fold(running[l], total);
                before[l] = all >= kChunk ? fold(before[l + 1], running[l]) : running[l];
                full = (all + 1) % kChunk == 0;
                total = running[l];
                all /= kChunk;
            }
        }
    }
};

// The running value of one column. The first element of a chunk starts it: -0 stays -0. What comes before the
// chunk is added to each result.
struct Column {
    Folded running, carry;
    bool carries;
    int place; // in the chunk
    long long first; // place in its whole line of the element that comes next
    Above above;

    __device__ Column(const Shape &shape, const Folded *before, long long line, long long column) {
        carries = before && line % shape.chunks() > 0;
        carry = carries ? before[(line - 1) * shape.inner + column] : Folded();
        running = Folded();
        first = line % shape.chunks() * shape.chunk;
        place = 0;
        above = {};
    }
    __device__ Folded next(Folded x) {
        if (kOrdered && place == kChunk) {
            above.take(running);
            carry = above.before[0];
            carries = true;
            place = 0;
        }
        running = place > 0 ? fold(running, x) : x;
        place = kOrdered ? place + 1 : 1;
        return carries ? fold(carry, running) : running;
    }
    // `count` elements that are `step` apart. Several are read before the first is written.
    template <class T>
    __device__ void scan(const T *from, T *to, long long *places, long long step, long long count, bool stores) {
        long long s = 0;
        for (; s + kTogether <= count; s += kTogether) {
            T x[kTogether];
#pragma unroll
            for (int u = 0; u < kTogether; ++u)
                x[u] = from[(s + u) * step];
#pragma unroll
            for (int u = 0; u < kTogether; ++u) {
                const Folded y = next(enter(x[u], first + s + u));
                if (stores)
                    put(y, to, places, (s + u) * step);
            }
        }
        for (; s < count; ++s) {
            const Folded y = next(enter(from[s * step], first + s));
            if (stores)
                put(y, to, places, s * step);
        }
        first += count;
    }
};

// Lines of few columns. A block brings a part of several lines into a tile, a thread folds one column of it,
// and while that goes on the next part is on its way.
template <bool of_totals, class T>
__device__ __forceinline__ void scan_narrow(const T *in, T *out, long long *places, Folded *totals, const Folded *before, Shape shape) {
    const int kEach = kLines * kWidth / kThreads;
    __shared__ T tile[kLines][kWidth + 1];
    __shared__ long long place_tile[kPlaces && !of_totals ? kLines : 1][kPlaces && !of_totals ? kWidth + 1 : 1];
    __shared__ long long begins[kLines], sizes[kLines];
    const long long lines = shape.outer * shape.chunks();
    const int inner = (int)shape.inner, steps = kWidth / inner, width = steps * inner;
    const int line = threadIdx.x / inner, column = threadIdx.x % inner;
    for (long long first_line = (long long)blockIdx.x * kLines; first_line < lines; first_line += (long long)gridDim.x * kLines) {
        if (threadIdx.x < kLines) {
            const bool there = first_line + threadIdx.x < lines;
            begins[threadIdx.x] = there ? shape.begin(first_line + threadIdx.x) : 0;
            sizes[threadIdx.x] = there ? shape.length(first_line + threadIdx.x) * inner : 0;
        }
        __syncthreads();
        T next[kEach];
        const auto fetch = [&](long long at) {
#pragma unroll
            for (int e = 0; e < kEach; ++e) {
                const int place = threadIdx.x + e * kThreads, l = place / kWidth, w = place % kWidth;
                next[e] = w < width && at + w < sizes[l] ? in[begins[l] + at + w] : T();
            }
        };
        const bool mine = line < kLines && first_line + line < lines;
        Column running(shape, mine ? before : nullptr, first_line + line, column);
        const long long longest = min(shape.chunk, shape.extent) * inner;
        fetch(0);
        for (long long at = 0; at < longest; at += width) {
#pragma unroll
            for (int e = 0; e < kEach; ++e) {
                const int place = threadIdx.x + e * kThreads;
                tile[place / kWidth][place % kWidth] = next[e];
            }
            __syncthreads();
            if (at + width < longest)
                fetch(at + width);
            if (mine) {
                T *const cells = &tile[line][column];
                const long long count = min((long long)steps, (sizes[line] - at) / inner);
                running.scan(cells, cells, places ? &place_tile[line][column] : nullptr, inner, count, out != nullptr);
            }
            __syncthreads();
            if (out) {
#pragma unroll
                for (int e = 0; e < kEach; ++e) {
                    const int place = threadIdx.x + e * kThreads, l = place / kWidth, w = place % kWidth;
                    if (w < width && at + w < sizes[l]) {
                        out[begins[l] + at + w] = tile[l][w];
                        if (places)
                            places[begins[l] + at + w] = place_tile[l][w];
                    }
                }
            }
        }
        if (totals && mine)
            totals[(first_line + line) * inner + column] = running.running;
        __syncthreads();
    }
}

// Lines of many columns, a thread each.
template <bool of_totals, class T>
__device__ __forceinline__ void scan_wide(const T *in, T *out, long long *places, Folded *totals, const Folded *before, Shape shape) {
    const long long columns = shape.outer * shape.chunks() * shape.inner;
    for (long long c = (long long)blockIdx.x * kThreads + threadIdx.x; c < columns; c += (long long)gridDim.x * kThreads) {
        const long long line = c / shape.inner, column = c % shape.inner;
        Column running(shape, before, line, column);
        const long long begin = shape.begin(line) + column;
        running.scan(in + begin, out + begin, places ? places + begin : nullptr, shape.inner, shape.length(line),
                     out != nullptr);
        if (totals)
            totals[c] = running.running;
    }
}

#define ENTRY(name, T, scan) \
    extern "C" __global__ void __launch_bounds__(kThreads) name(const T *in, T *out, long long *places, Folded *totals, \
                                                                const Folded *before, long long outer, long long extent, long long inner, \
                                                                long long chunk) { \
        scan(in, out, places, totals, before, Shape{outer, extent, inner, chunk}); \
    }
// Each has shared memory of its own.
ENTRY(narrow_elements, Element, scan_narrow<false>)
ENTRY(wide_elements, Element, scan_wide<false>)
)";
constexpr std::string_view kOfTotals = R"(ENTRY(narrow_totals, Folded, scan_narrow<true>)
ENTRY(wide_totals, Folded, scan_wide<true>)
)";

/// How elements are folded: what begins the source.
struct Folding {
    const char *name;
    std::string_view operation; ///< between two sums; of extremes what makes a later element take over
    bool places;                ///< there is a second result, of i64
};
constexpr Folding kSum{"cumsum", "+", false}, kProduct{"cumprod", "*", false}, kLargest{"cummax", ">=", true},
    kSmallest{"cummin", "<=", true};

constexpr std::string_view kSums = R"(
typedef Running Folded;
template <class T> __device__ __forceinline__ Folded enter(T x, long long) {{ return widen(x); }}
template <class T> __device__ __forceinline__ void put(Folded y, T *to, long long *, long long at) {{ to[at] = narrow<T>(y); }}
__device__ __forceinline__ Folded fold(Folded x, Folded y) {{ return x {} y; }}
)";
/// An element as it is, so that NaN and zeros keep their bits, and its place. Of what is the same everywhere
/// in the order the last one takes over; of NaNs, too, from all numbers.
constexpr std::string_view kExtremes = R"(
struct Folded {{
    Element value;
    long long place;
}};
__device__ __forceinline__ Folded enter(Element x, long long place) {{ return {{x, place}}; }}
__device__ __forceinline__ Folded enter(Folded x, long long) {{ return x; }}
__device__ __forceinline__ void put(Folded y, Element *to, long long *places, long long at) {{
    to[at] = y.value;
    places[at] = y.place;
}}
__device__ __forceinline__ void put(Folded y, Folded *to, long long *, long long at) {{ to[at] = y; }}
__device__ __forceinline__ Folded fold(Folded x, Folded y) {{
    const {1} a = {2}x.value{3}, b = {2}y.value{3};
    return b {0} a || b != b ? y : x;
}}
)";

int64_t bytes_of_total(const Folding &folding) {
    return folding.places ? 16 : 8;
}

int64_t chunk_of(int64_t outer, int64_t extent, int64_t inner) {
    return outer * inner >= kManyLines || extent < 2 * kChunk ? extent : kChunk;
}

/// Of the chunks' totals, and of theirs.
int64_t totals_bytes(int64_t outer, int64_t extent, int64_t inner, int64_t bytes) {
    if (outer * extent * inner == 0)
        return 0;
    const int64_t chunk = chunk_of(outer, extent, inner), chunks = (extent + chunk - 1) / chunk;
    return chunks == 1 ? 0
                       : DeviceScratch::rounded(outer * chunks * inner * bytes) +
                             totals_bytes(outer, chunks, inner, bytes);
}

/// The scan of an array of one dtype, and of the totals of its chunks.
struct Scan {
    KernelLauncher launch;
    DeviceScratch scratch;
    int64_t outer, inner, bytes_of_total;

    void run(const void *in, void *out, void *places, int64_t extent, bool of_totals) {
        const int64_t chunk = chunk_of(outer, extent, inner), chunks = (extent + chunk - 1) / chunk;
        const bool narrow = inner <= kNarrow;
        const char *const entry = of_totals ? (narrow ? "narrow_totals" : "wide_totals")
                                            : (narrow ? "narrow_elements" : "wide_elements");
        const int64_t lines = outer * chunks, blocks = narrow ? (lines + kLines - 1) / kLines
                                                              : (lines * inner + kThreads - 1) / kThreads;
        void *const none = nullptr;
        void *totals = nullptr;
        if (chunks > 1) {
            totals = scratch.take_bytes(lines * inner * bytes_of_total);
            launch(entry, blocks, kThreads, in, none, none, totals, none, outer, extent, inner, chunk);
            run(totals, totals, none, chunks, true);
        }
        launch(entry, blocks, kThreads, in, out, places, none, totals, outer, extent, inner, chunk);
    }
};

std::string name_of(const Folding &folding, ir::DType dtype) {
    return fmt::format("{} {}", folding.name, ir::info(dtype).name);
}

KernelSource source_of(const Folding &folding, ir::DType dtype) {
    KernelSource source{name_of(folding, dtype),
                        element_source(dtype),
                        {"narrow_elements", "wide_elements", "narrow_totals", "wide_totals"},
                        true};
    const bool is_half = ir::is_half(dtype);
    source.text += folding.places ? fmt::format(kExtremes, folding.operation, is_half ? "float" : "Element",
                                                is_half ? "widen(" : "", is_half ? ")" : "")
                                  : fmt::format(kSums, folding.operation);
    // Integers wrap, and an extreme is the same in any order: theirs cannot be seen.
    source.text += fmt::format("const bool kOrdered = {}, kPlaces = {};\nconst int kChunk = {};\n",
                               ir::is_float(dtype) && !folding.places, folding.places, kChunk);
    source.text += kSource;
    source.text += kOfTotals;
    return source;
}

bool is_empty(std::span<const int64_t> ints) {
    return ints[1] * ints[2] * ints[3] == 0;
}

std::optional<KernelSource> source_of(const Folding &folding, std::span<const int64_t> ints) {
    if (is_empty(ints))
        return std::nullopt;
    return source_of(folding, static_cast<ir::DType>(ints[0]));
}

void scan(const LibraryKernels &kernels, const LibraryArgs &args, const Folding &folding) {
    const auto dtype = static_cast<ir::DType>(args.ints[0]);
    const int64_t outer = args.ints[1], extent = args.ints[2], inner = args.ints[3];
    if (is_empty(args.ints))
        return;
    const Module &code = kernels.find(name_of(folding, dtype), [&] { return source_of(folding, dtype); });
    Scan{{kernels, code, args.driver_stream}, DeviceScratch(args), outer, inner, bytes_of_total(folding)}.run(
        args.buffers[0], args.buffers[1], folding.places ? args.buffers[2] : nullptr, extent, false);
}

} // namespace

int64_t scan_scratch(std::span<const int64_t> ints, const ir::DeviceInfo &) {
    return totals_bytes(ints[1], ints[2], ints[3], bytes_of_total(kSum));
}
int64_t extremes_scratch(std::span<const int64_t> ints, const ir::DeviceInfo &) {
    return totals_bytes(ints[1], ints[2], ints[3], bytes_of_total(kLargest));
}

std::optional<KernelSource> scan_sum_source(std::span<const int64_t> ints) {
    return source_of(kSum, ints);
}
std::optional<KernelSource> scan_product_source(std::span<const int64_t> ints) {
    return source_of(kProduct, ints);
}
std::optional<KernelSource> scan_largest_source(std::span<const int64_t> ints) {
    return source_of(kLargest, ints);
}
std::optional<KernelSource> scan_smallest_source(std::span<const int64_t> ints) {
    return source_of(kSmallest, ints);
}

void scan_sum(const LibraryKernels &kernels, const LibraryArgs &args) {
    scan(kernels, args, kSum);
}
void scan_product(const LibraryKernels &kernels, const LibraryArgs &args) {
    scan(kernels, args, kProduct);
}
void scan_largest(const LibraryKernels &kernels, const LibraryArgs &args) {
    scan(kernels, args, kLargest);
}
void scan_smallest(const LibraryKernels &kernels, const LibraryArgs &args) {
    scan(kernels, args, kSmallest);
}

} // namespace lz::runtime::cuda
