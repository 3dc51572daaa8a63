#include "runtime/library/columns.h"

#include "runtime/library/avx512.h"
#include "runtime/library/columns_avx512.h"
#include "runtime/library/element.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace lz::runtime {

namespace {

/// Those rows that no register holds whole.
template <int kWidth, int kColumns>
void copy_rows(const Part *parts, int64_t row, int64_t begin, int64_t rows, std::byte *to, int64_t pitch) {
    for (int64_t r = begin; r < rows; ++r)
        for (int i = 0; i < kColumns; ++i)
            std::memcpy(to + r * pitch + i * kWidth, parts[i].from + (row + r) * kWidth, kWidth);
}

// --- squares of 16 bytes

template <int kWidth>
using Register [[gnu::vector_size(16)]] = typename UnsignedOf<kWidth>::type;

/// The elements of one half of a and b by turns.
template <int kWidth, bool kHigh, size_t... I>
Register<kWidth> interleave(Register<kWidth> a, Register<kWidth> b, std::index_sequence<I...> /*lanes*/) {
    constexpr int kLanes = sizeof...(I);
    return __builtin_shufflevector(
        a, b, (static_cast<int>(I) / 2 + static_cast<int>(I) % 2 * kLanes + (kHigh ? kLanes / 2 : 0))...);
}

/// Each turn brings the highest bit of (column, row) to the lowest place: (row, column) at last. With as many
/// columns as lanes that is the transpose of a square; otherwise each register holds some whole rows.
template <int kWidth, int kColumns>
[[gnu::always_inline]] inline void turn(Register<kWidth> (&v)[kColumns]) {
    constexpr auto kAll = std::make_index_sequence<16 / kWidth>();
#pragma GCC unroll 4
    for (int done = 1; done < kColumns; done *= 2) {
        Register<kWidth> next[kColumns];
#pragma GCC unroll 8
        for (int i = 0; i < kColumns / 2; ++i) {
            next[2 * i] = interleave<kWidth, false>(v[i], v[i + kColumns / 2], kAll);
            next[2 * i + 1] = interleave<kWidth, true>(v[i], v[i + kColumns / 2], kAll);
        }
#pragma GCC unroll 16
        for (int i = 0; i < kColumns; ++i)
            v[i] = next[i];
    }
}

/// `from(i)`: where 16 bytes of column i are.
template <int kWidth, class From>
[[gnu::always_inline]] inline void transpose_square(const From &from, std::byte *to, int64_t pitch) {
    constexpr int kLanes = 16 / kWidth;
    Register<kWidth> v[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i)
        std::memcpy(&v[i], from(i), 16);
    turn<kWidth, kLanes>(v);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i)
        std::memcpy(to + i * pitch, &v[i], 16);
}

/// Bytes of each row from kColumns parts that are dense columns of kWidth bytes.
template <int kWidth, int kColumns>
void copy_columns(const Part *parts, int64_t /*count*/, int64_t row, int64_t rows, std::byte *to,
                  int64_t pitch) {
    constexpr int kLanes = 16 / kWidth, kBytes = kColumns * kWidth;
    const std::byte *from[kColumns];
    for (int i = 0; i < kColumns; ++i)
        from[i] = parts[i].from + row * kWidth;
    int64_t r = 0;
    for (; r + kLanes <= rows; r += kLanes) {
        Register<kWidth> v[kColumns];
#pragma GCC unroll 16
        for (int i = 0; i < kColumns; ++i)
            std::memcpy(&v[i], from[i] + r * kWidth, 16);
        turn<kWidth, kColumns>(v);
        if (pitch == kBytes)
            std::memcpy(to + r * kBytes, v, sizeof(v));
        else
            for (int i = 0; i < kLanes; ++i)
                std::memcpy(to + (r + i) * pitch, reinterpret_cast<const std::byte *>(v) + i * kBytes,
                            kBytes);
    }
    copy_rows<kWidth, kColumns>(parts, row, r, rows, to, pitch);
}

/// Likewise of as many columns as fill a line, which is written whole before the next.
template <int kWidth>
void copy_columns_of_line(const Part *parts, int64_t /*count*/, int64_t row, int64_t rows, std::byte *to,
                          int64_t pitch) {
    constexpr int kLanes = 16 / kWidth, kColumns = static_cast<int>(kLine) / kWidth;
    const std::byte *from[kColumns];
    for (int i = 0; i < kColumns; ++i)
        from[i] = parts[i].from + row * kWidth;
    int64_t r = 0;
    for (; r + kLanes <= rows; r += kLanes)
        for (int c = 0; c < kColumns; c += kLanes)
            transpose_square<kWidth>([&](int i) { return from[c + i] + r * kWidth; },
                                     to + r * pitch + c * kWidth, pitch);
    copy_rows<kWidth, kColumns>(parts, row, r, rows, to, pitch);
}

/// As copy_plane, of elements of kWidth bytes: lines of the result, of squares, then element by element
/// what they leave.
template <int kWidth>
void transpose_plane(const std::byte *from, int64_t step, int64_t columns, int64_t rows, std::byte *to,
                     int64_t pitch) {
    constexpr int64_t kLanes = 16 / kWidth, kOfLine = kLine / kWidth;
    const int64_t whole_columns = columns / kLanes * kLanes, whole_rows = rows / kLanes * kLanes;
    for (int64_t line = 0; line < whole_columns; line += kOfLine)
        for (int64_t r = 0; r < whole_rows; r += kLanes)
            for (int64_t c = line, end = std::min(line + kOfLine, whole_columns); c < end; c += kLanes)
                transpose_square<kWidth>([&](int i) { return from + (c + i) * step + r * kWidth; },
                                         to + r * pitch + c * kWidth, pitch);
    const auto each = [&](int64_t first_column, int64_t first_row, int64_t end_row) {
        for (int64_t r = first_row; r < end_row; ++r)
            for (int64_t c = first_column; c < columns; ++c)
                std::memcpy(to + r * pitch + c * kWidth, from + c * step + r * kWidth, kWidth);
    };
    each(whole_columns, 0, whole_rows);
    each(0, whole_rows, rows);
}

/// For columns of 1 << [0] bytes, 2 << [1] of them.
constexpr CopyColumns kCopyColumns[4][4] = {
    {copy_columns<1, 2>, copy_columns<1, 4>, copy_columns<1, 8>, copy_columns<1, 16>},
    {copy_columns<2, 2>, copy_columns<2, 4>, copy_columns<2, 8>, nullptr},
    {copy_columns<4, 2>, copy_columns<4, 4>, nullptr, nullptr},
    {copy_columns<8, 2>, nullptr, nullptr, nullptr}};
constexpr CopyColumns kCopyColumnsOfLine[] = {copy_columns_of_line<1>, copy_columns_of_line<2>,
                                              copy_columns_of_line<4>, copy_columns_of_line<8>};

size_t log2_of(int64_t n) {
    return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(n))) - 1;
}

} // namespace

ColumnCopy find_column_copy(int64_t bytes, int64_t most) {
    if (bytes < 1 || bytes > 32 || kLine % bytes != 0 || most < 2)
        return {};
#if defined(LAZULI_AVX512)
    if (has_avx512())
        if (const ColumnCopy found = avx512::find_column_copy(bytes, most); found.copy)
            return found;
#endif
    if (bytes > 8)
        return {};
    if (most >= kLine / bytes) {
        const CopyColumns copy = kCopyColumnsOfLine[log2_of(bytes)];
        return {copy, copy, nullptr, kLine / bytes};
    }
    const size_t columns = log2_of(std::min(most, 16 / bytes));
    const CopyColumns copy = kCopyColumns[log2_of(bytes)][columns - 1];
    return {copy, copy, nullptr, int64_t{1} << columns};
}

bool can_chain() {
    return has_avx512();
}

void chain_run([[maybe_unused]] const Part &part, [[maybe_unused]] int64_t skip,
               [[maybe_unused]] int64_t bytes, [[maybe_unused]] int64_t row, [[maybe_unused]] int64_t rows,
               [[maybe_unused]] std::byte *to, [[maybe_unused]] int64_t pitch,
               [[maybe_unused]] const Chain &chain) {
#if defined(LAZULI_AVX512)
    avx512::chain_run(part, skip, bytes, row, rows, to, pitch, chain);
#endif
}

CopyColumns find_row_copy([[maybe_unused]] int64_t bytes, [[maybe_unused]] int64_t columns) {
#if defined(LAZULI_AVX512)
    if (has_avx512())
        return avx512::find_row_copy(bytes, columns);
#endif
    return nullptr;
}

void copy_plane(int64_t size, bool lines, const std::byte *from, int64_t step, int64_t columns, int64_t rows,
                std::byte *to, int64_t pitch) {
#if defined(LAZULI_AVX512)
    if (has_avx512()) {
        avx512::copy_plane(size, lines, from, step, columns, rows, to, pitch);
        return;
    }
#endif
    switch (size) {
    case 1:
        return transpose_plane<1>(from, step, columns, rows, to, pitch);
    case 2:
        return transpose_plane<2>(from, step, columns, rows, to, pitch);
    case 4:
        return transpose_plane<4>(from, step, columns, rows, to, pitch);
    case 8:
        return transpose_plane<8>(from, step, columns, rows, to, pitch);
    default:
        for (int64_t c = 0; c < columns; ++c)
            for (int64_t r = 0; r < rows; ++r)
                std::memcpy(to + r * pitch + c * size, from + c * step + r * size, static_cast<size_t>(size));
    }
}

void store_runs(const std::byte *from, int64_t step, int64_t bytes, int64_t rows, std::byte *to,
                int64_t pitch) {
#if defined(LAZULI_AVX512)
    if (has_avx512()) {
        avx512::store_runs(from, step, bytes, rows, to, pitch);
        return;
    }
#endif
    for (int64_t r = 0; r < rows; ++r)
        store_lines(to + r * pitch, from + r * step, bytes);
}

void store_lines(std::byte *to, const std::byte *from, int64_t bytes) {
#if defined(LAZULI_AVX512)
    if (has_avx512()) {
        avx512::store_lines(to, from, bytes);
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
