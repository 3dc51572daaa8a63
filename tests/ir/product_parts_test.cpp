// What emitted code of products calls, for each kind of registers: beside plain loops.

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

struct Avx512 {
    static constexpr const char *kName = "AVX-512";
    static const PartSet *parts() {
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f"))
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

    void multiplies(int64_t rows, int64_t last, int64_t width, int64_t steps, bool first) {
        const int64_t lhs_row = steps + 3, lhs_step = 1, rhs_step = columns_ + 5;
        const Memory<T> lhs = numbers(static_cast<size_t>(rows * lhs_row)),
                        rhs = numbers(static_cast<size_t>((steps + 1) * rhs_step));
        Memory<T> sums = numbers(static_cast<size_t>(set_.rows * columns_));
        std::vector<T> expected(sums.first, sums.first + set_.rows * columns_);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < width; ++j) {
                T sum = first ? 0 : expected[static_cast<size_t>(i * columns_ + j)];
                const T *row = lhs.first + (i + 1 == rows ? last : i) * lhs_row;
                for (int64_t k = 0; k < steps; ++k)
                    sum = std::fma(row[k * lhs_step], rhs.first[k * rhs_step + j], sum);
                expected[static_cast<size_t>(i * columns_ + j)] = sum;
            }
        function<MultiplyTile>(functions_.multiply_tile_name)(lhs.first, rhs.first, sums.first, steps,
                                                              lhs_row, lhs_step, rhs_step, first, sums.first,
                                                              last * lhs_row, width, rows);
        for (int64_t i = 0; i < set_.rows; ++i)
            for (int64_t j = 0; j < columns_; ++j)
                if (i >= rows || j < width) {
                    EXPECT_EQ(sums.first[i * columns_ + j], expected[static_cast<size_t>(i * columns_ + j)])
                        << "row " << i << ", column " << j << " of " << rows << " x " << width << ", "
                        << steps << " steps";
                }
    }

    void packs(bool columns, int64_t count, int64_t depth, int64_t width) {
        const int64_t stride = (columns ? depth : count) + 2;
        const Memory<T> from = numbers(static_cast<size_t>((columns ? count : depth) * stride));
        const int64_t room = (depth + lanes_ - 1) / lanes_ * lanes_ * width + lanes_;
        Memory<T> to(static_cast<size_t>(room), T{77});
        function<PackPanel>(columns ? functions_.pack_columns_name : functions_.pack_rows_name)(
            to.first, from.first, count, depth, stride, width);
        for (int64_t k = 0; k < depth; ++k)
            for (int64_t i = 0; i < std::min(count, width); ++i)
                EXPECT_EQ(to.first[k * width + i], from.first[columns ? i * stride + k : k * stride + i])
                    << (columns ? "columns" : "rows") << ", row " << i << ", k " << k << " of " << count
                    << " x " << depth;
        EXPECT_EQ(to.first[room], T{77});
    }

    int64_t lanes() const { return lanes_; }

private:
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
    const int64_t lanes = parts.lanes(), step = this->set_->row_step;
    for (int64_t rows = step; rows <= this->set_->rows; rows += step)
        for (const int64_t last : {rows - step, rows - 1})
            for (const int64_t width : {int64_t{1}, lanes - 1, lanes, 2 * lanes})
                for (const int64_t steps : {0, 1, 2, 37})
                    for (const bool first : {false, true})
                        parts.multiplies(rows, last, width, steps, first);
}

TYPED_TEST(ProductPartsOf, PackPanelsOfAllSizes) {
    Parts<typename TypeParam::T> parts(*this->set_);
    for (const int64_t width : {int64_t{this->set_->rows}, 2 * parts.lanes()})
        for (const int64_t count : {int64_t{1}, int64_t{5}, int64_t{13}, width - 1, width})
            for (const int64_t depth : {1, 4, 8, 15, 16, 17, 40})
                for (const bool columns : {false, true})
                    parts.packs(columns, count, depth, width);
}

} // namespace
} // namespace lz::ir
