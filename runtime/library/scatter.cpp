#include "runtime/library/element.h"
#include "runtime/library/functions.h"

#include "ir/diagnostic.h"
#include "runtime/library/own_places.h"
#include "runtime/library/scratch.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace lz::runtime {

namespace {

/// Elements worth handing to another thread; places looked up at a time.
constexpr int64_t kRange = 8192, kRun = kPlacesAtOnce;
/// So many elements or lines before one is put its memory is fetched; of a line so many cache lines.
constexpr int64_t kAhead = 32, kLinesAhead = 4, kLinesFetched = 8;
/// So many elements before they are read, indices and source are fetched past the second-level cache, which
/// is left to the places. On a Zen 4 core, sums of f32 in 64 Ki places take 4.4 ms instead of 5.6 ms for
/// 4 Mi elements: bench_library's index_add measures it.
constexpr int64_t kStreamAhead = 512;
/// After so many elements it fetches what comes later.
constexpr int64_t kGroup = 8;
/// Where one place is added to again and again, each sum waits until the one before is stored and loaded. So
/// sums of neighbours stay in a register where all but one of kSamples pairs of neighbours have one place.
constexpr int64_t kSamples = 16;
/// A line of as many elements takes longer to add than its index to look at, several times over.
constexpr int64_t kWideLine = 16;
/// Places of more bytes than this are not all in the second-level cache, or in any.
constexpr int64_t kFar = 512 << 10, kFarther = 16 << 20;
/// Threads that share the places of single elements look at all indices each. From so many threads on that is
/// quicker than one thread that serves all places, unless the second-level cache holds them; fewer threads
/// share only places that no cache holds. Of 4 Mi elements of f32 to 1 Mi places, one Zen 4 core serves all
/// in 7.6 ms and one half of the places in 7.4 ms; to 16 Mi places in 36 ms and 25 ms.
constexpr int kManyThreads = 4;

/// The shapes folded around the axis: x is (outer, extent, inner), index and source are (outer, count,
/// inner). Places meet along the axis only, and there they are served first to last by one thread, whatever
/// the others do.
struct Folded {
    int64_t outer = 1, extent, count, inner = 1;

    Folded(int64_t rank, int64_t axis, const int64_t *x, const int64_t *index)
        : extent(x[axis]), count(index[axis]) {
        for (int64_t a = 0; a < rank; ++a)
            if (a != axis)
                (a < axis ? outer : inner) *= x[a];
    }
};

bool is_far(const Folded &fold, size_t size, int64_t far = kFar) {
    return fold.extent * fold.inner * static_cast<int64_t>(size) > far;
}

template <ir::DType D>
struct LoadIndices {
    /// Where the indices [begin, begin + count) are as i64: in `room`, unless they are so already.
    static const int64_t *run(const void *indices, int64_t begin, int64_t count, int64_t *room) {
        const auto *in = static_cast<const typename Element<D>::Storage *>(indices) + begin;
        if constexpr (D == ir::DType::I64)
            return in;
        else if constexpr (ir::is_integer(D)) {
            using Indices [[gnu::vector_size(4 * sizeof(*in))]] = std::remove_cvref_t<decltype(*in)>;
            using Words [[gnu::vector_size(32)]] = int64_t;
            int64_t i = 0;
            for (; i + 4 <= count; i += 4) {
                Indices some;
                std::memcpy(&some, in + i, sizeof(some));
                const auto words = __builtin_convertvector(some, Words);
                std::memcpy(room + i, &words, sizeof(words));
            }
            for (; i < count; ++i)
                room[i] = static_cast<int64_t>(in[i]);
        } else
            ir::internal_failure(__FILE__, __LINE__, "indices of a scatter are integers");
        return room;
    }
};

void report(ir::Fault &fault, int64_t source, int64_t index, int64_t extent) {
    auto none = static_cast<int32_t>(ir::FaultCode::None);
    if (!fault.code.compare_exchange_strong(none, static_cast<int32_t>(ir::FaultCode::IndexOutOfRange)))
        return;
    fault.source = static_cast<uint32_t>(source);
    fault.value = index;
    fault.limit = extent;
}

struct Job {
    Folded fold;
    const void *index, *source;
    void *out;
    decltype(&LoadIndices<ir::DType::I64>::run) load_indices;
    ir::DType index_dtype;
    int64_t outer_stride, along_stride, inner_stride; ///< of the index; 0 where it is repeated
    int64_t node;
    ir::Fault *fault;
    std::span<std::byte> scratch;

    /// Into how many parts the columns are cut for threads: each is wide enough for whole cache lines.
    static int64_t column_parts(const Folded &fold) { return std::clamp<int64_t>(fold.inner / 64, 1, 64); }
};

/// The share of one thread in one outer coordinate: columns [begin, end) and places [low, high) along the
/// axis. The thread looks at all indices and adds the elements of those in [low, high), in the order of the
/// source. So the sums do not depend on the number of threads.
struct Part {
    int64_t item; ///< number of the outer coordinate and part of the columns
    int64_t outer, begin, end, low, high;
};

/// Reports each of `length` indices from `begin` on that lies outside the axis. The elements that it would
/// have placed are left out.
void report_outside(const Job &job, int64_t begin, int64_t length, int64_t stride) {
    for (int64_t i = 0; i < length; ++i) {
        int64_t room = 0;
        const int64_t place = *job.load_indices(job.index, begin + i * stride, 1, &room);
        if (is_outside(place, job.fold.extent))
            report(*job.fault, job.node, place, job.fold.extent);
    }
}

/// The places that `length` indices from `at` on say, every `stride`: in `room`, unless they are there as
/// they are wanted.
const int64_t *load_places(const Job &job, int64_t at, int64_t stride, int64_t length, int64_t *room) {
    if (stride == 1)
        return job.load_indices(job.index, at, length, room);
    for (int64_t i = 0; i < length; ++i)
        room[i] = *job.load_indices(job.index, at + i * stride, 1, room + i);
    return room;
}

/// Likewise those of the part, where one part reports what lies outside.
OwnPlaces load_own(const Job &job, const Part &part, int64_t at, int64_t stride, int64_t length,
                   int64_t *room, int32_t *positions) {
    const int64_t *places = load_places(job, at, stride, length, room);
    const OwnPlaces own =
        find_own_places(places, length, {part.low, part.high, job.fold.extent}, room, positions);
    if (own.outside && part.low == 0) [[unlikely]]
        report_outside(job, at, length, stride);
    return own;
}

/// Whether most neighbours go to one place.
template <class Index>
bool has_runs(const Index *places, int64_t length) {
    const int64_t step = length / kSamples;
    int64_t equal = 0;
    if (step >= 2)
        for (int64_t i = 0; i < kSamples; ++i)
            equal += places[i * step] == places[i * step + 1];
    return equal >= kSamples - 1;
}

/// place = combine(place, source(i)) for `length` places one after another; those outside are left out and
/// reported. Before every kGroup of them fetch(i) is called, but not where they are `in_runs`.
template <class Index, class Place, class Source, class Fetch, class F>
void serve(const Job &job, bool in_runs, const Index *places, int64_t length, Place *to, const Source &source,
           const Fetch &fetch, const F &combine) {
    const int64_t extent = job.fold.extent;
    int64_t i = 0;
    if (in_runs) {
        while (i < length) {
            const Index place = places[i];
            if (is_outside(place, extent)) [[unlikely]] {
                report(*job.fault, job.node, place, extent);
                ++i;
                continue;
            }
            Place sum = to[place];
            do
                sum = combine(sum, source(i));
            while (++i < length && places[i] == place);
            to[place] = sum;
        }
        return;
    }
    const auto serve_one = [&](int64_t k) {
        const int64_t place = places[k];
        if (is_outside(place, extent)) [[unlikely]]
            report(*job.fault, job.node, place, extent);
        else
            to[place] = combine(to[place], source(k));
    };
    for (; i + kGroup <= length; i += kGroup) {
        fetch(i);
#pragma GCC unroll 8
        for (int64_t k = 0; k < kGroup; ++k)
            serve_one(i + k);
    }
    for (; i < length; ++i)
        serve_one(i);
}

/// Fetches the indices and elements of a source kStreamAhead after one, and places kAhead after it.
template <class Index, class Storage, class Place>
struct FetchAhead {
    const Index *places; ///< may be anywhere
    const Storage *from;
    const Place *to;
    int64_t known; ///< of the places; 0 where none is to be fetched

    // Where it is not inlined early, some compilers leave it out, as a function without an effect.
    [[gnu::always_inline]] void operator()(int64_t i) const {
        __builtin_prefetch(places + i + kStreamAhead, 0, 0);
        __builtin_prefetch(from + i + kStreamAhead, 0, 0);
        if (i + kGroup + kAhead > known)
            return;
        const auto begin = reinterpret_cast<uintptr_t>(to);
#pragma GCC unroll 8
        for (int64_t k = i + kAhead; k < i + kAhead + kGroup; ++k)
            __builtin_prefetch(
                reinterpret_cast<const void *>(begin + static_cast<uintptr_t>(places[k]) * sizeof(Place)), 1);
    }
};

/// serve() for `count` places and the elements from `from` on, as they lie in memory.
template <class Index, class Storage, class Place, class F>
void serve_all(const Job &job, bool in_runs, const Index *places, int64_t count, Place *to,
               const Storage *from, const F &combine) {
    const bool far = is_far(job.fold, sizeof(Place));
    for (int64_t k = 0; k < count; k += kRun, places += kRun, from += kRun) {
        const int64_t length = std::min(kRun, count - k);
        const FetchAhead<Index, Storage, Place> fetch{places, from, to, far ? count - k : 0};
        serve(job, in_runs, places, length, to, [from](int64_t i) { return from[i]; }, fetch, combine);
        in_runs = has_runs(places, length); // so may the next be, which are not in the cache yet
    }
}

/// Where single elements go to single places (inner is 1): place = combine(place, element) for the part's
/// own elements in the order of the source. The part's outer coordinate begins at `to`.
template <class Storage, class Place, class F>
void serve_elements(const Job &job, const Part &part, Place *to, const F &combine) {
    const Folded &f = job.fold;
    const int64_t stride = job.along_stride, first = part.outer * job.outer_stride;
    const auto *from = static_cast<const Storage *>(job.source) + part.outer * f.count;
    const bool all = part.high - part.low == f.extent;
    if (all && stride == 1 && job.index_dtype == ir::DType::I64)
        return serve_all(job, false, static_cast<const int64_t *>(job.index) + first, f.count, to, from,
                         combine);
    if (all && stride == 1 && job.index_dtype == ir::DType::I32)
        return serve_all(job, false, static_cast<const int32_t *>(job.index) + first, f.count, to, from,
                         combine);
    int64_t room[kOwnPlacesRoom];
    int32_t held[kOwnPlacesRoom];
    for (int64_t k = 0; k < f.count; k += kRun, from += kRun) {
        const int64_t length = std::min(kRun, f.count - k);
        if (all) {
            const int64_t *places = load_places(job, first + k * stride, stride, length, room);
            serve_all(job, has_runs(places, length), places, length, to, from, combine);
            continue;
        }
        const OwnPlaces own = load_own(job, part, first + k * stride, stride, length, room, held);
        serve(
            job, has_runs(own.places, own.count), own.places, own.count, to,
            [from, positions = own.positions](int64_t i) { return from[positions[i]]; }, [](int64_t) {},
            combine);
    }
}

/// For the part's own elements, in the order of the source: put(e, column, from, length) for runs of columns
/// [column, column + length) that go to place e, from the source's elements `from` and on.
template <class Storage, class F>
void walk(const Job &job, const Part &part, const Storage *to, F put) {
    int64_t room[kOwnPlacesRoom];
    int32_t held[kOwnPlacesRoom];
    const Folded &f = job.fold;
    const int64_t index = part.outer * job.outer_stride, source = part.outer * f.count * f.inner;
    if (job.inner_stride == 0) { // a line of columns goes to one place
        const auto *const from = static_cast<const Storage *>(job.source);
        const int64_t length = part.end - part.begin;
        constexpr int64_t kLine = 64 / sizeof(Storage);
        for (int64_t k = 0; k < f.count; k += kRun) {
            const OwnPlaces own = load_own(job, part, index + k * job.along_stride, job.along_stride,
                                           std::min(kRun, f.count - k), room, held);
            const auto line = [&, positions = own.positions](int64_t i) {
                return source + (k + positions[i]) * f.inner + part.begin;
            };
            for (int64_t i = 0; i < own.count; ++i) {
                if (const int64_t next = i + kLinesAhead; next < own.count)
                    for (int64_t c = 0; c < std::min(length, kLinesFetched * kLine); c += kLine) {
                        __builtin_prefetch(to + own.places[next] * f.inner + part.begin + c, 1);
                        __builtin_prefetch(from + line(next) + c);
                    }
                put(own.places[i], part.begin, line(i), length);
            }
        }
    } else {
        for (int64_t k = 0; k < f.count; ++k)
            for (int64_t c = part.begin; c < part.end; c += kRun) {
                const OwnPlaces own = load_own(job, part, index + k * job.along_stride + c * job.inner_stride,
                                               job.inner_stride, std::min(kRun, part.end - c), room, held);
                for (int64_t i = 0; i < own.count; ++i) {
                    const int64_t column = c + own.positions[i];
                    put(own.places[i], column, source + k * f.inner + column, int64_t{1});
                }
            }
    }
}

/// Shares outer coordinates, columns and places between threads: f(part).
template <class F>
void for_each_part(const Job &job, size_t size, F f) {
    const Folded &fold = job.fold;
    const int64_t parts = Job::column_parts(fold),
                  each = std::max<int64_t>(1, fold.count * fold.inner / parts);
    // Places are shared where there is nothing else for all threads. Where a line goes to one place that
    // costs next to nothing; then there are more parts than threads, because indices may favour some places.
    const int64_t wanted = num_threads() * (job.inner_stride == 0 && fold.inner >= kWideLine ? 2 : 1);
    const int64_t near = num_threads() < kManyThreads ? kFarther : kFar;
    const bool alone = each < kRange || (fold.inner == 1 && !is_far(fold, size, near));
    const int64_t share = alone ? 1 : (wanted + fold.outer * parts - 1) / (fold.outer * parts);
    const int64_t shares = std::clamp<int64_t>(share, 1, std::max<int64_t>(fold.extent, 1));
    parallel_for(fold.outer * parts * shares, kRange / each + 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t p = i / shares % parts, s = i % shares;
            f(Part{i / shares, i / shares / parts, fold.inner * p / parts, fold.inner * (p + 1) / parts,
                   fold.extent * s / shares, fold.extent * (s + 1) / shares});
        }
    });
}

template <ir::DType D>
struct Put {
    static void run(const Job &job) {
        using Storage = typename Element<D>::Storage;
        const auto *source = static_cast<const Storage *>(job.source);
        auto *out = static_cast<Storage *>(job.out);
        for_each_part(job, sizeof(Storage), [&](const Part &part) {
            Storage *to = out + part.outer * job.fold.extent * job.fold.inner;
            if (job.fold.inner == 1)
                return serve_elements<Storage>(job, part, to, [](Storage, Storage value) { return value; });
            walk(job, part, to, [&](int64_t e, int64_t column, int64_t from, int64_t length) {
                Storage *const place = to + e * job.fold.inner + column;
                if (length == 1)
                    *place = source[from];
                else
                    std::memcpy(place, source + from, static_cast<size_t>(length) * sizeof(Storage));
            });
        });
    }
};

/// to[i] += from[i] from `begin` on as long as kBytes are left; returns where they end.
template <int kBytes, class T>
int64_t add_vectors(T *to, const T *from, int64_t begin, int64_t length) {
    using Numbers [[gnu::vector_size(kBytes)]] = T;
    constexpr int64_t kLanes = kBytes / sizeof(T);
    int64_t i = begin;
    for (; i + kLanes <= length; i += kLanes) {
        Numbers a, b;
        std::memcpy(&a, to + i, sizeof(a));
        std::memcpy(&b, from + i, sizeof(b));
        a += b;
        std::memcpy(to + i, &a, sizeof(a));
    }
    return i;
}

/// to[i] += from[i], integers without their sign so that overflow wraps.
template <class T>
void add_run(T *to, const T *from, int64_t length) {
    int64_t i = add_vectors<32>(to, from, 0, length);
    i = add_vectors<16>(to, from, i, length);
    for (; i < length; ++i)
        to[i] = static_cast<T>(to[i] + from[i]);
}

template <ir::DType D>
struct Add {
    using E = Element<D>;
    using Storage = typename E::Storage;

    static void run(const Job &job) {
        if constexpr (ir::is_half(D))
            add_rounding_once(job);
        else
            for_each_part(job, sizeof(Storage), [&](const Part &part) { add(job, part); });
    }

    static void add(const Job &job, const Part &part) {
        const auto *source = static_cast<const Storage *>(job.source);
        Storage *const to = static_cast<Storage *>(job.out) + part.outer * job.fold.extent * job.fold.inner;
        if (job.fold.inner == 1)
            return serve_elements<Storage>(job, part, to, [](Storage sum, Storage value) {
                return E::store(E::load(sum) + E::load(value));
            });
        walk(job, part, to, [&](int64_t e, int64_t column, int64_t from, int64_t length) {
            Storage *const place = to + e * job.fold.inner + column;
            if constexpr (D != ir::DType::Bool)
                if (length > 1) {
                    using Number =
                        typename std::conditional_t<std::is_integral_v<Storage>, std::make_unsigned<Storage>,
                                                    std::type_identity<Storage>>::type;
                    return add_run(reinterpret_cast<Number *>(place),
                                   reinterpret_cast<const Number *>(source + from), length);
                }
            for (int64_t i = 0; i < length; ++i)
                place[i] = E::store(E::load(place[i]) + E::load(source[from + i]));
        });
    }

    /// Half types accumulate in f32 (S62): elements of x are widened, added to, and rounded at the end. One
    /// outer coordinate and part of the columns at a time has its sums in scratch; or all of them at once,
    /// and their places are shared, where there are too few for all threads.
    static void add_rounding_once(const Job &job) {
        const Folded &fold = job.fold;
        const int64_t parts = Job::column_parts(fold), items = fold.outer * parts, bytes = sums_bytes(fold);
        const int64_t room = static_cast<int64_t>(job.scratch.size()) / std::max<int64_t>(bytes, 1);
        if (room >= items) {
            for_each_part(job, sizeof(Storage), [&](const Part &part) {
                add_in(job, part, job.scratch.subspan(static_cast<size_t>(part.item * bytes)));
            });
            return;
        }
        const int64_t each = std::max<int64_t>(1, fold.count * fold.inner / parts);
        parallel_for_with_scratch(items, kRange / each + 1, job.scratch, bytes,
                                  [&](int64_t begin, int64_t end, std::span<std::byte> scratch) {
                                      for (int64_t i = begin; i < end; ++i) {
                                          const int64_t p = i % parts;
                                          add_in(job,
                                                 {i, i / parts, fold.inner * p / parts,
                                                  fold.inner * (p + 1) / parts, 0, fold.extent},
                                                 scratch);
                                      }
                                  });
    }

    static void add_in(const Job &job, const Part &part, std::span<std::byte> scratch) {
        const auto *source = static_cast<const Storage *>(job.source);
        const int64_t width = part.end - part.begin, inner = job.fold.inner;
        Storage *const to = static_cast<Storage *>(job.out) + part.outer * job.fold.extent * inner;
        float *const sums = Scratch(scratch).take<float>(job.fold.extent * width);
        for (int64_t e = part.low; e < part.high; ++e)
            for (int64_t c = 0; c < width; ++c)
                sums[e * width + c] = E::load(to[e * inner + part.begin + c]);
        if (inner == 1)
            serve_elements<Storage>(job, part, sums,
                                    [](float sum, Storage value) { return sum + E::load(value); });
        else
            walk(job, part, to, [&](int64_t e, int64_t column, int64_t from, int64_t length) {
                float *const place = sums + e * width + column - part.begin;
                for (int64_t i = 0; i < length; ++i)
                    place[i] += E::load(source[from + i]);
            });
        for (int64_t e = part.low; e < part.high; ++e)
            for (int64_t c = 0; c < width; ++c)
                to[e * inner + part.begin + c] = E::store(sums[e * width + c]);
    }

    /// Of the sums of one outer coordinate and part of the columns.
    static int64_t sums_bytes(const Folded &fold) {
        const int64_t parts = Job::column_parts(fold);
        return scratch_for<float>(fold.extent * ((fold.inner + parts - 1) / parts));
    }
};

Folded fold_of(Ints ints) {
    const int64_t rank = ints[8];
    return {rank, ints[2], ints.data() + 9, ints.data() + 9 + rank};
}

} // namespace

int64_t scatter_scratch(Ints ints, const ir::DeviceInfo &device) {
    const Folded fold = fold_of(ints);
    if (!ir::is_half(static_cast<ir::DType>(ints[0])) || ints[3] == 0 ||
        fold.count * fold.inner * fold.outer == 0)
        return 0;
    return std::min<int64_t>(threads_for(device), fold.outer * Job::column_parts(fold)) *
           Add<ir::DType::F16>::sums_bytes(fold);
}

void scatter(const LibraryArgs &args) {
    const int64_t *ints = args.ints.data();
    const int64_t dtype = ints[0], reduce = ints[3], rank = ints[8];
    const int64_t *x_extents = ints + 9, *index_extents = x_extents + rank;
    int64_t elements = 1, indices = 1;
    for (int64_t a = 0; a < rank; ++a) {
        elements *= x_extents[a];
        indices *= index_extents[a];
    }
    void *out = args.buffers[3];
    if (out != args.buffers[0]) {
        int64_t bytes = elements * ir::size_of(static_cast<ir::DType>(dtype));
        parallel_for(bytes, int64_t{1} << 20, [&](int64_t begin, int64_t end) {
            std::memcpy(static_cast<char *>(out) + begin, static_cast<const char *>(args.buffers[0]) + begin,
                        static_cast<size_t>(end - begin));
        });
    }
    if (indices == 0)
        return;
    Job job{fold_of(args.ints),
            args.buffers[1],
            args.buffers[2],
            out,
            DTypeTable<LoadIndices>::at(ints[1]),
            static_cast<ir::DType>(ints[1]),
            ints[5],
            ints[6],
            ints[7],
            ints[4],
            args.fault,
            args.scratch};
    (reduce ? DTypeTable<Add>::at(dtype) : DTypeTable<Put>::at(dtype))(job);
}

} // namespace lz::runtime
