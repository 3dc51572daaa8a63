#include "runtime/library/boxes.h"

#include "runtime/library/avx512.h"
#include "runtime/library/columns.h"
#include "runtime/library/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace lz::runtime {

namespace {

// --- runs

/// Runs of kWidth bytes, and of up to twice as many: two copies that overlap.
template <size_t kWidth>
void copy_short_runs(const std::byte *from, int64_t row, int64_t bytes, int64_t rows, std::byte *to,
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

/// Runs from 64 bytes on: a function of the C library for each would take as long as what it copies.
void copy_middle_runs(const std::byte *from, int64_t row, int64_t bytes, int64_t rows, std::byte *to,
                      int64_t pitch) {
    for (int64_t r = 0; r < rows; ++r, from += row, to += pitch) {
        for (int64_t b = 0; b + kLine < bytes; b += kLine)
            std::memcpy(to + b, from + b, static_cast<size_t>(kLine));
        std::memcpy(to + bytes - kLine, from + bytes - kLine, static_cast<size_t>(kLine));
    }
}
constexpr int64_t kMostMiddleRun = 512;

// --- steps

/// Elements of any bytes.
template <class T>
void pick_each(const std::byte *from, int64_t step, int64_t count, std::byte *to, int64_t out) {
    for (int64_t i = 0; i < count; ++i, from += step, to += out)
        std::memcpy(to, from, sizeof(T));
}

using Pick = void (*)(const std::byte *, int64_t, int64_t, std::byte *, int64_t);
/// For elements of 1 << [0] bytes.
constexpr Pick kPickEach[] = {pick_each<uint8_t>, pick_each<uint16_t>, pick_each<uint32_t>,
                              pick_each<uint64_t>};

template <int kWidth>
using Register [[gnu::vector_size(16)]] = typename UnsignedOf<kWidth>::type;

template <int kWidth, size_t... I>
Register<kWidth> each_second(Register<kWidth> a, Register<kWidth> b, std::index_sequence<I...> /*lanes*/) {
    return __builtin_shufflevector(a, b, (static_cast<int>(2 * I))...);
}

/// Elements two apart to neighbours.
template <int kWidth>
void pick_each_second(const std::byte *from, int64_t step, int64_t count, std::byte *to, int64_t out) {
    constexpr int64_t kLanes = 16 / kWidth;
    int64_t i = 0;
    for (; count - i > kLanes; i += kLanes) { // what lies behind the last element may not be read
        Register<kWidth> a, b;
        std::memcpy(&a, from + 2 * i * kWidth, 16);
        std::memcpy(&b, from + 2 * i * kWidth + 16, 16);
        const Register<kWidth> picked =
            each_second<kWidth>(a, b, std::make_index_sequence<static_cast<size_t>(kLanes)>());
        std::memcpy(to + i * kWidth, &picked, 16);
    }
    pick_each<typename UnsignedOf<kWidth>::type>(from + i * step, step, count - i, to + i * kWidth, out);
}
constexpr Pick kPickEachSecond[] = {pick_each_second<1>, pick_each_second<2>, pick_each_second<4>,
                                    pick_each_second<8>};

#if defined(LAZULI_AVX512)

/// Of two neighbouring lines each second element.
template <int kWidth>
LAZULI_AVX512 inline __m512i each_second(__m512i a, __m512i b) {
    if constexpr (kWidth == 1) {
        const __m512i low = _mm512_set1_epi16(0xff);
        const __m512i packed = _mm512_packus_epi16(_mm512_and_si512(a, low), _mm512_and_si512(b, low));
        return _mm512_maskz_permutexvar_epi64(0xff, _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed);
    } else if constexpr (kWidth == 2) {
        alignas(64) static constexpr auto kIndex = [] {
            std::array<uint16_t, 32> all{};
            for (size_t i = 0; i < all.size(); ++i)
                all[i] = static_cast<uint16_t>(2 * i);
            return all;
        }();
        return _mm512_permutex2var_epi16(a, _mm512_load_si512(kIndex.data()), b);
    } else if constexpr (kWidth == 4) {
        const __m512i index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        return _mm512_permutex2var_epi32(a, index, b);
    } else {
        return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b);
    }
}

/// The first `n` bytes of a line, from 0 to 64 and beyond.
inline uint64_t first_bytes(int64_t n) {
    return n <= 0 ? 0 : n >= 64 ? ~uint64_t{0} : ~(~uint64_t{0} << n);
}

template <int kWidth, bool kLines>
LAZULI_AVX512 void pick_lines_of_second(const std::byte *from, int64_t count, int64_t row, int64_t rows,
                                        std::byte *to, int64_t pitch) {
    constexpr int64_t kAll = 64 / kWidth;
    for (int64_t r = 0; r < rows; ++r, from += row, to += pitch) {
        int64_t i = 0;
        for (; count - i > kAll; i += kAll) { // what lies behind the last element may not be read
            const std::byte *at = from + 2 * i * kWidth;
            const __m512i picked = each_second<kWidth>(_mm512_loadu_si512(at), _mm512_loadu_si512(at + 64));
            if constexpr (kLines)
                _mm512_stream_si512(reinterpret_cast<__m512i *>(to + i * kWidth), picked);
            else
                _mm512_storeu_si512(to + i * kWidth, picked);
        }
        const std::byte *at = from + 2 * i * kWidth;
        const int64_t bytes = (2 * (count - i) - 1) * kWidth;
        const __m512i picked = each_second<kWidth>(_mm512_maskz_loadu_epi8(first_bytes(bytes), at),
                                                   _mm512_maskz_loadu_epi8(first_bytes(bytes - 64), at + 64));
        if (kLines)
            _mm512_stream_si512(reinterpret_cast<__m512i *>(to + i * kWidth), picked);
        else
            _mm512_mask_storeu_epi8(to + i * kWidth, first_bytes((count - i) * kWidth), picked);
    }
}

using PickSecond = void (*)(const std::byte *, int64_t, int64_t, int64_t, std::byte *, int64_t);
/// For elements of 1 << [0] bytes, past the caches if [1].
constexpr PickSecond kPickLines[4][2] = {{pick_lines_of_second<1, false>, pick_lines_of_second<1, true>},
                                         {pick_lines_of_second<2, false>, pick_lines_of_second<2, true>},
                                         {pick_lines_of_second<4, false>, pick_lines_of_second<4, true>},
                                         {pick_lines_of_second<8, false>, pick_lines_of_second<8, true>}};

#endif

size_t log2_of(int64_t n) {
    return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(n))) - 1;
}

/// Elements of each row a step apart; the rows are whole lines or need not be.
void pick_rows(const std::byte *from, int64_t step, int64_t count, int64_t row, int64_t rows, std::byte *to,
               int64_t pitch, int64_t size, [[maybe_unused]] bool lines) {
#if defined(LAZULI_AVX512)
    if (step == 2 * size && can_chain()) {
        kPickLines[log2_of(size)][lines ? 1 : 0](from, count, row, rows, to, pitch);
        return;
    }
#endif
    const Pick pick = (step == 2 * size ? kPickEachSecond : kPickEach)[log2_of(size)];
    for (int64_t r = 0; r < rows; ++r)
        pick(from + r * row, step, count, to + r * pitch, size);
}

// --- boxes

/// Whether a box is whole lines of the result.
bool fills_lines(const std::byte *to, std::span<const BoxDim> dims, int64_t size) {
    if (behind_line(to) != 0)
        return false;
    bool filled = false;
    for (const BoxDim &d : dims) {
        if (d.extent == 1)
            continue;
        if (d.to == size && d.extent * size % kLine == 0)
            filled = true;
        else if (d.to % kLine != 0)
            return false;
    }
    return filled;
}

/// What is done to the innermost dims of a box; the others are loops around it.
class BoxCopy {
public:
    BoxCopy(std::span<const BoxDim> dims, int64_t size, bool lines) : size_(size), lines_(lines) {
        for (const BoxDim &d : dims) {
            empty_ = empty_ || d.extent == 0;
            if (d.extent != 1)
                loops_[count_++] = d;
        }
        choose();
    }

    /// Whether what is done can go past the caches, if lines are filled.
    bool stores_lines() const { return turns_ || along_.from == size_ || along_.from == 2 * size_; }

    void run(const std::byte *from, std::byte *to) const {
        if (!empty_)
            loop(0, from, to);
    }

private:
    /// So many squares of registers are worth turning, by their elements in use.
    static constexpr int64_t kLeastOfSquare = 5;

    void choose() {
        size_t along = count_, down = count_; // neighbours in the result, and in memory
        for (size_t i = 0; i < count_; ++i) {
            if (loops_[i].to == size_)
                along = i;
            if (loops_[i].from == size_ && (down == count_ || loops_[down].extent < loops_[i].extent))
                down = i;
        }
        if (along == count_) {
            along_ = {1, size_, size_};
        } else {
            along_ = loops_[along];
            const int64_t square = kLine / size_;
            const bool turns = along_.from != size_ && down != count_ &&
                               std::min(loops_[down].extent, square) * std::min(along_.extent, square) >=
                                   kLeastOfSquare * square;
            if (turns) {
                turns_ = true;
                rows_ = loops_[down];
            }
            take(along);
            if (turns) {
                take(down > along ? down - 1 : down);
                return;
            }
        }
        size_t longest = 0;
        for (size_t i = 1; i < count_; ++i)
            if (loops_[i].extent > loops_[longest].extent)
                longest = i;
        if (count_ > 0) {
            rows_ = loops_[longest];
            take(longest);
        }
    }
    void take(size_t i) { // out of the loops
        std::copy(loops_.begin() + static_cast<ptrdiff_t>(i) + 1,
                  loops_.begin() + static_cast<ptrdiff_t>(count_),
                  loops_.begin() + static_cast<ptrdiff_t>(i));
        --count_;
    }

    void loop(size_t depth, const std::byte *from, std::byte *to) const {
        if (depth == count_) {
            rows(from, to);
            return;
        }
        const BoxDim &d = loops_[depth];
        for (int64_t i = 0; i < d.extent; ++i)
            loop(depth + 1, from + i * d.from, to + i * d.to);
    }

    void rows(const std::byte *from, std::byte *to) const {
        if (turns_)
            copy_plane(size_, lines_, from, along_.from, along_.extent, rows_.extent, to, rows_.to);
        else if (along_.extent == 1) // a column
            kPickEach[log2_of(size_)](from, rows_.from, rows_.extent, to, rows_.to);
        else if (along_.from != size_)
            pick_rows(from, along_.from, along_.extent, rows_.from, rows_.extent, to, rows_.to, size_,
                      lines_);
        else if (lines_)
            store_runs(from, rows_.from, along_.extent * size_, rows_.extent, to, rows_.to);
        else
            copy_runs(from, rows_.from, along_.extent * size_, rows_.extent, to, rows_.to);
    }

    int64_t size_;
    bool lines_, empty_ = false, turns_ = false;
    std::array<BoxDim, kMostBoxDims> loops_;
    size_t count_ = 0;
    BoxDim along_{}, rows_{1, 0, 0};
};

} // namespace

void copy_runs(const std::byte *from, int64_t row, int64_t bytes, int64_t rows, std::byte *to,
               int64_t pitch) {
    using Copy = void (*)(const std::byte *, int64_t, int64_t, int64_t, std::byte *, int64_t);
    static constexpr Copy kCopies[] = {copy_short_runs<1>, copy_short_runs<2>,  copy_short_runs<4>,
                                       copy_short_runs<8>, copy_short_runs<16>, copy_short_runs<32>,
                                       copy_short_runs<64>};
    const auto width = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(bytes))) - 1;
    if (width < std::size(kCopies)) {
        kCopies[width](from, row, bytes, rows, to, pitch);
        return;
    }
    if (bytes <= kMostMiddleRun) {
        copy_middle_runs(from, row, bytes, rows, to, pitch);
        return;
    }
    for (int64_t r = 0; r < rows; ++r)
        std::memcpy(to + r * pitch, from + r * row, static_cast<size_t>(bytes));
}

void copy_stepped(const std::byte *from, int64_t step, int64_t count, std::byte *to, int64_t size) {
    if (step == size)
        std::memcpy(to, from, static_cast<size_t>(count * size));
    else if (count > 0)
        pick_rows(from, step, count, 0, 1, to, 0, size, false);
}

void copy_box(const std::byte *from, std::byte *to, std::span<const BoxDim> dims, int64_t size) {
    BoxCopy(dims, size, false).run(from, to);
}

bool copy_box_past_caches(const std::byte *from, std::byte *to, std::span<const BoxDim> dims, int64_t size) {
    if (!can_chain() || !fills_lines(to, dims, size))
        return false;
    const BoxCopy box(dims, size, true);
    if (!box.stores_lines())
        return false;
    box.run(from, to);
    return true;
}

} // namespace lz::runtime
