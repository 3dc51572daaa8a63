#include "runtime/library/element.h"
#include "runtime/library/functions.h"

#include "ir/diagnostic.h"
#include "runtime/library/scratch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <type_traits>

namespace lz::runtime {

namespace {

/// Elements worth handing to another thread; places looked up at a time.
constexpr int64_t kRange = 8192, kRun = 256;
/// So many elements or lines before one is put its memory is fetched; of a line so many cache lines.
constexpr int64_t kAhead = 12, kLinesAhead = 4, kLinesFetched = 8;
/// A line of as many elements takes longer to add than its index to look at, several times over.
constexpr int64_t kWideLine = 16;
/// Places of more bytes than this are not all in the second-level cache.
constexpr int64_t kFar = 512 << 10;

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

bool is_far(const Folded &fold, size_t size) {
    return fold.extent * fold.inner * static_cast<int64_t>(size) > kFar;
}

template <ir::DType D>
struct LoadIndices {
    /// Where the indices [begin, begin + count) are as i64: in `room`, unless they are so already.
    static const int64_t *run(const void *indices, int64_t begin, int64_t count, int64_t *room) {
        const auto *in = static_cast<const typename Element<D>::Storage *>(indices) + begin;
        if constexpr (D == ir::DType::I64)
            return in;
        else if constexpr (ir::is_integer(D))
            for (int64_t i = 0; i < count; ++i)
                room[i] = static_cast<int64_t>(in[i]);
        else
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
        if (static_cast<uint64_t>(place) >= static_cast<uint64_t>(job.fold.extent))
            report(*job.fault, job.node, place, job.fold.extent);
    }
}

constexpr auto kAll = [] {
    std::array<int32_t, kRun> all{};
    std::iota(all.begin(), all.end(), 0);
    return all;
}();

/// Places along the axis, and for each the position of its index among those that were looked up.
struct Own {
    int64_t count;
    const int64_t *places;
    const int32_t *positions;
};

/// Those of `length` places that belong to the part, in order. Sets `outside` if some lie outside the axis.
Own find_own(const Job &job, const Part &part, const int64_t *places, int64_t *own_places, int32_t *positions,
             int64_t length, bool &outside) {
    const auto extent = static_cast<uint64_t>(job.fold.extent);
    const int64_t low = part.low;
    const auto own = static_cast<uint64_t>(part.high - low);
    if (low == 0)
        for (int64_t i = 0; i < length; ++i)
            outside |= static_cast<uint64_t>(places[i]) >= extent;
    if (low == 0 && own == extent && !outside)
        return {length, places, kAll.data()};
    int64_t count = 0;
    for (int64_t i = 0; i < length; ++i) { // without a branch: indices come in any order
        const int64_t place = places[i];
        own_places[count] = place;
        positions[count] = static_cast<int32_t>(i);
        count += static_cast<uint64_t>(place - low) < own;
    }
    return {count, own_places, positions};
}

/// For the part's own elements, in the order of the source: put(e, column, from, length) for runs of columns
/// [column, column + length) that go to place e, from the source's elements `from` and on.
template <class Storage, class F>
void walk(const Job &job, const Part &part, const Storage *to, F put) {
    int64_t room[kRun];
    int32_t held[kRun];
    const Folded &f = job.fold;
    const bool far = is_far(f, sizeof(Storage));
    const int64_t index = part.outer * job.outer_stride, source = part.outer * f.count * f.inner;
    const auto look_up = [&](int64_t at, int64_t stride, int64_t length) {
        const int64_t *places = room;
        if (stride == 1)
            places = job.load_indices(job.index, at, length, room);
        else
            for (int64_t i = 0; i < length; ++i)
                room[i] = *job.load_indices(job.index, at + i * stride, 1, room + i);
        bool outside = false;
        const Own own = find_own(job, part, places, room, held, length, outside);
        if (outside && part.low == 0) [[unlikely]] // one part says so
            report_outside(job, at, length, stride);
        return own;
    };
    if (f.inner == 1) {
        for (int64_t k = 0; k < f.count; k += kRun) {
            const auto [own, places, at] =
                look_up(index + k * job.along_stride, job.along_stride, std::min(kRun, f.count - k));
            for (int64_t i = 0; i < own; ++i) {
                if (far)
                    __builtin_prefetch(to + places[std::min(i + kAhead, own - 1)], 1);
                put(places[i], int64_t{0}, source + k + at[i], int64_t{1});
            }
        }
    } else if (job.inner_stride == 0) { // a line of columns goes to one place
        const auto *const from = static_cast<const Storage *>(job.source);
        const int64_t length = part.end - part.begin;
        constexpr int64_t kLine = 64 / sizeof(Storage);
        for (int64_t k = 0; k < f.count; k += kRun) {
            const auto [own, places, at] =
                look_up(index + k * job.along_stride, job.along_stride, std::min(kRun, f.count - k));
            const auto line = [&, positions = at](int64_t i) {
                return source + (k + positions[i]) * f.inner + part.begin;
            };
            for (int64_t i = 0; i < own; ++i) {
                if (const int64_t next = i + kLinesAhead; next < own)
                    for (int64_t c = 0; c < std::min(length, kLinesFetched * kLine); c += kLine) {
                        __builtin_prefetch(to + places[next] * f.inner + part.begin + c, 1);
                        __builtin_prefetch(from + line(next) + c);
                    }
                put(places[i], part.begin, line(i), length);
            }
        }
    } else {
        for (int64_t k = 0; k < f.count; ++k)
            for (int64_t c = part.begin; c < part.end; c += kRun) {
                const auto [own, places, at] = look_up(index + k * job.along_stride + c * job.inner_stride,
                                                       job.inner_stride, std::min(kRun, part.end - c));
                for (int64_t i = 0; i < own; ++i)
                    put(places[i], c + at[i], source + k * f.inner + c + at[i], int64_t{1});
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
    // Where single elements go to places that stay in the cache, it costs as much as to serve them all.
    const int64_t wanted = num_threads() * (job.inner_stride == 0 && fold.inner >= kWideLine ? 2 : 1);
    const bool alone = each < kRange || (fold.inner == 1 && !is_far(fold, size));
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

/// to[i] += from[i], integers without their sign so that overflow wraps.
template <class T>
void add_run(T *to, const T *from, int64_t length) {
    using Numbers [[gnu::vector_size(32)]] = T;
    constexpr int64_t kLanes = 32 / sizeof(T);
    int64_t i = 0;
    for (; i + kLanes <= length; i += kLanes) {
        Numbers a, b;
        std::memcpy(&a, to + i, sizeof(a));
        std::memcpy(&b, from + i, sizeof(b));
        a += b;
        std::memcpy(to + i, &a, sizeof(a));
    }
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
            ints[5],
            ints[6],
            ints[7],
            ints[4],
            args.fault,
            args.scratch};
    (reduce ? DTypeTable<Add>::at(dtype) : DTypeTable<Put>::at(dtype))(job);
}

} // namespace lz::runtime
