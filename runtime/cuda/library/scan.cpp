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
    Running running[kLevels], before[kLevels + 1];
    long long taken;

    __device__ void take(Running total) {
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
    Running running, carry;
    bool carries;
    int place; // in the chunk
    Above above;

    __device__ Column(const Shape &shape, const Running *before, long long line, long long column) {
        carries = before && line % shape.chunks() > 0;
        carry = carries ? before[(line - 1) * shape.inner + column] : Running();
        running = Running();
        place = 0;
        above = {};
    }
    __device__ Running next(Running x) {
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
    template <class T> __device__ void scan(const T *from, T *to, long long step, long long count, bool stores) {
        long long s = 0;
        for (; s + kTogether <= count; s += kTogether) {
            T x[kTogether];
#pragma unroll
            for (int u = 0; u < kTogether; ++u)
                x[u] = from[(s + u) * step];
#pragma unroll
            for (int u = 0; u < kTogether; ++u) {
                const Running y = next(widen(x[u]));
                if (stores)
                    to[(s + u) * step] = narrow<T>(y);
            }
        }
        for (; s < count; ++s) {
            const Running y = next(widen(from[s * step]));
            if (stores)
                to[s * step] = narrow<T>(y);
        }
    }
};

// Lines of few columns. A block brings a part of several lines into a tile, a thread folds one column of it,
// and while that goes on the next part is on its way.
template <bool of_totals, class T>
__device__ __forceinline__ void scan_narrow(const T *in, T *out, Running *totals, const Running *before, Shape shape) {
    const int kEach = kLines * kWidth / kThreads;
    __shared__ T tile[kLines][kWidth + 1];
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
                running.scan(cells, cells, inner, count, out != nullptr);
            }
            __syncthreads();
            if (out) {
#pragma unroll
                for (int e = 0; e < kEach; ++e) {
                    const int place = threadIdx.x + e * kThreads, l = place / kWidth, w = place % kWidth;
                    if (w < width && at + w < sizes[l])
                        out[begins[l] + at + w] = tile[l][w];
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
__device__ __forceinline__ void scan_wide(const T *in, T *out, Running *totals, const Running *before, Shape shape) {
    const long long columns = shape.outer * shape.chunks() * shape.inner;
    for (long long c = (long long)blockIdx.x * kThreads + threadIdx.x; c < columns; c += (long long)gridDim.x * kThreads) {
        const long long line = c / shape.inner, column = c % shape.inner;
        Column running(shape, before, line, column);
        const long long begin = shape.begin(line) + column;
        running.scan(in + begin, out + begin, shape.inner, shape.length(line), out != nullptr);
        if (totals)
            totals[c] = running.running;
    }
}

#define ENTRY(name, T, scan) \
    extern "C" __global__ void __launch_bounds__(kThreads) name(const T *in, T *out, Running *totals, const Running *before, \
                                                                long long outer, long long extent, long long inner, long long chunk) { \
        scan(in, out, totals, before, Shape{outer, extent, inner, chunk}); \
    }
// Each has shared memory of its own.
ENTRY(narrow_elements, Element, scan_narrow<false>)
ENTRY(wide_elements, Element, scan_wide<false>)
)";
constexpr std::string_view kOfTotals = R"(ENTRY(narrow_totals, Running, scan_narrow<true>)
ENTRY(wide_totals, Running, scan_wide<true>)
)";

int64_t chunk_of(int64_t outer, int64_t extent, int64_t inner) {
    return outer * inner >= kManyLines || extent < 2 * kChunk ? extent : kChunk;
}

/// Of the chunks' totals, and of theirs.
int64_t totals_bytes(int64_t outer, int64_t extent, int64_t inner) {
    if (outer * extent * inner == 0)
        return 0;
    const int64_t chunk = chunk_of(outer, extent, inner), chunks = (extent + chunk - 1) / chunk;
    return chunks == 1
               ? 0
               : DeviceScratch::rounded(outer * chunks * inner * 8) + totals_bytes(outer, chunks, inner);
}

/// The scan of an array of one dtype, and of the totals of its chunks.
struct Scan {
    KernelLauncher launch;
    DeviceScratch scratch;
    int64_t outer, inner;

    void run(const void *in, void *out, int64_t extent, bool of_totals) {
        const int64_t chunk = chunk_of(outer, extent, inner), chunks = (extent + chunk - 1) / chunk;
        const bool narrow = inner <= kNarrow;
        const char *const entry = of_totals ? (narrow ? "narrow_totals" : "wide_totals")
                                            : (narrow ? "narrow_elements" : "wide_elements");
        const int64_t lines = outer * chunks, blocks = narrow ? (lines + kLines - 1) / kLines
                                                              : (lines * inner + kThreads - 1) / kThreads;
        void *const none = nullptr;
        void *totals = nullptr;
        if (chunks > 1) {
            totals = scratch.take<uint64_t>(lines * inner);
            launch(entry, blocks, kThreads, in, none, totals, none, outer, extent, inner, chunk);
            run(totals, totals, chunks, true);
        }
        launch(entry, blocks, kThreads, in, out, none, totals, outer, extent, inner, chunk);
    }
};

/// How running values are folded.
struct Folding {
    const char *name, *operation;
};
constexpr Folding kSum{"cumsum", "+"}, kProduct{"cumprod", "*"};

std::string name_of(const Folding &folding, ir::DType dtype) {
    return fmt::format("{} {}", folding.name, ir::info(dtype).name);
}

KernelSource source_of(const Folding &folding, ir::DType dtype) {
    KernelSource source{name_of(folding, dtype),
                        element_source(dtype),
                        {"narrow_elements", "wide_elements", "narrow_totals", "wide_totals"},
                        true};
    source.text +=
        fmt::format("__device__ __forceinline__ Running fold(Running x, Running y) {{ return x {} y; }}\n",
                    folding.operation);
    // Integers wrap: the order of theirs cannot be seen.
    source.text +=
        fmt::format("const bool kOrdered = {};\nconst int kChunk = {};\n", ir::is_float(dtype), kChunk);
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
    Scan{{kernels, code, args.driver_stream}, DeviceScratch(args), outer, inner}.run(
        args.buffers[0], args.buffers[1], extent, false);
}

} // namespace

int64_t scan_scratch(std::span<const int64_t> ints, const ir::DeviceInfo &) {
    return totals_bytes(ints[1], ints[2], ints[3]);
}

std::optional<KernelSource> scan_sum_source(std::span<const int64_t> ints) {
    return source_of(kSum, ints);
}

std::optional<KernelSource> scan_product_source(std::span<const int64_t> ints) {
    return source_of(kProduct, ints);
}

void scan_sum(const LibraryKernels &kernels, const LibraryArgs &args) {
    scan(kernels, args, kSum);
}

void scan_product(const LibraryKernels &kernels, const LibraryArgs &args) {
    scan(kernels, args, kProduct);
}

} // namespace lz::runtime::cuda
