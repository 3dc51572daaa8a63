// Sorting truths, and what is found by it: the positions where a mask is true. The oracle is a loop.
#include "tests/support/tensor_values.h"

#include <random>
#include <vector>

namespace {

using lz::Tensor;

/// Truths of which about `part` are true.
std::vector<bool> mask_of(int64_t count, double part, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<bool> mask(static_cast<size_t>(count));
    for (size_t i = 0; i < mask.size(); ++i)
        mask[i] = static_cast<double>(random()) < part * 4294967296.0;
    return mask;
}
Tensor tensor_of(const std::vector<bool> &mask) {
    std::vector<int64_t> numbers(mask.begin(), mask.end());
    return lz::tensor(numbers).to(lz::boolean);
}

TEST(SortedMasks, PositionsThatAreTrueComeInOrder) {
    for (const int64_t n : {1, 2, 63, 1000, 4096, 5000, 65536, 131072, 300001})
        for (const double part : {0.0, 0.01, 0.5, 0.99, 1.0}) {
            const std::vector<bool> mask = mask_of(n, part, static_cast<uint32_t>(n));
            std::vector<int64_t> when[2];
            for (int64_t i = 0; i < n; ++i)
                when[mask[static_cast<size_t>(i)]].push_back(i);
            const Tensor t = tensor_of(mask);
            EXPECT_EQ(t.nonzero().flatten().to_vector<int64_t>(), when[1]) << n << ' ' << part;
            EXPECT_EQ(lz::arange(n).masked_select(t).to_vector<int64_t>(), when[1]) << n << ' ' << part;
            for (const bool descending : {false, true}) {
                std::vector<int64_t> order = when[descending];
                order.insert(order.end(), when[!descending].begin(), when[!descending].end());
                const auto [values, places] = lz::sort(t, 0, descending);
                EXPECT_EQ(places.to_vector<int64_t>(), order) << n << ' ' << part << ' ' << descending;
                EXPECT_TRUE(lz::equal(values, t.index_select(0, lz::tensor(order))));
            }
        }
}

TEST(SortedMasks, RowsAndColumnsAreSortedByThemselves) {
    for (const auto &[outer, extent, inner] : {std::array<int64_t, 3>{3, 50, 4},
                                               {1, 70000, 1},
                                               {2, 9000, 3},
                                               {400, 17, 1},
                                               {1, 4096, 2},
                                               {5, 1, 7}}) {
        const std::vector<bool> mask = mask_of(outer * extent * inner, 0.4, 7);
        const Tensor t = tensor_of(mask).view({outer, extent, inner});
        for (const bool descending : {false, true}) {
            const auto [values, places] = lz::sort(t, 1, descending);
            const std::vector<int64_t> order = places.flatten().to_vector<int64_t>();
            EXPECT_TRUE(lz::equal(values, t.gather(1, places)));
            for (int64_t o = 0; o < outer; ++o)
                for (int64_t i = 0; i < inner; ++i) {
                    std::vector<int64_t> expected;
                    for (const bool kind : {descending, !descending})
                        for (int64_t e = 0; e < extent; ++e)
                            if (mask[static_cast<size_t>((o * extent + e) * inner + i)] == kind)
                                expected.push_back(e);
                    for (int64_t e = 0; e < extent; ++e)
                        ASSERT_EQ(order[static_cast<size_t>((o * extent + e) * inner + i)],
                                  expected[static_cast<size_t>(e)]);
                }
        }
    }
    const auto [values, places] = lz::topk(tensor_of({false, true, false, true, true}), 2);
    EXPECT_EQ(values.to(lz::i64).to_vector<int64_t>(), (std::vector<int64_t>{1, 1}));
    EXPECT_EQ(places.to_vector<int64_t>(), (std::vector<int64_t>{1, 3}));
}

} // namespace
