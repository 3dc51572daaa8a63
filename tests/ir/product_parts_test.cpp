// What emitted code of products calls, for each kind of registers: beside plain loops.

#include "ir/host/functions.h"
#include "ir/host/product/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace lz::ir {
namespace {

struct Avx512 {
    static constexpr const char *kName = "AVX-512";
    static const PartSet *parts() {
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
            return kAvx512Parts;
#endif
        return nullptr;
    }
};
struct Avx {
    static constexpr const char *kName = "AVX and FMA";
    static const PartSet *parts() {
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx") && __builtin_cpu_supports("fma"))
            return kAvxParts;
#endif
        return nullptr;
    }
};

template <class F>
F *function(const char *name) {
    return reinterpret_cast<F *>(find_host_function(name));
}

/// Numbers aligned to a line, and more of them behind that nobody may change.
template <class T>
struct Memory {
    explicit Memory(size_t n, T value = T{}) : room(n + 256, value) {
        first = room.data();
        while (reinterpret_cast<uintptr_t>(first) % 64 != 0)
            ++first;
    }
    std::vector<T> room;
    T *first;
};

/// Memory beside which nobody may read.
class FencedMemory {
public:
    explicit FencedMemory(size_t bytes) : bytes_(bytes), room_((bytes + kPage - 1) / kPage * kPage) {
        memory_ = mmap(nullptr, room_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(memory_, MAP_FAILED);
        EXPECT_EQ(mprotect(first(), room_, PROT_READ | PROT_WRITE), 0);
    }
    ~FencedMemory() { munmap(memory_, room_ + 2 * kPage); }
    FencedMemory(const FencedMemory &) = delete;
    FencedMemory &operator=(const FencedMemory &) = delete;
    /// So many bytes right behind a fence, and right before one.
    std::byte *first() const { return static_cast<std::byte *>(memory_) + kPage; }
    std::byte *last() const { return first() + room_ - bytes_; }

private:
    static constexpr size_t kPage = 1 << 16; // or smaller
    size_t bytes_, room_;
    void *memory_;
};

/// How an operand lies: its rows next to each other, or apart with their elements along k next to each other,
/// or neither.
enum class Lie { RowsTogether, RowsApart, Neither };
constexpr Lie kLies[] = {Lie::RowsTogether, Lie::RowsApart, Lie::Neither};

template <class T>
class Parts {
public:
    explicit Parts(const PartSet &set)
        : set_(set), functions_(sizeof(T) == 8 ? set.f64 : set.f32),
          lanes_(set.vector_bytes / int64_t{sizeof(T)}), columns_(2 * lanes_) {}

    Memory<T> numbers(size_t n) {
        Memory<T> memory(n);
        for (T &x : memory.room)
            x = std::uniform_real_distribution<T>(-1, 1)(random_);
        return memory;
    }

    /// `apart`: sums lie so much further apart than a tile's own, as those of a result do. Then nothing
    /// beside them may be written, and there is no row but those of lhs.
    void multiplies(int64_t rows, int64_t width, int64_t steps, bool first, int64_t apart) {
        const int64_t lhs_row = steps + 3, lhs_step = 1, rhs_step = columns_ + 5, sums_row = columns_ + apart;
        const Memory<T> lhs = numbers(static_cast<size_t>(rows * lhs_row)),
                        rhs = numbers(static_cast<size_t>((steps + 1) * rhs_step));
        Memory<T> sums = numbers(static_cast<size_t>(set_.rows * sums_row));
        const std::vector<T> before(sums.first, sums.first + set_.rows * sums_row);
        std::vector<T> expected = before;
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < width; ++j) {
                const auto place = static_cast<size_t>(i * sums_row + j);
                T sum = first ? 0 : before[place];
                const T *row = lhs.first + i * lhs_row;
                for (int64_t k = 0; k < steps; ++k)
                    sum = std::fma(row[k * lhs_step], rhs.first[k * rhs_step + j], sum);
                expected[place] = sum;
            }
        function<MultiplyTile>(functions_.multiply_tile_name)({.lhs = lhs.first,
                                                               .rhs = rhs.first,
                                                               .sums = sums.first,
                                                               .steps = steps,
                                                               .lhs_row = lhs_row,
                                                               .lhs_step = lhs_step,
                                                               .rhs_step = rhs_step,
                                                               .sums_row = sums_row,
                                                               .first = first,
                                                               .width = width,
                                                               .rows = rows,
                                                               .next = sums.first});
        for (int64_t i = 0; i < set_.rows; ++i)
            for (int64_t j = 0; j < sums_row; ++j)
                EXPECT_EQ(sums.first[i * sums_row + j], expected[static_cast<size_t>(i * sums_row + j)])
                    << "row " << i << ", column " << j << " of " << rows << " x " << width << ", " << steps
                    << " steps, rows " << sums_row << " apart";
    }

    void packs(Lie lie, int64_t count, int64_t depth, int64_t width) {
        const int64_t stride_i = lie == Lie::RowsTogether ? 1 : lie == Lie::RowsApart ? depth + 2 : 3;
        const int64_t stride_k = lie == Lie::RowsTogether ? count + 2 : lie == Lie::RowsApart ? 1 : 3 * count;
        const Memory<T> from = numbers(static_cast<size_t>(count * stride_i + depth * stride_k));
        const int64_t room = (depth + lanes_ - 1) / lanes_ * lanes_ * width + lanes_;
        Memory<T> to(static_cast<size_t>(room), T{77});
        function<PackPanel>(functions_.pack_panel_name)(to.first, from.first, count, depth, stride_i,
                                                        stride_k, width);
        for (int64_t k = 0; k < depth; ++k)
            for (int64_t i = 0; i < count; ++i)
                EXPECT_EQ(to.first[k * width + i], from.first[i * stride_i + k * stride_k])
                    << "strides " << stride_i << " and " << stride_k << ", row " << i << ", k " << k << " of "
                    << count << " x " << depth;
        EXPECT_EQ(to.first[room], T{77});
    }

    /// From memory that ends with the last number of the operand.
    void packs_panels(int64_t count, int64_t depth, int64_t distance) {
        const int64_t size = (depth - 1) * distance + count;
        const FencedMemory fenced(static_cast<size_t>(size) * sizeof(T));
        T *const from = reinterpret_cast<T *>(fenced.last());
        for (int64_t i = 0; i < size; ++i)
            from[i] = std::uniform_real_distribution<T>(-1, 1)(random_);
        const int64_t panel = depth * columns_ + 64, panels = (count + columns_ - 1) / columns_; // and a line
        Memory<T> to(static_cast<size_t>(panel * panels), T{77});
        function<PackPanels>(functions_.pack_panels_name)(to.first, from, count, depth, distance,
                                                          panel * int64_t{sizeof(T)});
        for (int64_t i = 0; i < panels * columns_; ++i)
            for (int64_t k = 0; k < depth && i < count; ++k)
                EXPECT_EQ(to.first[i / columns_ * panel + k * columns_ + i % columns_],
                          from[k * distance + i])
                    << "column " << i << ", k " << k << " of " << count << " x " << depth;
        for (int64_t p = 0; p < panels; ++p)
            EXPECT_EQ(to.first[(p + 1) * panel - 1], T{77}) << "behind panel " << p;
    }

    /// Rows and steps that stand at these places of an operand, which ends with the last of them.
    void gathers(const std::vector<int64_t> &rows, const std::vector<int64_t> &depths, int64_t width) {
        gathers(function<PackGathered>(functions_.pack_gathered_name), rows, depths, width);
        gathers(sizeof(T) == 8 ? pack_gathered_64 : pack_gathered_32, rows, depths, width);
    }

    int64_t lanes() const { return lanes_; }

private:
    void gathers(PackGathered *pack, const std::vector<int64_t> &rows, const std::vector<int64_t> &depths,
                 int64_t width) {
        const int64_t first = std::ranges::min(rows) + std::ranges::min(depths),
                      size = std::ranges::max(rows) + std::ranges::max(depths) - first + 1;
        const FencedMemory fenced(static_cast<size_t>(size) * sizeof(T));
        for (auto *const begin : {fenced.first(), fenced.last()}) {
            T *const from = reinterpret_cast<T *>(begin);
            for (int64_t i = 0; i < size; ++i)
                from[i] = std::uniform_real_distribution<T>(-1, 1)(random_);
            gathers(pack, from - first, rows, depths, width);
        }
    }
    void gathers(PackGathered *pack, const T *from, const std::vector<int64_t> &rows,
                 const std::vector<int64_t> &depths, int64_t width) {
        const auto count = static_cast<int64_t>(rows.size()), depth = static_cast<int64_t>(depths.size());
        const int64_t room = (depth + 2 * lanes_ - 1) / (2 * lanes_) * 2 * lanes_ * width + lanes_;
        Memory<T> to(static_cast<size_t>(room), T{77});
        pack(to.first, from, rows.data(), depths.data(), count, depth, width);
        for (int64_t k = 0; k < depth; ++k)
            for (int64_t i = 0; i < count; ++i)
                ASSERT_EQ(to.first[k * width + i],
                          from[rows[static_cast<size_t>(i)] + depths[static_cast<size_t>(k)]])
                    << "row " << i << ", k " << k << " of " << count << " x " << depth;
        ASSERT_EQ(to.first[room], T{77});
    }

    const PartSet &set_;
    const ProductParts &functions_;
    const int64_t lanes_, columns_;
    std::mt19937 random_{1};
};

template <class Isa, class Sum>
struct Of {
    using Registers = Isa;
    using T = Sum;
};

template <class Case>
class ProductPartsOf : public testing::Test {
protected:
    void SetUp() override {
        set_ = Case::Registers::parts();
        if (!set_)
            GTEST_SKIP() << "This processor has no " << Case::Registers::kName << ".";
    }
    const PartSet *set_ = nullptr;
};
using Cases = testing::Types<Of<Avx512, float>, Of<Avx512, double>, Of<Avx, float>, Of<Avx, double>>;
TYPED_TEST_SUITE(ProductPartsOf, Cases);

TYPED_TEST(ProductPartsOf, MultiplyTilesOfAllSizes) {
    Parts<typename TypeParam::T> parts(*this->set_);
    const int64_t lanes = parts.lanes();
    for (int64_t rows = 1; rows <= this->set_->rows; ++rows)
        for (const int64_t width : {int64_t{1}, lanes / 2 - 1, lanes / 2, lanes / 2 + 1, lanes - 1, lanes,
                                    lanes + 1, 2 * lanes - 1, 2 * lanes})
            for (const int64_t steps : {0, 1, 2, 37})
                for (const bool first : {false, true})
                    for (const int64_t apart : {0, 7})
                        parts.multiplies(rows, width, steps, first, apart);
}

TYPED_TEST(ProductPartsOf, PackPanelsOfAllSizes) {
    Parts<typename TypeParam::T> parts(*this->set_);
    for (const int64_t width : {int64_t{this->set_->rows}, 2 * parts.lanes()})
        for (const int64_t count : {int64_t{1}, int64_t{5}, int64_t{13}, width - 1, width})
            for (const int64_t depth : {1, 4, 8, 15, 16, 17, 40})
                for (const Lie lie : kLies)
                    parts.packs(lie, std::min(count, width), depth, width);
}

TYPED_TEST(ProductPartsOf, PackManyPanelsAtOnce) {
    Parts<typename TypeParam::T> parts(*this->set_);
    const int64_t columns = 2 * parts.lanes();
    for (const int64_t count : {int64_t{1}, columns - 1, columns, columns + 1, 3 * columns, 5 * columns - 3})
        for (const int64_t depth : {1, 2, 37})
            for (const int64_t more : {0, 1, 100})
                parts.packs_panels(count, depth, count + more);
}

/// Where the elements of such digits stand, worked out one by one.
std::vector<int64_t> places(const std::vector<PlaceDigit> &digits, int64_t first, int64_t count) {
    std::vector<int64_t> all;
    for (int64_t i = first; i < first + count; ++i) {
        int64_t place = 0, rest = i;
        for (size_t d = digits.size(); d-- > 1; rest /= digits[d].extent)
            place += rest % digits[d].extent * digits[d].stride;
        all.push_back(place + rest * digits[0].stride);
    }
    return all;
}

/// Of rows: neighbours, in runs of several lengths, apart by two or more, from the last to the first, the
/// same again and again; far away from each other, or within two registers.
const std::vector<PlaceDigit> kRowDigits[] = {{{0, 1}},           {{0, 2}},
                                              {{0, 3}},           {{0, 40}},
                                              {{0, -1}},          {{0, 0}},
                                              {{3, 0}, {2, 1}},   {{3, 9}, {7, 1}},
                                              {{3, 900}, {7, 1}}, {{3, 900}, {5, 1}},
                                              {{9, 70}, {3, 1}},  {{9, 70}, {2, 1}},
                                              {{9, -70}, {3, 1}}, {{3, 400}, {3, 50}, {3, 1}}};
/// Of k: neighbours all along, in long or short runs, apart, turned.
const std::vector<PlaceDigit> kDepthDigits[] = {
    {{0, 1}}, {{0, 64}}, {{0, 0}}, {{9, 100}, {31, 1}}, {{9, 100}, {3, 1}}, {{9, 100}, {40, -1}}};

TYPED_TEST(ProductPartsOf, PackWhatStandsAnywhere) {
    Parts<typename TypeParam::T> parts(*this->set_);
    for (const int64_t width : {int64_t{this->set_->rows}, 2 * parts.lanes()})
        for (const int64_t count : {int64_t{1}, int64_t{5}, width - 1, width})
            for (const auto &rows : kRowDigits)
                for (const auto &depths : kDepthDigits)
                    for (const int64_t depth : {1, 7, 40, 93})
                        for (const int64_t first : {0, 4})
                            parts.gathers(places(rows, first, std::min(count, width)),
                                          places(depths, first, depth), width);
}

TEST(ProductPlaces, AreThoseOfTheDigits) {
    auto *const fill =
        function<void(int64_t *, int64_t, int64_t, const PlaceDigit *, int64_t)>(kFillPlacesSymbol);
    const auto check = [&](const std::vector<PlaceDigit> &digits) {
        for (const int64_t first : {0, 1, 5, 17, 100})
            for (const int64_t count : {0, 1, 3, 40}) {
                std::vector<int64_t> all(static_cast<size_t>(count) + 1, -77);
                fill(all.data(), first, count, digits.data(), static_cast<int64_t>(digits.size()));
                EXPECT_EQ(all.back(), -77);
                all.pop_back();
                EXPECT_EQ(all, places(digits, first, count));
            }
    };
    for (const auto &digits : kRowDigits)
        check(digits);
    check({{100, 7}, {1, 50}, {5, -3}, {2, 11}});
    check({{100, 7}, {4, 0}, {1, 1}});
    const PlaceDigit empty[] = {{3, 5}, {0, 1}}; // of an axis that nothing is on
    fill(nullptr, 0, 0, empty, 2);
}

// --- bf16

float widened(uint16_t half) {
    return std::bit_cast<float>(uint32_t{half} << 16);
}

/// Magnitudes of bf16 of which the biased exponents lie in a range, with any sign; 0: zeros and subnormals
/// too.
struct Range {
    uint32_t first, last;
};

class Bf16Parts : public testing::Test {
protected:
    void SetUp() override {
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl"))
            return;
#endif
        GTEST_SKIP() << "This processor has no AVX512-BF16.";
    }

    std::vector<uint16_t> numbers(int64_t n, Range range) {
        std::vector<uint16_t> halves;
        for (int64_t i = 0; i < n; ++i) {
            const uint32_t exponent =
                range.first + static_cast<uint32_t>(random_()) % (range.last - range.first + 1);
            halves.push_back(static_cast<uint16_t>((random_() & 0x807f) | exponent << 7));
        }
        return halves;
    }

    /// A product of whole tiles, k in `passes` passes, beside ascending fused multiply-adds.
    void multiplies(int64_t m, int64_t n, int64_t k, int64_t passes, Lie lie, Range of_lhs, Range of_rhs) {
        const int64_t rows = kAvx512Parts->rows, columns = 32;
        const auto [lhs_row, lhs_step] = strides(lie, m, k);
        const auto [rhs_column, rhs_step] = strides(lie, n, k);
        const std::vector<uint16_t> lhs = numbers(3 * m * k, of_lhs), rhs = numbers(3 * n * k, of_rhs);
        Memory<float> sums(static_cast<size_t>(rows * columns), 5);
        const int64_t depth = (k + passes - 1) / passes / 2 * 2 + 2;
        for (int64_t first = 0; first < k || first == 0; first += depth) {
            const int64_t steps = std::min(depth, k - first);
            Memory<uint32_t> left(static_cast<size_t>((steps / 32 + 1) * 16 * rows + 16)),
                right(static_cast<size_t>((steps / 32 + 1) * 16 * columns + 16));
            auto *const pack = function<PackPanel>(kBf16Parts->pack_panel_name);
            pack(left.first, lhs.data() + first * lhs_step, m, steps, lhs_row, lhs_step, rows);
            pack(right.first, rhs.data() + first * rhs_step, n, steps, rhs_column, rhs_step, columns);
            function<MultiplyTile>(kBf16Parts->multiply_tile_name)({.lhs = left.first,
                                                                    .rhs = right.first,
                                                                    .sums = sums.first,
                                                                    .steps = (steps + 1) / 2,
                                                                    .lhs_row = 1,
                                                                    .lhs_step = rows,
                                                                    .rhs_step = columns,
                                                                    .sums_row = columns,
                                                                    .first = first == 0,
                                                                    .width = n,
                                                                    .rows = m,
                                                                    .next = sums.first});
        }
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
                float expected = 0;
                for (int64_t p = 0; p < k; ++p)
                    expected =
                        std::fma(widened(lhs[static_cast<size_t>(i * lhs_row + p * lhs_step)]),
                                 widened(rhs[static_cast<size_t>(j * rhs_column + p * rhs_step)]), expected);
                const float got = sums.first[i * columns + j];
                if (std::isnan(expected))
                    EXPECT_TRUE(std::isnan(got));
                else
                    ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(expected))
                        << got << " is not " << expected << ": row " << i << ", column " << j << " of " << m
                        << " x " << n << " x " << k << " in " << passes << " passes, exponents from "
                        << of_lhs.first << " and " << of_rhs.first;
            }
    }

private:
    static std::pair<int64_t, int64_t> strides(Lie lie, int64_t rows, int64_t k) {
        return lie == Lie::RowsTogether ? std::pair(int64_t{1}, rows + 1)
               : lie == Lie::RowsApart  ? std::pair(k + 1, int64_t{1})
                                        : std::pair(int64_t{2}, 2 * rows + 1);
    }
    std::mt19937 random_{1};
};

TEST_F(Bf16Parts, AreAscendingMultiplyAddsOfAllSizes) {
    for (const int64_t m : {1, 2, 7, 13, 14})
        for (const int64_t n : {1, 15, 16, 17, 31, 32})
            for (const int64_t k : {1, 2, 31, 32, 33, 95})
                for (const Lie lie : kLies)
                    multiplies(m, n, k, 1, lie, {110, 140}, {110, 140});
}

/// S66: what the instruction takes for zero counts, in operands, between the two steps of an instruction, in
/// sums, and in what an earlier pass left; so do zeros, infinities and NaNs.
TEST_F(Bf16Parts, SubnormalsCount) {
    constexpr Range kRanges[] = {{0, 3},     {0, 255},   {40, 90},   {60, 75},   {64, 78},
                                 {68, 72},   {70, 74},   {71, 71},   {71, 80},   {1, 20},
                                 {120, 254}, {230, 254}, {140, 141}, {127, 127}, {0, 0}};
    for (const Range lhs : kRanges)
        for (const Range rhs : kRanges)
            for (const int64_t k : {2, 33, 64})
                for (const int64_t passes : {1, 3})
                    multiplies(7, 17, k, passes, Lie::RowsTogether, lhs, rhs);
}

} // namespace
} // namespace lz::ir
