#include "runtime/library/columns_avx512.h"

#include "runtime/library/avx512.h"
#include "runtime/library/element.h"

#if defined(LAZULI_AVX512)

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace lz::runtime::avx512 {

namespace {

template <int kWidth>
using Wide [[gnu::vector_size(64)]] = typename UnsignedOf<kWidth>::type;
using Line = Wide<8>;

/// The bytes of two lines from that many before the second on.
LAZULI_AVX512 inline __m512i join(__m512i before, __m512i line, int64_t behind) {
    alignas(kLine) static constexpr auto kIota = [] {
        std::array<uint16_t, 64> all{};
        for (size_t i = 0; i < all.size(); ++i)
            all[i] = static_cast<uint16_t>(i);
        return all;
    }();
    return _mm512_permutex2var_epi16(before, _mm512_loadu_si512(kIota.data() + (32 - behind / 2)), line);
}

/// One line of a chain; what lies before `begin` is somebody else's.
LAZULI_AVX512 inline void store_line(std::byte *to, __m512i line, const std::byte *begin) {
    if (to < begin)
        _mm512_mask_storeu_epi8(to, ~uint64_t{0} << (begin - to), line);
    else
        _mm512_stream_si512(reinterpret_cast<__m512i *>(to), line);
}

/// Likewise where both begin at multiples of four bytes: a third of the work.
LAZULI_AVX512 inline __m512i join_words(__m512i before, __m512i line, int64_t behind) {
    alignas(kLine) static constexpr auto kIota = [] {
        std::array<uint32_t, 32> all{};
        for (size_t i = 0; i < all.size(); ++i)
            all[i] = static_cast<uint32_t>(i);
        return all;
    }();
    return _mm512_permutex2var_epi32(before, _mm512_loadu_si512(kIota.data() + (16 - behind / 4)), line);
}

LAZULI_AVX512 inline void store_tail(std::byte *end, __m512i carried, const std::byte *begin) {
    const int64_t bytes = behind_line(end);
    std::byte *to = end - bytes;
    const uint64_t others = to < begin ? ~(~uint64_t{0} << (begin - to)) : 0;
    if (bytes > 0)
        _mm512_mask_storeu_epi8(to, ~(~uint64_t{0} << bytes) & ~others, join(carried, carried, bytes));
}

LAZULI_AVX512 inline void chain_line(std::byte *to, __m512i line, std::byte *carried, const std::byte *begin,
                                     bool last) {
    const int64_t behind = behind_line(to);
    store_line(to - behind, join(_mm512_load_si512(carried), line, behind), begin);
    if (last)
        store_tail(to + kLine, line, begin);
    else
        _mm512_store_si512(carried, line);
}

/// Neither the first line of its row nor the last, at a multiple of four bytes.
LAZULI_AVX512 inline void chain_inner_line(std::byte *to, __m512i line, std::byte *carried) {
    const int64_t behind = behind_line(to);
    _mm512_stream_si512(reinterpret_cast<__m512i *>(to - behind),
                        join_words(_mm512_load_si512(carried), line, behind));
    _mm512_store_si512(carried, line);
}

/// Where the line of a row goes. Most lines of a chain are inner ones, and those are quick enough for the
/// processor to have the next square's loads under way.
enum class To { Caches, Memory, Chain, InnerChain };

template <To kTo>
LAZULI_AVX512 inline void store(std::byte *to, int64_t pitch, int64_t row, const Line &line,
                                const Chain &chain) {
    to += row * pitch;
    if constexpr (kTo == To::Caches)
        std::memcpy(to, &line, kLine);
    else if constexpr (kTo == To::Memory)
        _mm512_stream_si512(reinterpret_cast<__m512i *>(to), (__m512i)line);
    else if constexpr (kTo == To::InnerChain)
        chain_inner_line(to, (__m512i)line, chain.carried + row * kLine);
    else
        chain_line(to, (__m512i)line, chain.carried + row * kLine, chain.begin + row * pitch, chain.last);
}

/// Those rows that no line of each part holds.
template <int kWidth, To kTo>
LAZULI_AVX512 void store_rows(const Part *parts, int64_t row, int64_t begin, int64_t rows, std::byte *to,
                              int64_t pitch, const Chain &chain) {
    for (int64_t r = begin; r < rows; ++r) {
        Line line;
        for (int64_t i = 0; i < kLine / kWidth; ++i)
            std::memcpy(reinterpret_cast<std::byte *>(&line) + i * kWidth, parts[i].from + (row + r) * kWidth,
                        kWidth);
        store<kTo>(to, pitch, r, line, chain);
    }
}

/// In each kBytes, the elements of one half of a and b by turns.
template <int kWidth, int kBytes, bool kHigh, size_t... I>
LAZULI_AVX512 inline void interleave(Line &to, const Line &a, const Line &b,
                                     std::index_sequence<I...> /*elements*/) {
    constexpr int kAll = sizeof...(I), kLane = kBytes / kWidth;
    to =
        (Line)__builtin_shufflevector((Wide<kWidth>)a, (Wide<kWidth>)b,
                                      (static_cast<int>(I) / kLane * kLane + static_cast<int>(I) % kLane / 2 +
                                       (kHigh ? kLane / 2 : 0) + static_cast<int>(I) % 2 * kAll)...);
}

/// Columns of a table of parts, from a row on.
struct OfParts {
    const Part *parts;
    int64_t behind; ///< bytes before that row in each
    const std::byte *operator()(int i) const { return parts[i].from + behind; }
};
/// Likewise of some; those behind the last are the last again.
struct OfSomeParts {
    const Part *parts;
    int64_t behind;
    int columns;
    const std::byte *operator()(int i) const { return parts[std::min(i, columns - 1)].from + behind; }
};
/// Likewise of columns equally far apart.
struct Equidistant {
    const std::byte *from;
    int64_t step;
    int columns;
    const std::byte *operator()(int i) const { return from + std::min(i, columns - 1) * step; }
};

/// A line of each row from 64 / kWidth columns: `rows` rows from `row` on, and as many as columns at the
/// most. The squares within each 16 bytes are transposed first, then the lines' 16 bytes.
template <int kWidth, bool kWhole, class From, class StoreLine>
LAZULI_AVX512 inline void transpose_square(const From &from, int64_t row, int64_t rows,
                                           const StoreLine &store_line) {
    constexpr int kLane = 16 / kWidth, kAll = 64 / kWidth;
    [[maybe_unused]] const uint64_t some = kWhole ? 0 : ~(~uint64_t{0} << (rows * kWidth));
    Line v[4][kLane];
#pragma GCC unroll 64
    for (int i = 0; i < kAll; ++i) {
        const std::byte *at = from(i) + row * kWidth;
        if constexpr (kWhole)
            std::memcpy(&v[i / kLane][i % kLane], at, kLine);
        else
            v[i / kLane][i % kLane] = (Line)_mm512_maskz_loadu_epi8(some, at);
    }
    if constexpr (kLane > 1) {
        constexpr auto kElements = std::make_index_sequence<kAll>();
        constexpr int kTurns = 4 * std::countr_zero(unsigned{kLane});
#pragma GCC unroll 16
        for (int turn = 0; turn < kTurns; ++turn) {
            Line(&lanes)[kLane] = v[turn % 4];
            Line next[kLane];
#pragma GCC unroll 16
            for (int i = 0; i < kLane / 2; ++i) {
                interleave<kWidth, 16, false>(next[2 * i], lanes[i], lanes[i + kLane / 2], kElements);
                interleave<kWidth, 16, true>(next[2 * i + 1], lanes[i], lanes[i + kLane / 2], kElements);
            }
#pragma GCC unroll 16
            for (int i = 0; i < kLane; ++i)
                lanes[i] = next[i];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLane; ++i) {
        const Line a = __builtin_shufflevector(v[0][i], v[1][i], 0, 1, 8, 9, 4, 5, 12, 13),
                   b = __builtin_shufflevector(v[2][i], v[3][i], 0, 1, 8, 9, 4, 5, 12, 13),
                   c = __builtin_shufflevector(v[0][i], v[1][i], 2, 3, 10, 11, 6, 7, 14, 15),
                   d = __builtin_shufflevector(v[2][i], v[3][i], 2, 3, 10, 11, 6, 7, 14, 15);
        const Line line[4] = {__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11),
                              __builtin_shufflevector(c, d, 0, 1, 2, 3, 8, 9, 10, 11),
                              __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15),
                              __builtin_shufflevector(c, d, 4, 5, 6, 7, 12, 13, 14, 15)};
#pragma GCC unroll 4
        for (int l = 0; l < 4; ++l)
            if (kWhole || l * kLane + i < rows)
                store_line(row + l * kLane + i, line[l]);
    }
}

template <int kWidth, class From, class StoreLine>
LAZULI_AVX512 inline void transpose_rows(const From &from, int64_t rows, const StoreLine &store_line) {
    constexpr int kAll = 64 / kWidth;
    int64_t r = 0;
    for (; r + kAll <= rows; r += kAll)
        transpose_square<kWidth, true>(from, r, kAll, store_line);
    if (r < rows)
        transpose_square<kWidth, false>(from, r, rows - r, store_line);
}

/// A functor, because a lambda does not inherit what its function is compiled for.
template <To kTo>
struct StoreLine {
    std::byte *to;
    int64_t pitch;
    const Chain *chain;
    LAZULI_AVX512 void operator()(int64_t row, const Line &line) const {
        store<kTo>(to, pitch, row, line, *chain);
    }
};
struct StoreSome {
    std::byte *to;
    int64_t pitch;
    uint64_t bytes;
    LAZULI_AVX512 void operator()(int64_t row, const Line &line) const {
        _mm512_mask_storeu_epi8(to + row * pitch, bytes, (__m512i)line);
    }
};

template <int kWidth, To kTo>
LAZULI_AVX512 void transpose(const Part *parts, int64_t row, int64_t rows, std::byte *to, int64_t pitch,
                             const Chain &chain) {
    transpose_rows<kWidth>(OfParts{parts, row * kWidth}, rows, StoreLine<kTo>{to, pitch, &chain});
}

/// Fewer columns than fill a line.
template <int kWidth>
LAZULI_AVX512 void transpose_some(const Part *parts, int64_t count, int64_t row, int64_t rows, std::byte *to,
                                  int64_t pitch) {
    transpose_rows<kWidth>(OfSomeParts{parts, row * kWidth, static_cast<int>(count)}, rows,
                           StoreSome{to, pitch, ~(~uint64_t{0} << (count * kWidth))});
}

/// The lines of the next columns, on their way while this square is turned: as far as they are few.
inline void prefetch_columns(const std::byte *from, int64_t step, int64_t columns, int64_t bytes) {
    constexpr int64_t kMostLines = 8;
    const int64_t lines = std::min((bytes + kLine - 1) / kLine, kMostLines);
    for (int64_t c = 0; c < columns; ++c)
        for (int64_t l = 0; l < lines; ++l)
            __builtin_prefetch(from + c * step + l * kLine);
}

template <int kWidth, bool kLines>
LAZULI_AVX512 void transpose_plane(const std::byte *from, int64_t step, int64_t columns, int64_t rows,
                                   std::byte *to, int64_t pitch) {
    constexpr int64_t kAll = 64 / kWidth;
    static constexpr Chain kNone = {};
    for (; columns > 0; columns -= kAll, from += kAll * step, to += kLine) {
        const Equidistant at = {from, step, static_cast<int>(std::min(columns, kAll))};
        if (columns > kAll)
            prefetch_columns(from + kAll * step, step, std::min(columns - kAll, kAll), rows * kWidth);
        if (columns >= kAll && kLines)
            transpose_rows<kWidth>(at, rows, StoreLine<To::Memory>{to, pitch, &kNone});
        else if (columns >= kAll)
            transpose_rows<kWidth>(at, rows, StoreLine<To::Caches>{to, pitch, &kNone});
        else
            transpose_rows<kWidth>(at, rows, StoreSome{to, pitch, ~(~uint64_t{0} << (columns * kWidth))});
    }
}

/// Likewise from two parts of 32 bytes a row.
template <To kTo>
LAZULI_AVX512 void transpose_halves(const Part *parts, int64_t row, int64_t rows, std::byte *to,
                                    int64_t pitch, const Chain &chain) {
    int64_t r = 0;
    for (; r + 2 <= rows; r += 2) {
        Line a, b;
        std::memcpy(&a, parts[0].from + (row + r) * 32, kLine);
        std::memcpy(&b, parts[1].from + (row + r) * 32, kLine);
        store<kTo>(to, pitch, r, __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11), chain);
        store<kTo>(to, pitch, r + 1, __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15), chain);
    }
    store_rows<32, kTo>(parts, row, r, rows, to, pitch, chain);
}

/// Those rows from `begin` on that fill no line.
template <int kWidth>
void copy_rest(const Part *parts, int columns, int64_t row, int64_t begin, int64_t rows, std::byte *to,
               int64_t pitch) {
    for (int64_t r = begin; r < rows; ++r)
        for (int c = 0; c < columns; ++c)
            std::memcpy(to + r * pitch + c * kWidth, parts[c].from + (row + r) * kWidth, kWidth);
}

/// Whole rows of kColumns dense columns of kWidth bytes, as many lines of them at a time. Each turn brings
/// the highest bit of (column, row) to the lowest place: (row, column) at last.
template <int kWidth, int kColumns>
LAZULI_AVX512 void copy_whole_rows(const Part *parts, int64_t /*count*/, int64_t row, int64_t rows,
                                   std::byte *to, int64_t pitch) {
    constexpr int kAll = 64 / kWidth;
    constexpr auto kElements = std::make_index_sequence<kAll>();
    int64_t r = 0;
    for (; r + kAll <= rows; r += kAll) {
        Line v[kColumns];
#pragma GCC unroll 32
        for (int i = 0; i < kColumns; ++i)
            std::memcpy(&v[i], parts[i].from + (row + r) * kWidth, kLine);
        constexpr int kTurns = std::countr_zero(unsigned{kColumns});
#pragma GCC unroll 5
        for (int turn = 0; turn < kTurns; ++turn) {
            Line next[kColumns];
#pragma GCC unroll 16
            for (int i = 0; i < kColumns / 2; ++i) {
                interleave<kWidth, 64, false>(next[2 * i], v[i], v[i + kColumns / 2], kElements);
                interleave<kWidth, 64, true>(next[2 * i + 1], v[i], v[i + kColumns / 2], kElements);
            }
#pragma GCC unroll 32
            for (int i = 0; i < kColumns; ++i)
                v[i] = next[i];
        }
#pragma GCC unroll 32
        for (int i = 0; i < kColumns; ++i)
            store<To::Memory>(to + r * pitch, kLine, i, v[i], {});
    }
    copy_rest<kWidth>(parts, kColumns, row, r, rows, to, pitch);
}

template <int kWidth>
LAZULI_AVX512 inline __m512i pick(__m512i a, __m512i index, __m512i b) {
    if constexpr (kWidth == 2)
        return _mm512_permutex2var_epi16(a, index, b);
    else if constexpr (kWidth == 4)
        return _mm512_permutex2var_epi32(a, index, b);
    else
        return _mm512_permutex2var_epi64(a, index, b);
}

constexpr int kMostFew = 7; // of more, squares are turned as fast

/// For each number of columns, line of as many rows as a line has elements, and column but the first: which
/// elements of the line so far stay, and which are the column's.
template <int kWidth>
struct FewColumns {
    static constexpr int kAll = 64 / kWidth;
    using Lane = typename UnsignedOf<kWidth>::type;
    alignas(kLine) Lane index[kMostFew + 1][kMostFew * (kMostFew - 1)][kAll];

    FewColumns() {
        for (int columns = 2; columns <= kMostFew; ++columns)
            for (int line = 0; line < columns; ++line)
                for (int lane = 0; lane < kAll; ++lane)
                    fill(columns, line, lane);
    }
    void fill(int columns, int line, int lane) {
        const int row = (line * kAll + lane) / columns, column = (line * kAll + lane) % columns;
        for (int c = 1; c < columns; ++c) {
            const int kept = c == 1 ? row : lane;
            index[columns][line * (columns - 1) + c - 1][lane] =
                static_cast<Lane>(column == c ? kAll + row : kept);
        }
    }
    static const FewColumns &table() {
        static const FewColumns *const table = new FewColumns; // statics' destructors may join tensors
        return *table;
    }
};

/// Likewise of any small number of columns: each line of the result picks from one column after another.
template <int kWidth>
LAZULI_AVX512 void copy_few_columns(const Part *parts, int64_t count, int64_t row, int64_t rows,
                                    std::byte *to, int64_t pitch) {
    constexpr int kAll = 64 / kWidth;
    const int columns = static_cast<int>(count);
    const auto *const index = FewColumns<kWidth>::table().index[columns];
    int64_t r = 0;
    for (; r + kAll <= rows; r += kAll) {
        __m512i v[kMostFew]; // here, because they may all be in one set of the cache
        for (int c = 0; c < columns; ++c)
            v[c] = _mm512_loadu_si512(parts[c].from + (row + r) * kWidth);
        for (int line = 0; line < columns; ++line) {
            __m512i all = v[0];
            for (int c = 1; c < columns; ++c)
                all = pick<kWidth>(all, _mm512_load_si512(index[line * (columns - 1) + c - 1]), v[c]);
            _mm512_stream_si512(reinterpret_cast<__m512i *>(to + r * pitch + line * kLine), all);
        }
    }
    copy_rest<kWidth>(parts, columns, row, r, rows, to, pitch);
}

template <int kWidth, To kTo>
LAZULI_AVX512 void chain_lines(const Part *parts, int64_t row, int64_t rows, std::byte *to, int64_t pitch,
                               const Chain &chain) {
    if constexpr (kWidth == 32)
        transpose_halves<kTo>(parts, row, rows, to, pitch, chain);
    else
        transpose<kWidth, kTo>(parts, row, rows, to, pitch, chain);
}
template <int kWidth, To kTo>
LAZULI_AVX512 void copy_lines(const Part *parts, int64_t /*count*/, int64_t row, int64_t rows, std::byte *to,
                              int64_t pitch) {
    chain_lines<kWidth, kTo>(parts, row, rows, to, pitch, {});
}

template <int kWidth>
LAZULI_AVX512 void chain_any_lines(const Part *parts, int64_t row, int64_t rows, std::byte *to, int64_t pitch,
                                   const Chain &chain) {
    const bool inner = !chain.last && to - chain.begin >= kLine && behind_line(to) % 4 == 0 && pitch % 4 == 0;
    (inner ? chain_lines<kWidth, To::InnerChain> : chain_lines<kWidth, To::Chain>)(parts, row, rows, to,
                                                                                   pitch, chain);
}

template <int kWidth>
constexpr ColumnCopy kLines = {copy_lines<kWidth, To::Caches>, copy_lines<kWidth, To::Memory>,
                               chain_any_lines<kWidth>, kLine / kWidth};
/// For columns of 1 << [0] bytes.
constexpr ColumnCopy kCopyLines[] = {kLines<1>, kLines<2>, kLines<4>, kLines<8>, kLines<16>, kLines<32>};

/// Runs that are shorter than a line.
LAZULI_AVX512 void chain_short(const std::byte *from, int64_t step, int64_t bytes, int64_t rows,
                               std::byte *to, int64_t pitch, const Chain &chain) {
    const uint64_t all = ~(~uint64_t{0} << bytes);
    for (int64_t r = 0; r < rows; ++r, from += step, to += pitch) {
        std::byte *carried = chain.carried + r * kLine;
        const std::byte *begin = chain.begin + r * pitch;
        const int64_t behind = behind_line(to);
        const __m512i before = _mm512_load_si512(carried), run = _mm512_maskz_loadu_epi8(all, from);
        if (behind + bytes >= kLine)
            store_line(to - behind, join(before, run, behind), begin);
        const __m512i now = join(before, run, kLine - bytes);
        if (chain.last)
            store_tail(to + bytes, now, begin);
        else
            _mm512_store_si512(carried, now);
    }
}

LAZULI_AVX512 void chain_long(const std::byte *from, int64_t step, int64_t bytes, int64_t rows, std::byte *to,
                              int64_t pitch, const Chain &chain) {
    for (int64_t r = 0; r < rows; ++r, from += step, to += pitch) {
        std::byte *carried = chain.carried + r * kLine;
        const std::byte *begin = chain.begin + r * pitch;
        const int64_t behind = behind_line(to);
        store_line(to - behind, join(_mm512_load_si512(carried), _mm512_loadu_si512(from), behind), begin);
        for (int64_t at = kLine - behind; at + kLine <= bytes; at += kLine)
            _mm512_stream_si512(reinterpret_cast<__m512i *>(to + at), _mm512_loadu_si512(from + at));
        const __m512i now = _mm512_loadu_si512(from + bytes - kLine);
        if (chain.last)
            store_tail(to + bytes, now, begin);
        else
            _mm512_store_si512(carried, now);
    }
}

/// For columns of 1 << [0] bytes.
constexpr CopyColumns kTransposeSome[] = {transpose_some<1>, transpose_some<2>, transpose_some<4>,
                                          transpose_some<8>};

/// For columns of 2 << [0] bytes, 2 << [1] of them.
constexpr CopyColumns kCopyWholeRows[3][4] = {
    {copy_whole_rows<2, 2>, copy_whole_rows<2, 4>, copy_whole_rows<2, 8>, copy_whole_rows<2, 16>},
    {copy_whole_rows<4, 2>, copy_whole_rows<4, 4>, copy_whole_rows<4, 8>, nullptr},
    {copy_whole_rows<8, 2>, copy_whole_rows<8, 4>, nullptr, nullptr}};

/// For columns of 2 << [0] bytes.
constexpr CopyColumns kCopyFewColumns[] = {copy_few_columns<2>, copy_few_columns<4>, copy_few_columns<8>};

using TransposePlane = void (*)(const std::byte *, int64_t, int64_t, int64_t, std::byte *, int64_t);
/// For elements of 1 << [0] bytes, past the caches if [1].
constexpr TransposePlane kTransposePlane[4][2] = {{transpose_plane<1, false>, transpose_plane<1, true>},
                                                  {transpose_plane<2, false>, transpose_plane<2, true>},
                                                  {transpose_plane<4, false>, transpose_plane<4, true>},
                                                  {transpose_plane<8, false>, transpose_plane<8, true>}};

/// Of a power of two.
size_t log2_of(int64_t n) {
    return static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(n)));
}
bool is_power(int64_t n) {
    return n > 0 && std::has_single_bit(static_cast<uint64_t>(n));
}

} // namespace

ColumnCopy find_column_copy(int64_t bytes, int64_t most) {
    if (most >= kLine / bytes)
        return kCopyLines[log2_of(bytes)];
    // From a fourth of a line on, but for squares of 16 bytes that fit.
    if (bytes > 8 || most * bytes <= 16)
        return {};
    const CopyColumns copy = kTransposeSome[log2_of(bytes)];
    return {copy, copy, nullptr, most};
}

CopyColumns find_row_copy(int64_t bytes, int64_t columns) {
    if (!is_power(bytes) || bytes < 2 || bytes > 8 || columns < 2 || bytes * columns >= kLine)
        return nullptr;
    if (is_power(columns))
        return kCopyWholeRows[log2_of(bytes) - 1][log2_of(columns) - 1];
    return columns <= kMostFew ? kCopyFewColumns[log2_of(bytes) - 1] : nullptr;
}

void chain_run(const Part &part, int64_t skip, int64_t bytes, int64_t row, int64_t rows, std::byte *to,
               int64_t pitch, const Chain &chain) {
    const auto chain_rows = bytes < kLine ? chain_short : chain_long;
    chain_rows(part.from + row * part.row + skip, part.row, bytes, rows, to, pitch, chain);
}

void copy_plane(int64_t size, bool lines, const std::byte *from, int64_t step, int64_t columns, int64_t rows,
                std::byte *to, int64_t pitch) {
    kTransposePlane[log2_of(size)][lines ? 1 : 0](from, step, columns, rows, to, pitch);
}

LAZULI_AVX512 void store_lines(std::byte *to, const std::byte *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += kLine)
        _mm512_stream_si512(reinterpret_cast<__m512i *>(to + i), _mm512_loadu_si512(from + i));
}

LAZULI_AVX512 void store_runs(const std::byte *from, int64_t step, int64_t bytes, int64_t rows, std::byte *to,
                              int64_t pitch) {
    for (int64_t r = 0; r < rows; ++r, from += step, to += pitch)
        for (int64_t i = 0; i < bytes; i += kLine)
            _mm512_stream_si512(reinterpret_cast<__m512i *>(to + i), _mm512_loadu_si512(from + i));
}

} // namespace lz::runtime::avx512

#endif
