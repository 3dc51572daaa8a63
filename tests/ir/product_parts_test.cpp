// What emitted code of products calls where there is AVX-512: beside plain loops.

#include "ir/host/functions.h"
#include "ir/host/product_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace lz::ir {
namespace {

bool has_avx512() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

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

template <class T>
class Parts {
public:
    static constexpr PartSymbols kSymbols = kPartSymbols[sizeof(T) == 8];
    static constexpr int64_t kLanes = 64 / int64_t{sizeof(T)}, kColumns = 2 * kLanes;

    Memory<T> numbers(size_t n) {
        Memory<T> memory(n);
        for (T &x : memory.room)
            x = std::uniform_real_distribution<T>(-1, 1)(random_);
        return memory;
    }

    void multiplies(int64_t rows, int64_t last, int64_t width, int64_t steps, bool first) {
        const int64_t lhs_row = steps + 3, lhs_step = 1, rhs_step = kColumns + 5;
        const Memory<T> lhs = numbers(static_cast<size_t>(rows * lhs_row)),
                        rhs = numbers(static_cast<size_t>((steps + 1) * rhs_step));
        Memory<T> sums = numbers(static_cast<size_t>(kPartRows * kColumns));
        std::vector<T> expected(sums.first, sums.first + kPartRows * kColumns);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < width; ++j) {
                T sum = first ? 0 : expected[static_cast<size_t>(i * kColumns + j)];
                const T *row = lhs.first + (i + 1 == rows ? last : i) * lhs_row;
                for (int64_t k = 0; k < steps; ++k)
                    sum = std::fma(row[k * lhs_step], rhs.first[k * rhs_step + j], sum);
                expected[static_cast<size_t>(i * kColumns + j)] = sum;
            }
        function<MultiplyTile>(kSymbols.multiply_tile)(lhs.first, rhs.first, sums.first, steps, lhs_row,
                                                       lhs_step, rhs_step, first, sums.first, last * lhs_row,
                                                       width, rows);
        for (int64_t i = 0; i < kPartRows; ++i)
            for (int64_t j = 0; j < kColumns; ++j)
                if (i >= rows || j < width) {
                    EXPECT_EQ(sums.first[i * kColumns + j], expected[static_cast<size_t>(i * kColumns + j)])
                        << "row " << i << ", column " << j << " of " << rows << " x " << width << ", "
                        << steps << " steps";
                }
    }

    void packs(bool columns, int64_t count, int64_t depth, int64_t width) {
        const int64_t stride = (columns ? depth : count) + 2;
        const Memory<T> from = numbers(static_cast<size_t>((columns ? count : depth) * stride));
        const int64_t room = (depth + kLanes - 1) / kLanes * kLanes * width + kLanes;
        Memory<T> to(static_cast<size_t>(room), T{77});
        function<PackPanel>(columns ? kSymbols.pack_columns : kSymbols.pack_rows)(to.first, from.first, count,
                                                                                  depth, stride, width);
        for (int64_t k = 0; k < depth; ++k)
            for (int64_t i = 0; i < std::min(count, width); ++i)
                EXPECT_EQ(to.first[k * width + i], from.first[columns ? i * stride + k : k * stride + i])
                    << (columns ? "columns" : "rows") << ", row " << i << ", k " << k << " of " << count
                    << " x " << depth;
        EXPECT_EQ(to.first[room], T{77});
    }

private:
    std::mt19937 random_{1};
};

template <class T>
class ProductParts : public testing::Test {
protected:
    void SetUp() override {
        if (!has_avx512())
            GTEST_SKIP() << "This processor has no AVX-512.";
    }
    Parts<T> parts_;
};
using Sums = testing::Types<float, double>;
TYPED_TEST_SUITE(ProductParts, Sums);

TYPED_TEST(ProductParts, MultiplyTilesOfAllSizes) {
    const int64_t lanes = this->parts_.kLanes;
    for (int64_t rows = kPartRowStep; rows <= kPartRows; rows += kPartRowStep)
        for (const int64_t last : {rows - 2, rows - 1})
            for (const int64_t width : {int64_t{1}, lanes - 1, lanes, 2 * lanes})
                for (const int64_t steps : {0, 1, 37})
                    for (const bool first : {false, true})
                        this->parts_.multiplies(rows, last, width, steps, first);
}

TYPED_TEST(ProductParts, PackPanelsOfAllSizes) {
    for (const int64_t width : {int64_t{kPartRows}, 2 * this->parts_.kLanes})
        for (const int64_t count : {int64_t{1}, int64_t{5}, int64_t{13}, width - 1, width})
            for (const int64_t depth : {1, 8, 15, 16, 17, 40})
                for (const bool columns : {false, true})
                    this->parts_.packs(columns, count, depth, width);
}

} // namespace
} // namespace lz::ir
