#include "runtime/cuda/library/elements.h"
#include "runtime/cuda/library/kernels.h"
#include "runtime/cuda/library/radix.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

namespace lz::runtime::cuda {

namespace {

constexpr unsigned kThreads = 256;

/// x is (outer, extent, inner); index and source are (outer, count, inner). Where the index is repeated along
/// outer or inner, its places are looked at once: `outer_sets` and `inner_sets` are 1 then.
struct Shape {
    int64_t outer, extent, count, inner;
    int64_t outer_stride, along_stride, inner_stride; ///< of the index
    int64_t outer_sets, inner_sets;

    explicit Shape(std::span<const int64_t> all) {
        const int64_t *const ints = all.data(), axis = ints[2], rank = ints[8];
        const int64_t *const x = ints + 9, *const index = x + rank;
        outer = inner = 1;
        for (int64_t a = 0; a < rank; ++a)
            if (a != axis)
                (a < axis ? outer : inner) *= x[a];
        extent = x[axis];
        count = index[axis];
        outer_stride = ints[5];
        along_stride = ints[6];
        inner_stride = ints[7];
        outer_sets = outer_stride == 0 ? 1 : outer;
        inner_sets = inner_stride == 0 ? 1 : inner;
    }
    int64_t sources() const { return outer * count * inner; }
    int64_t indices() const { return outer_sets * count * inner_sets; } ///< that are looked at
    int64_t places() const { return outer_sets * extent * inner_sets; } ///< that they may mean
    bool empty() const { return sources() == 0; }
    /// Of positions along the axis.
    bool is_long() const { return count > std::numeric_limits<int32_t>::max(); }
    RadixSort by_place() const {
        constexpr int64_t kWord = std::numeric_limits<uint32_t>::max();
        return {1, indices(), static_cast<int>(std::bit_width(static_cast<uint64_t>(places()))),
                places() > kWord, indices() > kWord};
    }
};

constexpr std::string_view kShape = R"(
struct Shape {
    long long outer, extent, count, inner, outer_stride, along_stride, inner_stride, outer_sets, inner_sets;
};

// The place along the axis that an index says, or -1 where it says none.
__device__ __forceinline__ long long place_of(const Index *index, const Shape &s, long long o, long long k, long long i) {
    const long long place = (long long)index[o * s.outer_stride + k * s.along_stride + i * s.inner_stride];
    return place >= 0 && place < s.extent ? place : -1;
}
__device__ __forceinline__ long long checked_place(const Index *index, const Shape &s, long long o, long long k, long long i,
                                                   Fault *fault, unsigned source) {
    const long long place = place_of(index, s, o, k, i);
    if (place < 0)
        report(fault, 1, source, (long long)index[o * s.outer_stride + k * s.along_stride + i * s.inner_stride], s.extent);
    return place;
}
#define FOR_EACH(i, count) \
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += (long long)gridDim.x * blockDim.x)
)";

/// Of several that go to one place the last is kept: positions are compared first, then one of them is
/// stored.
constexpr std::string_view kPut = R"(
extern "C" __global__ void begin(Position *last, long long places) {
    FOR_EACH(p, places)
        last[p] = -1;
}
extern "C" __global__ void compare(const Index *index, Position *last, Shape s, Fault *fault, unsigned source) {
    FOR_EACH(n, s.outer_sets * s.count * s.inner_sets) {
        const long long i = n % s.inner_sets, k = n / s.inner_sets % s.count, o = n / s.inner_sets / s.count;
        const long long place = checked_place(index, s, o, k, i, fault, source);
        if (place >= 0)
            atomicMax(&last[(o * s.extent + place) * s.inner_sets + i], (Position)k);
    }
}
extern "C" __global__ void put(const Index *index, const Position *last, const Element *from, Element *out, Shape s) {
    FOR_EACH(n, s.outer * s.count * s.inner) {
        const long long i = n % s.inner, k = n / s.inner % s.count, o = n / s.inner / s.count;
        const long long set_o = s.outer_sets == 1 ? 0 : o, set_i = s.inner_sets == 1 ? 0 : i;
        const long long place = place_of(index, s, set_o, k, set_i);
        if (place >= 0 && last[(set_o * s.extent + place) * s.inner_sets + set_i] == (Position)k)
            out[(o * s.extent + place) * s.inner + i] = from[n];
    }
}
)";

/// Positions are sorted by the places that they go to, those of one place in their order; then one thread
/// adds up what goes to one element. Those that go nowhere are behind all others.
constexpr std::string_view kAdd = R"(
extern "C" __global__ void begin(const Index *index, Key *keys, Place *positions, Shape s, Fault *fault, unsigned source) {
    FOR_EACH(n, s.outer_sets * s.count * s.inner_sets) {
        const long long i = n % s.inner_sets, k = n / s.inner_sets % s.count, o = n / s.inner_sets / s.count;
        const long long place = checked_place(index, s, o, k, i, fault, source);
        keys[n] = (Key)(place >= 0 ? (o * s.extent + place) * s.inner_sets + i : s.outer_sets * s.extent * s.inner_sets);
        positions[n] = (Place)n;
    }
}
extern "C" __global__ void add(const Key *keys, const Place *positions, const Element *from, Element *out, Shape s) {
    const long long items = s.outer_sets * s.count * s.inner_sets, nowhere = s.outer_sets * s.extent * s.inner_sets;
    const long long inner_each = s.inner / s.inner_sets, each = s.outer / s.outer_sets * inner_each;
    FOR_EACH(n, items * each) {
        long long at = n / each;
        const Key key = keys[at];
        if ((long long)key == nowhere || (at > 0 && keys[at - 1] == key))
            continue;
        const long long i = (long long)key % s.inner_sets + n % each % inner_each;
        const long long o = (long long)key / s.inner_sets / s.extent + n % each / inner_each;
        const long long place = (long long)key / s.inner_sets % s.extent;
        Element *const to = out + (o * s.extent + place) * s.inner + i;
        Running sum = widen(*to);
        for (; at < items && keys[at] == key; ++at) {
            const long long k = (long long)positions[at] / s.inner_sets % s.count;
            sum += widen(from[(o * s.count + k) * s.inner + i]);
        }
        *to = narrow<Element>(sum);
    }
}
)";

int64_t blocks_for(int64_t items) {
    return (items + kThreads - 1) / kThreads;
}

std::string header(ir::DType dtype, ir::DType index) {
    return element_source(dtype) + fmt::format("using Index = {};\n", element_type(index)) +
           std::string(kShape);
}

/// What a call does, and with which types.
struct Kind {
    bool adds;
    ir::DType dtype, index;

    explicit Kind(std::span<const int64_t> ints)
        : adds(ints[3] != 0), dtype(static_cast<ir::DType>(ints[0])), index(static_cast<ir::DType>(ints[1])) {
    }
};

std::string name_of(const Shape &shape, const Kind &kind) {
    return kind.adds ? fmt::format("scatter_add {} by {} {}", ir::name(kind.dtype), ir::name(kind.index),
                                   shape.by_place().name())
                     : fmt::format("scatter {} by {}{}", ir::name(kind.dtype), ir::name(kind.index),
                                   shape.is_long() ? " long" : "");
}

KernelSource source_of(const Shape &shape, const Kind &kind) {
    const std::string name = name_of(shape, kind);
    if (!kind.adds)
        return {name,
                header(kind.dtype, kind.index) +
                    fmt::format("using Position = {};\n", shape.is_long() ? "long long" : "int") +
                    std::string(kPut),
                {"begin", "compare", "put"},
                true};
    KernelSource source{name, "", {"begin", "add"}, true};
    source.text =
        shape.by_place().source(source.entries) + header(kind.dtype, kind.index) + std::string(kAdd);
    return source;
}

const Module &find_code(const LibraryKernels &kernels, const Shape &shape, const Kind &kind) {
    return kernels.find(name_of(shape, kind), [&] { return source_of(shape, kind); });
}

void put(const LibraryKernels &kernels, const LibraryArgs &args, const Shape &shape, const Kind &kind) {
    const Module &code = find_code(kernels, shape, kind);
    const KernelLauncher launch(kernels, code, args.driver_stream);
    DeviceScratch scratch(args);
    void *const last = scratch.take_bytes(shape.places() * (shape.is_long() ? 8 : 4));
    launch("begin", blocks_for(shape.places()), kThreads, last, shape.places());
    launch("compare", blocks_for(shape.indices()), kThreads, args.buffers[1], last, shape, args.fault,
           static_cast<uint32_t>(args.ints[4]));
    launch("put", blocks_for(shape.sources()), kThreads, args.buffers[1], last, args.buffers[2],
           args.buffers[3], shape);
}

void add(const LibraryKernels &kernels, const LibraryArgs &args, const Shape &shape, const Kind &kind) {
    const RadixSort by_place = shape.by_place();
    const Module &code = find_code(kernels, shape, kind);
    const KernelLauncher launch(kernels, code, args.driver_stream);
    DeviceScratch scratch(args);
    const RadixSort::Pairs pairs = by_place.take(scratch);
    launch("begin", blocks_for(shape.indices()), kThreads, args.buffers[1], pairs.keys, pairs.places, shape,
           args.fault, static_cast<uint32_t>(args.ints[4]));
    const RadixSort::Pairs sorted = by_place.sort(launch, pairs, scratch);
    launch("add", blocks_for(shape.sources()), kThreads, sorted.keys, sorted.places, args.buffers[2],
           args.buffers[3], shape);
}

} // namespace

int64_t scatter_scratch(std::span<const int64_t> ints, const ir::DeviceInfo &) {
    const Shape shape(ints);
    if (shape.empty())
        return 0;
    return ints[3] != 0 ? shape.by_place().scratch_bytes()
                        : DeviceScratch::rounded(shape.places() * (shape.is_long() ? 8 : 4));
}

std::optional<KernelSource> scatter_source(std::span<const int64_t> ints) {
    const Shape shape(ints);
    if (shape.empty())
        return std::nullopt;
    return source_of(shape, Kind(ints));
}

void scatter(const LibraryKernels &kernels, const LibraryArgs &args) {
    const Shape shape(args.ints);
    const Kind kind(args.ints);
    const int64_t bytes = shape.outer * shape.extent * shape.inner * ir::size_of(kind.dtype);
    if (args.buffers[3] != args.buffers[0] && bytes > 0)
        kernels.copy(args.buffers[3], args.buffers[0], bytes, args.driver_stream);
    if (!shape.empty())
        (kind.adds ? add : put)(kernels, args, shape, kind);
}

} // namespace lz::runtime::cuda
