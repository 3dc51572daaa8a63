#include "runtime/library/element.h"
#include "runtime/library/functions.h"

#include "ir/diagnostic.h"
#include "runtime/api/parallel.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace lz::runtime {

namespace {

/// Elements worth handing to another thread; places looked up at a time.
constexpr int64_t kRange = 8192, kRun = 256;

/// The shapes folded around the axis: x is (outer, extent, inner), index and source are (outer, count,
/// inner). Places meet along the axis only, and there they are served first to last by one thread, whatever
/// the others do.
struct Fold {
    int64_t outer = 1, extent, count, inner = 1;

    Fold(int64_t rank, int64_t axis, const int64_t *x, const int64_t *index)
        : extent(x[axis]), count(index[axis]) {
        for (int64_t a = 0; a < rank; ++a)
            if (a != axis)
                (a < axis ? outer : inner) *= x[a];
    }
};

template <ir::DType D>
struct LoadIndices {
    static void run(const void *indices, int64_t begin, int64_t count, int64_t *out) {
        const auto *in = static_cast<const typename Element<D>::Storage *>(indices) + begin;
        if constexpr (ir::is_integer(D))
            for (int64_t i = 0; i < count; ++i)
                out[i] = static_cast<int64_t>(in[i]);
        else
            ir::internal_failure(__FILE__, __LINE__, "indices of a scatter are integers");
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
    Fold fold;
    const void *index, *source;
    void *out;
    decltype(&LoadIndices<ir::DType::I64>::run) load_indices;
    int64_t outer_stride, along_stride, inner_stride; ///< of the index; 0 where it is repeated
    int64_t node;
    ir::Fault *fault;
};

/// Columns [begin, end) of one outer coordinate.
struct Part {
    int64_t outer, begin, end;
};

/// put(e, column, from) for all elements of the part: source element `from` goes to place e along the axis.
template <class F>
void walk(const Job &job, const Part &part, F put) {
    int64_t places[kRun];
    const Fold &f = job.fold;
    // Elements that follow each other: along the axis, or across the columns.
    bool along = f.inner == 1;
    int64_t lines = along ? 1 : f.count;
    int64_t begin = along ? 0 : part.begin, end = along ? f.count : part.end;
    const int64_t step = along ? job.along_stride : job.inner_stride;
    const int64_t step_of_lines = along ? 0 : job.along_stride;
    for (int64_t k = 0; k < lines; ++k) {
        const int64_t line = part.outer * f.count * f.inner + k * f.inner;
        const int64_t at = part.outer * job.outer_stride + k * step_of_lines;
        if (step == 0 && !along) { // a line goes to one place
            job.load_indices(job.index, at, 1, places);
            if (static_cast<uint64_t>(places[0]) >= static_cast<uint64_t>(f.extent)) [[unlikely]]
                report(*job.fault, job.node, places[0], f.extent);
            else
                for (int64_t r = begin; r < end; ++r)
                    put(places[0], r, line + r);
            continue;
        }
        for (int64_t r = begin; r < end; r += kRun) {
            int64_t from = line + r;
            int64_t length = std::min(kRun, end - r);
            job.load_indices(job.index, at + r * step, step == 0 ? 1 : length, places);
            if (step == 0)
                std::fill_n(places, length, places[0]);
            for (int64_t i = 0; i < length; ++i)
                if (static_cast<uint64_t>(places[i]) >= static_cast<uint64_t>(f.extent)) [[unlikely]]
                    report(*job.fault, job.node, places[i], f.extent);
                else
                    put(places[i], along ? 0 : r + i, from + i);
        }
    }
}

/// Shares outer coordinates and columns between threads.
template <class F>
void for_each_part(const Fold &fold, F f) {
    // Parts are wide enough for whole cache lines.
    int64_t parts = std::clamp<int64_t>(fold.inner / 64, 1, 64);
    int64_t each = std::max<int64_t>(1, fold.count * fold.inner / parts);
    parallel_for(fold.outer * parts, kRange / each + 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p)
            f(Part{p / parts, fold.inner * (p % parts) / parts, fold.inner * (p % parts + 1) / parts});
    });
}

template <ir::DType D>
struct Put {
    static void run(const Job &job) {
        using Storage = typename Element<D>::Storage;
        const auto *source = static_cast<const Storage *>(job.source);
        auto *out = static_cast<Storage *>(job.out);
        for_each_part(job.fold, [&](const Part &part) {
            Storage *to = out + part.outer * job.fold.extent * job.fold.inner;
            walk(job, part, [&](int64_t e, int64_t column, int64_t from) {
                to[e * job.fold.inner + column] = source[from];
            });
        });
    }
};

template <ir::DType D>
struct Add {
    using E = Element<D>;
    using Storage = typename E::Storage;

    static void run(const Job &job) {
        const auto *source = static_cast<const Storage *>(job.source);
        auto *out = static_cast<Storage *>(job.out);
        const int64_t inner = job.fold.inner;
        for_each_part(job.fold, [&](const Part &part) {
            Storage *to = out + part.outer * job.fold.extent * inner;
            if constexpr (ir::is_half(D))
                add_rounding_once(job, part, source, to);
            else
                walk(job, part, [&](int64_t e, int64_t column, int64_t from) {
                    Storage &place = to[e * inner + column];
                    place = E::store(E::load(place) + E::load(source[from]));
                });
        });
    }

    /// Half types accumulate in f32 (S62): the part's elements of x are widened, added to, and rounded at the
    /// end.
    static void add_rounding_once(const Job &job, const Part &part, const Storage *source, Storage *to) {
        const int64_t width = part.end - part.begin, inner = job.fold.inner;
        auto sums = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(job.fold.extent * width));
        auto sum_at = [&](int64_t e, int64_t column) -> float & {
            return sums[static_cast<size_t>(e * width + column - part.begin)];
        };
        for (int64_t e = 0; e < job.fold.extent; ++e)
            for (int64_t c = part.begin; c < part.end; ++c)
                sum_at(e, c) = E::load(to[e * inner + c]);
        walk(job, part,
             [&](int64_t e, int64_t column, int64_t from) { sum_at(e, column) += E::load(source[from]); });
        for (int64_t e = 0; e < job.fold.extent; ++e)
            for (int64_t c = part.begin; c < part.end; ++c)
                to[e * inner + c] = E::store(sum_at(e, c));
    }
};

} // namespace

void scatter(const LibraryArgs &args) {
    const int64_t *ints = args.ints.data();
    const int64_t dtype = ints[0], axis = ints[2], reduce = ints[3], rank = ints[8];
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
    Job job{Fold(rank, axis, x_extents, index_extents),
            args.buffers[1],
            args.buffers[2],
            out,
            DTypeTable<LoadIndices>::at(ints[1]),
            ints[5],
            ints[6],
            ints[7],
            ints[4],
            args.fault};
    (reduce ? DTypeTable<Add>::at(dtype) : DTypeTable<Put>::at(dtype))(job);
}

} // namespace lz::runtime
