#include "runtime/library/boxes.h"
#include "runtime/library/functions.h"
#include "runtime/library/join.h"
#include "runtime/library/part_copy.h"
#include "runtime/library/scratch.h"

#include <algorithm>
#include <cstddef>

namespace lz::runtime {

namespace {

// Fitted as those of join.cpp.
/// Elements of a run that are not neighbours in memory, where those of rows are, become parts of their own,
/// if there are as many rows as the first number, and no more of them than the second. With fewer rows the
/// table of parts costs more than it saves.
constexpr int64_t kColumnRows = 128, kMostColumns = 4096;
/// Bytes of a result up to which dense runs are copied one after the other: a table of parts, blocks and
/// threads would take longer than the copies. Runs that are shorter are columns, unless there are few rows.
constexpr int64_t kSmallJoin = 128 << 10, kShortRun = 32, kFewRows = 8;
/// Of runs of more than two axes, planes from this on are joins of their own.
constexpr int64_t kLeastPlane = 256 << 10;

/// The integers of a call. Rows of the result are those of a slab; the axes between a row and a part's run
/// are unrolled: each of their points has all parts one after another.
struct Request {
    explicit Request(Ints ints) : size(ints[0]), streams(ints[1] != 0) {
        size_t at = 2;
        const auto list = [&] {
            const auto count = static_cast<size_t>(ints[at]);
            const Ints found = ints.subspan(at + 1, count);
            at += count + 1;
            return found;
        };
        slabs = list();
        rows = ints[at++];
        unrolled = list();
        parts = ints.subspan(at);
    }

    struct Strided {
        int64_t buffer, begin;
        Ints slabs; ///< strides
        int64_t row;
        Ints unrolled; ///< strides
        Ints run;      ///< extent and stride of each axis
    };
    template <class F>
    void for_parts(F &&f) const {
        for (Ints at = parts; !at.empty();) {
            const size_t row = 2 + slabs.size(), run = row + 1 + unrolled.size();
            const auto axes = 2 * static_cast<size_t>(at[run]);
            f(Strided{at[0], at[1], at.subspan(2, slabs.size()), at[row],
                      at.subspan(row + 1, unrolled.size()), at.subspan(run + 1, axes)});
            at = at.subspan(run + 1 + axes);
        }
    }

    static int64_t product(Ints extents) {
        int64_t n = 1;
        for (const int64_t e : extents)
            n *= e;
        return n;
    }

    int64_t size, rows;
    bool streams;
    Ints slabs, unrolled, parts;
};

/// Whether a run of elements so many apart becomes a part each, where rows are neighbours.
bool has_columns(int64_t rows, int64_t run, int64_t row, int64_t step) {
    return run > 1 && step != 1 && row == 1 && rows >= kColumnRows && run <= kMostColumns;
}

/// Table entries that a part takes.
int64_t entries_of(const Request &request, const Request::Strided &part) {
    const Ints run = part.run;
    return run.size() == 2 && has_columns(request.rows, run[0], part.row, run[1]) ? run[0] : 1;
}
/// And those of the innermost plane of its run, where that is a join by itself.
int64_t entries_of_plane(const Request &request, const Request::Strided &part) {
    const Ints run = part.run;
    return run.size() > 2 && request.rows == 1 ? std::min(run[run.size() - 2], kMostColumns) : 0;
}

/// Parts in the order in which they lie in a row, in a table that has room.
class Table {
public:
    Table(Part *parts, int64_t size, int64_t rows) : parts_(parts), size_(size), rows_(rows) {}

    void add(const std::byte *from, int64_t row, Ints run) {
        const int64_t elements = elements_of(run);
        if (elements == 0)
            return;
        const int64_t step = elements == 1 ? 1 : run.back();
        Part part = {from, pitch_, elements * size_, row * size_, step * size_};
        if (run.size() > 2 && elements > 1) {
            part.step = 0;
            part.dims = run.data();
            part.dim_count = static_cast<int64_t>(run.size() / 2);
            push(part);
        } else if (has_columns(rows_, elements, row, step)) {
            for (int64_t i = 0; i < elements; ++i)
                push({from + i * part.step, pitch_ + i * size_, size_, part.row, size_});
        } else {
            push(part);
        }
        pitch_ += part.bytes;
    }

    std::span<Part> parts() const { return {parts_, static_cast<size_t>(count_)}; }
    int64_t pitch() const { return pitch_; }

private:
    void push(const Part &part) { parts_[count_++] = part; }

    Part *parts_;
    int64_t size_, rows_, count_ = 0, pitch_ = 0;
};

class Concat {
public:
    explicit Concat(const LibraryArgs &args)
        : request_(args.ints), buffers_(args.buffers), out_(static_cast<std::byte *>(args.buffers.back())),
          scratch_(args.scratch) {}

    /// As many parts as tables have.
    static int64_t most_parts(const Request &request) {
        int64_t parts = 0, plane = 0;
        request.for_parts([&](const auto &part) {
            parts += entries_of(request, part);
            plane = std::max(plane, entries_of_plane(request, part));
        });
        return parts * Request::product(request.unrolled) + plane;
    }

    void run() {
        const int64_t small = pitch_if_small();
        if (small == 0)
            parts_ = Scratch(scratch_).take<Part>(most_parts(request_));
        int64_t slab[kMostBoxDims] = {};
        for (int64_t s = 0, all = Request::product(request_.slabs); s < all; ++s) {
            out_ += small > 0 ? run_small_slab(slab, small) : run_slab(slab);
            next(slab, request_.slabs);
        }
    }

private:
    /// Bytes of a row of a result that is small and stays in the caches, if all its runs are dense; else 0.
    int64_t pitch_if_small() const {
        if (request_.streams || Request::product(request_.unrolled) != 1)
            return 0;
        const int64_t rows = request_.rows;
        int64_t pitch = 0;
        bool dense = true;
        request_.for_parts([&](const Request::Strided &part) {
            const int64_t elements = elements_of(part.run), bytes = elements * request_.size;
            dense = dense && (elements <= 1 || (part.run.size() == 2 && part.run[1] == 1)) &&
                    (rows <= kFewRows || bytes > kShortRun || bytes == 0);
            pitch += bytes;
        });
        return dense && pitch * rows * Request::product(request_.slabs) <= kSmallJoin ? pitch : 0;
    }

    /// Returns its bytes.
    int64_t run_small_slab(const int64_t *slab, int64_t pitch) const {
        std::byte *to = out_;
        request_.for_parts([&](const Request::Strided &part) {
            const int64_t bytes = elements_of(part.run) * request_.size;
            if (bytes == 0)
                return;
            const auto *from = static_cast<const std::byte *>(buffers_[static_cast<size_t>(part.buffer)]);
            copy_runs(from + (part.begin + offset(slab, part.slabs)) * request_.size,
                      part.row * request_.size, bytes, request_.rows, to, pitch);
            to += bytes;
        });
        return request_.rows * pitch;
    }

    static void next(int64_t *index, Ints extents) {
        for (size_t d = extents.size(); d-- > 0;) {
            if (++index[d] < extents[d])
                return;
            index[d] = 0;
        }
    }
    static int64_t offset(const int64_t *index, Ints strides) {
        int64_t at = 0;
        for (size_t d = 0; d < strides.size(); ++d)
            at += index[d] * strides[d];
        return at;
    }

    /// Returns its bytes.
    int64_t run_slab(const int64_t *slab) {
        Table table(parts_, request_.size, request_.rows);
        int64_t point[kMostBoxDims] = {};
        for (int64_t p = 0, all = Request::product(request_.unrolled); p < all; ++p) {
            request_.for_parts([&](const Request::Strided &part) {
                const auto *from = static_cast<const std::byte *>(buffers_[static_cast<size_t>(part.buffer)]);
                const int64_t begin = part.begin + offset(slab, part.slabs) + offset(point, part.unrolled);
                table.add(from + begin * request_.size, part.row, part.run);
            });
            next(point, request_.unrolled);
        }
        const std::span<Part> parts = table.parts();
        if (request_.rows == 1 && std::ranges::any_of(parts, [](const Part &p) { return p.dims != nullptr; }))
            run_apart(parts);
        else
            join_rows(request_.size, request_.streams, request_.rows, out_, parts);
        return request_.rows * table.pitch();
    }

    /// Of one row: those that have no one step by themselves, the others as far as they are neighbours.
    void run_apart(std::span<Part> parts) {
        Part *columns = parts.data() + parts.size();
        for (size_t i = 0; i < parts.size();) {
            std::byte *const to = out_ + parts[i].begin;
            if (const Part &part = parts[i]; part.dims) {
                const Ints dims(part.dims, static_cast<size_t>(2 * part.dim_count));
                run_planes(dims, part.from, to, columns);
                ++i;
                continue;
            }
            size_t end = i;
            for (const int64_t begin = parts[i].begin; end < parts.size() && !parts[end].dims; ++end)
                parts[end].begin -= begin;
            join_rows(request_.size, request_.streams, 1, to, parts.subspan(i, end - i));
            i = end;
        }
    }

    /// A run of several axes: the first are loops as long as what they contain is large.
    void run_planes(Ints dims, const std::byte *from, std::byte *to, Part *columns) const {
        const int64_t size = request_.size, rows = dims[0], row = dims[1];
        const int64_t bytes = elements_of(dims.subspan(2)) * size;
        if (dims.size() > 4 && bytes >= kLeastPlane) {
            for (int64_t i = 0; i < rows; ++i)
                run_planes(dims.subspan(2), from + i * row * size, to + i * bytes, columns);
            return;
        }
        Table table(columns, size, rows);
        table.add(from, row, dims.subspan(2));
        join_rows(size, request_.streams, rows, to, table.parts());
    }

    Request request_;
    std::span<void *const> buffers_;
    std::byte *out_;
    std::span<std::byte> scratch_;
    Part *parts_ = nullptr;
};

} // namespace

int64_t concat_scratch(Ints ints, const ir::DeviceInfo &) {
    return scratch_for<Part>(Concat::most_parts(Request(ints)));
}

void concat(const LibraryArgs &args) {
    Concat(args).run();
}

} // namespace lz::runtime
