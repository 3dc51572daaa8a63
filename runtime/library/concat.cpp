#include "runtime/library/functions.h"

#include "runtime/api/parallel.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lz::runtime {

namespace {

// Fitted on a Xeon of 2.8 GHz with 48 KiB of first-level and 1.25 MiB of second-level cache a core, on 32 MiB
// of f32 from 2 to 4000 parts (`bench_memory_bound`, cat and stack); a machine with other caches should
// measure kLeastBlock, kMostBlock and kReadAtOnce by powers of two.
/// What one thread puts together at a time: within the first level where few parts allow it, else a part of
/// the second.
constexpr int64_t kLeastBlock = 32 << 10, kMostBlock = 256 << 10;
/// A part gives at least as much to a block, if it has it: enough for the hardware to see a sequence and read
/// ahead. With a fourth of it a thousand parts take twice as long.
constexpr int64_t kReadAtOnce = 2 << 10;
/// Runs from here on are stored past the caches one by one; shorter ones are put together in scratch first.
constexpr int64_t kLongRun = 1024;
/// Results that stay in the caches are put together in scratch where rows of narrow runs are so far apart
/// that they meet in few sets of the first level.
constexpr int64_t kNarrowRun = 32, kWidePitch = 1024;
/// Elements of a run that are not neighbours in memory become parts of their own, if there are as many rows
/// as the first number, and no more of them than the second.
constexpr int64_t kColumnRows = 16, kMostColumns = 4096;
constexpr int64_t kLine = 64;

/// What a part puts into each row of the result, in bytes.
struct Part {
    const std::byte *from;
    int64_t begin, bytes; ///< in a row of the result
    int64_t row, step;    ///< from one row to the next, and from one element of the run to the next
};

// --- squares of 16-byte registers

template <int kWidth>
struct Unsigned;
template <>
struct Unsigned<1> {
    using type = uint8_t;
};
template <>
struct Unsigned<2> {
    using type = uint16_t;
};
template <>
struct Unsigned<4> {
    using type = uint32_t;
};
template <>
struct Unsigned<8> {
    using type = uint64_t;
};
template <int kWidth>
using Register [[gnu::vector_size(16)]] = typename Unsigned<kWidth>::type;

/// The elements of one half of a and b by turns.
template <int kWidth, bool kHigh, size_t... I>
Register<kWidth> interleave(Register<kWidth> a, Register<kWidth> b, std::index_sequence<I...> /*lanes*/) {
    constexpr int kLanes = sizeof...(I);
    return __builtin_shufflevector(
        a, b, (static_cast<int>(I) / 2 + static_cast<int>(I) % 2 * kLanes + (kHigh ? kLanes / 2 : 0))...);
}

/// Bytes of each row from kColumns parts that are dense columns of kWidth bytes. With as many columns as
/// lanes that is the transpose of a square; otherwise each register holds some whole rows in the end.
template <int kWidth, int kColumns>
void copy_columns(const Part *parts, int64_t row, int64_t rows, std::byte *to, int64_t pitch) {
    constexpr int kLanes = 16 / kWidth, kBytes = kColumns * kWidth;
    constexpr auto kAll = std::make_index_sequence<kLanes>();
    const std::byte *from[kColumns];
    for (int i = 0; i < kColumns; ++i)
        from[i] = parts[i].from + row * kWidth;
    int64_t r = 0;
    for (; r + kLanes <= rows; r += kLanes) {
        Register<kWidth> v[kColumns];
        for (int i = 0; i < kColumns; ++i)
            std::memcpy(&v[i], from[i] + r * kWidth, 16);
        // Each turn brings the highest bit of (column, row) to the lowest place: (row, column) at last.
        for (int done = 1; done < kColumns; done *= 2) {
            Register<kWidth> next[kColumns];
            for (int i = 0; i < kColumns / 2; ++i) {
                next[2 * i] = interleave<kWidth, false>(v[i], v[i + kColumns / 2], kAll);
                next[2 * i + 1] = interleave<kWidth, true>(v[i], v[i + kColumns / 2], kAll);
            }
            std::copy_n(next, kColumns, v);
        }
        if (pitch == kBytes)
            std::memcpy(to + r * kBytes, v, sizeof(v));
        else
            for (int i = 0; i < kLanes; ++i)
                std::memcpy(to + (r + i) * pitch, reinterpret_cast<const std::byte *>(v) + i * kBytes,
                            kBytes);
    }
    for (; r < rows; ++r)
        for (int i = 0; i < kColumns; ++i)
            std::memcpy(to + r * pitch + i * kWidth, from[i] + r * kWidth, kWidth);
}

using CopyColumns = void (*)(const Part *, int64_t, int64_t, std::byte *, int64_t);
/// For columns of 1 << [0] bytes, 2 << [1] of them.
constexpr CopyColumns kCopyColumns[4][4] = {
    {copy_columns<1, 2>, copy_columns<1, 4>, copy_columns<1, 8>, copy_columns<1, 16>},
    {copy_columns<2, 2>, copy_columns<2, 4>, copy_columns<2, 8>, nullptr},
    {copy_columns<4, 2>, copy_columns<4, 4>, nullptr, nullptr},
    {copy_columns<8, 2>, nullptr, nullptr, nullptr}};

// --- runs

/// Runs of kWidth bytes, and of up to twice as many: two copies that overlap.
template <size_t kWidth>
void copy_runs(const std::byte *from, int64_t row, int64_t bytes, int64_t rows, std::byte *to,
               int64_t pitch) {
    const int64_t second = bytes - static_cast<int64_t>(kWidth);
    if (second == 0) {
        for (int64_t r = 0; r < rows; ++r)
            std::memcpy(to + r * pitch, from + r * row, kWidth);
        return;
    }
    for (int64_t r = 0; r < rows; ++r, from += row, to += pitch) {
        std::byte a[kWidth], b[kWidth];
        std::memcpy(a, from, kWidth);
        std::memcpy(b, from + second, kWidth);
        std::memcpy(to, a, kWidth);
        std::memcpy(to + second, b, kWidth);
    }
}

void copy_runs(const std::byte *from, int64_t row, int64_t bytes, int64_t rows, std::byte *to,
               int64_t pitch) {
    using Copy = void (*)(const std::byte *, int64_t, int64_t, int64_t, std::byte *, int64_t);
    static constexpr Copy kCopies[] = {copy_runs<1>,  copy_runs<2>,  copy_runs<4>, copy_runs<8>,
                                       copy_runs<16>, copy_runs<32>, copy_runs<64>};
    const auto width = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(bytes))) - 1;
    if (width < std::size(kCopies)) {
        kCopies[width](from, row, bytes, rows, to, pitch);
        return;
    }
    for (int64_t r = 0; r < rows; ++r)
        std::memcpy(to + r * pitch, from + r * row, static_cast<size_t>(bytes));
}

/// Past the caches, but for what shares a line with others.
void stream(std::byte *to, const std::byte *from, int64_t bytes) {
#if defined(__SSE2__)
    const int64_t head = std::min(bytes, static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) & 15));
    std::memcpy(to, from, static_cast<size_t>(head));
    int64_t at = head;
    for (; at + 16 <= bytes; at += 16)
        _mm_stream_si128(reinterpret_cast<__m128i *>(to + at),
                         _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + at)));
    std::memcpy(to + at, from + at, static_cast<size_t>(bytes - at));
#else
    std::memcpy(to, from, static_cast<size_t>(bytes));
#endif
}
void put(std::byte *to, const std::byte *from, int64_t bytes, bool streams) {
    if (streams)
        stream(to, from, bytes);
    else
        std::memcpy(to, from, static_cast<size_t>(bytes));
}
void finish_streams() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

// --- the whole

class Concat {
public:
    explicit Concat(const LibraryArgs &args)
        : size_(args.ints[0]), streams_(args.ints[1] != 0), rows_(args.ints[2]),
          out_(static_cast<std::byte *>(args.buffers.back())) {
        for (auto at = args.ints.subspan(3); at.size() >= 5; at = at.subspan(5))
            add(static_cast<const std::byte *>(args.buffers[static_cast<size_t>(at[0])]) + at[4] * size_,
                at[1], at[2] * size_, at[3] * size_);
    }

    void run() const {
        if (rows_ == 0 || pitch_ == 0)
            return;
        const int64_t run = pitch_ / static_cast<int64_t>(parts_.size());
        const int64_t least = std::min(rows_, std::max<int64_t>(kReadAtOnce / run, 1));
        Shape shape;
        const int64_t most = kMostBlock / least;
        shape.width = pitch_ <= most ? pitch_ : std::max(most / kLine * kLine, kLine);
        const int64_t bytes = run < kLongRun ? kLeastBlock : kMostBlock;
        shape.rows = std::clamp<int64_t>(bytes / shape.width, least, rows_);
        shape.gathers = run < kLongRun && (streams_ || (run < kNarrowRun && pitch_ >= kWidePitch));
        const int64_t across = (pitch_ + shape.width - 1) / shape.width;
        const int64_t down = (rows_ + shape.rows - 1) / shape.rows;
        parallel_for(down * across, 1, [&](int64_t begin, int64_t end) {
            for (int64_t b = begin; b < end; ++b)
                block(shape, b / across * shape.rows, b % across * shape.width);
            finish_streams();
        });
    }

private:
    /// How the result is cut into blocks: rows, and bytes of each.
    struct Shape {
        int64_t rows, width;
        bool gathers; ///< blocks are put together in scratch and stored from there
    };

    void add(const std::byte *from, int64_t run, int64_t row, int64_t step) {
        if (run == 0)
            return;
        if (run == 1 || step == size_) {
            parts_.push_back({from, pitch_, run * size_, row, size_});
        } else if (rows_ >= kColumnRows && run <= kMostColumns) {
            for (int64_t i = 0; i < run; ++i)
                parts_.push_back({from + i * step, pitch_ + i * size_, size_, row, size_});
        } else {
            parts_.push_back({from, pitch_, run * size_, row, step});
        }
        pitch_ += run * size_;
    }

    void block(const Shape &shape, int64_t row, int64_t column) const {
        const int64_t rows = std::min(shape.rows, rows_ - row),
                      width = std::min(shape.width, pitch_ - column);
        std::byte *to = out_ + row * pitch_ + column;
        if (!shape.gathers) {
            copy(row, rows, column, width, to, pitch_, streams_);
            return;
        }
        // Rows that are whole pages apart would meet in few sets of the cache.
        const int64_t pitch = width % 512 == 0 ? width + kLine : width;
        auto *scratch = static_cast<std::byte *>(thread_scratch(static_cast<size_t>(rows * pitch)));
        copy(row, rows, column, width, scratch, pitch, false);
        const bool whole = pitch == pitch_; // one run in both
        for (int64_t r = 0; r < (whole ? 1 : rows); ++r)
            put(to + r * pitch_, scratch + r * pitch, whole ? rows * width : width, streams_);
    }

    /// The bytes [column, column + width) of some rows.
    void copy(int64_t row, int64_t rows, int64_t column, int64_t width, std::byte *to, int64_t pitch,
              bool streams) const {
        auto part = std::ranges::upper_bound(parts_, column, {}, &Part::begin) - 1;
        for (int64_t at = column; at < column + width;) {
            if (const int64_t columns =
                    copy_square(&*part, at, column + width - at, row, rows, to + at - column, pitch)) {
                part += columns;
                at = part == parts_.end() ? pitch_ : part->begin;
                continue;
            }
            const int64_t skip = at - part->begin;
            const int64_t bytes = std::min(part->bytes - skip, column + width - at);
            copy_part(*part, skip, bytes, row, rows, to + at - column, pitch, streams);
            at += bytes;
            ++part;
        }
    }

    /// Two or more parts that are dense columns, as far as they fill 16 bytes of each row; how many.
    int64_t copy_square(const Part *part, int64_t at, int64_t width, int64_t row, int64_t rows, std::byte *to,
                        int64_t pitch) const {
        const int64_t bytes = part->bytes;
        if (bytes > 8 || 16 % bytes != 0 || at != part->begin)
            return 0;
        const int64_t most = std::min({16 / bytes, width / bytes, parts_.data() + parts_.size() - part});
        const auto *end = std::find_if(part, part + most, [&](const Part &p) {
            return p.bytes != bytes || p.row != bytes || p.step != size_;
        });
        const auto log = [](int64_t n) {
            return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(n))) - 1;
        };
        if (end - part < 2)
            return 0;
        const size_t columns = log(end - part);
        kCopyColumns[log(bytes)][columns - 1](part, row, rows, to, pitch);
        return int64_t{1} << columns;
    }

    void copy_part(const Part &part, int64_t skip, int64_t bytes, int64_t row, int64_t rows, std::byte *to,
                   int64_t pitch, bool streams) const {
        const std::byte *from = part.from + row * part.row + skip / size_ * part.step;
        if (part.step != size_) {
            for (int64_t r = 0; r < rows; ++r, from += part.row, to += pitch)
                for (int64_t i = 0; i * size_ < bytes; ++i)
                    std::memcpy(to + i * size_, from + i * part.step, static_cast<size_t>(size_));
        } else if (streams && bytes >= kLongRun) {
            for (int64_t r = 0; r < rows; ++r)
                stream(to + r * pitch, from + r * part.row, bytes);
        } else {
            copy_runs(from, part.row, bytes, rows, to, pitch);
        }
    }

    int64_t size_;
    bool streams_;
    int64_t rows_, pitch_ = 0;
    std::byte *out_;
    std::vector<Part> parts_; // none is empty
};

} // namespace

void concat(const LibraryArgs &args) {
    Concat(args).run();
}

} // namespace lz::runtime
