#include "runtime/library/columns.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
/// Compiled for AVX-512 whatever the rest is compiled for; called where the machine has it.
#define LAZULI_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl")]]
#endif

namespace lz::runtime {

namespace {

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

/// Those rows that no register holds whole.
template <int kWidth, int kColumns>
void copy_rows(const Part *parts, int64_t row, int64_t begin, int64_t rows, std::byte *to, int64_t pitch) {
    for (int64_t r = begin; r < rows; ++r)
        for (int i = 0; i < kColumns; ++i)
            std::memcpy(to + r * pitch + i * kWidth, parts[i].from + (row + r) * kWidth, kWidth);
}

// --- squares of 16 bytes

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
    copy_rows<kWidth, kColumns>(parts, row, r, rows, to, pitch);
}

/// For columns of 1 << [0] bytes, 2 << [1] of them.
constexpr CopyColumns kCopyColumns[4][4] = {
    {copy_columns<1, 2>, copy_columns<1, 4>, copy_columns<1, 8>, copy_columns<1, 16>},
    {copy_columns<2, 2>, copy_columns<2, 4>, copy_columns<2, 8>, nullptr},
    {copy_columns<4, 2>, copy_columns<4, 4>, nullptr, nullptr},
    {copy_columns<8, 2>, nullptr, nullptr, nullptr}};

// --- squares of lines

#if defined(LAZULI_AVX512)

template <int kWidth>
using Wide [[gnu::vector_size(64)]] = typename Unsigned<kWidth>::type;
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

/// Where the line of a row goes.
enum class To { Caches, Memory, Chain };

template <To kTo>
LAZULI_AVX512 inline void store(std::byte *to, int64_t pitch, int64_t row, const Line &line,
                                const Chain &chain) {
    to += row * pitch;
    if constexpr (kTo == To::Caches)
        std::memcpy(to, &line, kLine);
    else if constexpr (kTo == To::Memory)
        _mm512_stream_si512(reinterpret_cast<__m512i *>(to), (__m512i)line);
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

/// A line of each row from 64 / kWidth parts, as many rows at a time: the squares within each 16 bytes are
/// transposed first, then the lines' 16 bytes.
template <int kWidth, To kTo>
LAZULI_AVX512 void transpose(const Part *parts, int64_t row, int64_t rows, std::byte *to, int64_t pitch,
                             const Chain &chain) {
    constexpr int kLane = 16 / kWidth, kAll = 64 / kWidth;
    int64_t r = 0;
    for (; r + kAll <= rows; r += kAll) {
        Line v[4][kLane];
#pragma GCC unroll 64
        for (int i = 0; i < kAll; ++i)
            std::memcpy(&v[i / kLane][i % kLane], parts[i].from + (row + r) * kWidth, kLine);
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
                store<kTo>(to, pitch, r + l * kLane + i, line[l], chain);
        }
    }
    store_rows<kWidth, kTo>(parts, row, r, rows, to, pitch, chain);
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

/// Whole rows of kColumns dense columns of kWidth bytes, as many lines of them at a time. Each turn brings
/// the highest bit of (column, row) to the lowest place: (row, column) at last.
template <int kWidth, int kColumns>
LAZULI_AVX512 void copy_whole_rows(const Part *parts, int64_t row, int64_t rows, std::byte *to,
                                   int64_t pitch) {
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
    copy_rows<kWidth, kColumns>(parts, row, r, rows, to, pitch);
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
LAZULI_AVX512 void copy_lines(const Part *parts, int64_t row, int64_t rows, std::byte *to, int64_t pitch) {
    chain_lines<kWidth, kTo>(parts, row, rows, to, pitch, {});
}

template <int kWidth>
constexpr ColumnCopy kLines = {copy_lines<kWidth, To::Caches>, copy_lines<kWidth, To::Memory>,
                               chain_lines<kWidth, To::Chain>, kLine / kWidth};
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

/// For columns of 2 << [0] bytes, 2 << [1] of them.
constexpr CopyColumns kCopyWholeRows[3][4] = {
    {copy_whole_rows<2, 2>, copy_whole_rows<2, 4>, copy_whole_rows<2, 8>, copy_whole_rows<2, 16>},
    {copy_whole_rows<4, 2>, copy_whole_rows<4, 4>, copy_whole_rows<4, 8>, nullptr},
    {copy_whole_rows<8, 2>, copy_whole_rows<8, 4>, nullptr, nullptr}};

LAZULI_AVX512 void store_lines_avx512(std::byte *to, const std::byte *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += kLine)
        _mm512_stream_si512(reinterpret_cast<__m512i *>(to + i), _mm512_loadu_si512(from + i));
}

std::atomic<bool> avx512_allowed = true;
bool has_avx512() {
    static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vl");
    return has && avx512_allowed.load(std::memory_order_relaxed);
}

#endif

size_t log2_of(int64_t n) {
    return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(n))) - 1;
}

} // namespace

ColumnCopy find_column_copy(int64_t bytes, int64_t most) {
    if (bytes < 1 || bytes > 32 || kLine % bytes != 0 || most < 2)
        return {};
#if defined(LAZULI_AVX512)
    if (most >= kLine / bytes && has_avx512())
        return kCopyLines[log2_of(bytes)];
#endif
    if (bytes > 8)
        return {};
    const size_t columns = log2_of(std::min(most, 16 / bytes));
    const CopyColumns copy = kCopyColumns[log2_of(bytes)][columns - 1];
    return {copy, copy, nullptr, int64_t{1} << columns};
}

void allow_avx512([[maybe_unused]] bool allow) {
#if defined(LAZULI_AVX512)
    avx512_allowed = allow;
#endif
}

bool can_chain() {
#if defined(LAZULI_AVX512)
    return has_avx512();
#else
    return false;
#endif
}

void chain_run([[maybe_unused]] const Part &part, [[maybe_unused]] int64_t skip,
               [[maybe_unused]] int64_t bytes, [[maybe_unused]] int64_t row, [[maybe_unused]] int64_t rows,
               [[maybe_unused]] std::byte *to, [[maybe_unused]] int64_t pitch,
               [[maybe_unused]] const Chain &chain) {
#if defined(LAZULI_AVX512)
    const auto chain_rows = bytes < kLine ? chain_short : chain_long;
    chain_rows(part.from + row * part.row + skip, part.row, bytes, rows, to, pitch, chain);
#endif
}

CopyColumns find_row_copy([[maybe_unused]] int64_t bytes, [[maybe_unused]] int64_t columns) {
#if defined(LAZULI_AVX512)
    const auto is_power = [](int64_t n) { return n > 0 && std::has_single_bit(static_cast<uint64_t>(n)); };
    if (is_power(bytes) && bytes > 1 && is_power(columns) && columns > 1 && bytes * columns < kLine &&
        bytes <= 8 && has_avx512())
        return kCopyWholeRows[log2_of(bytes) - 1][log2_of(columns) - 1];
#endif
    return nullptr;
}

void store_lines(std::byte *to, const std::byte *from, int64_t bytes) {
#if defined(LAZULI_AVX512)
    if (has_avx512()) {
        store_lines_avx512(to, from, bytes);
        return;
    }
    for (int64_t i = 0; i < bytes; i += 16)
        _mm_stream_si128(reinterpret_cast<__m128i *>(to + i),
                         _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i)));
#else
    std::memcpy(to, from, static_cast<size_t>(bytes));
#endif
}

void finish_stores() {
#if defined(LAZULI_AVX512)
    _mm_sfence();
#endif
}

} // namespace lz::runtime
