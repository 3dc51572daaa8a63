// The library's kernels on the driver without a GPU, against the functions of the CPU: equal to the bit.

#include "backend/library.h"

#include "runtime/cuda/library/radix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>

namespace lz::test {
namespace {

using ir::DType;

constexpr DType kDTypes[] = {DType::Bool, DType::U8,  DType::I8,   DType::I16, DType::I32,
                             DType::I64,  DType::F16, DType::BF16, DType::F32, DType::F64};

/// Rows of one column and of few, which go through tiles, and of many; shorter and longer than a tile, and
/// in chunks of 1024, by several blocks and by one thread.
TEST_F(CudaLibrary, ScansFoldInTheOrderOfTheCpu) {
    for (const DType dtype : kDTypes)
        for (const char *symbol : {"cumsum", "cumprod"})
            for (const auto [outer, extent, inner] :
                 {Folded{1, 1, 1}, Folded{3, 7, 1}, Folded{9, 700, 1}, Folded{2, 300, 3}, Folded{1, 90, 16},
                  Folded{2, 19, 17}, Folded{1, 40, 300}, Folded{1, 5000, 1}, Folded{2, 2500, 5},
                  Folded{1, 2100, 20}, Folded{3, 1500, 1}, Folded{1, 1100, 17}}) {
                const int64_t count = outer * extent * inner;
                Bytes in = random_elements(dtype, count, engine_, symbol[3] == 'p' ? 3 : 6);
                if (extent == 700)
                    put_nans(dtype, in, engine_);
                compare(symbol, {number(dtype), outer, extent, inner},
                        {{std::move(in), dtype}, LibraryBuffer::result(dtype, count)},
                        fmt::format("{} of ({}, {}, {})", symbol, outer, extent, inner),
                        extent == 300 ? 8 : 0);
            }
}

TEST_F(CudaLibrary, ExtremesAndTheirPlacesAreThoseOfTheCpu) {
    for (const DType dtype : kDTypes)
        for (const char *symbol : {"cummax", "cummin"})
            for (const auto [outer, extent, inner] :
                 {Folded{1, 1, 1}, Folded{3, 7, 1}, Folded{9, 700, 1}, Folded{2, 300, 3}, Folded{2, 19, 17},
                  Folded{1, 40, 300}, Folded{1, 5000, 1}, Folded{1, 2100, 20}, Folded{3, 2500, 2}}) {
                const int64_t count = outer * extent * inner;
                Bytes in = random_elements(dtype, count, engine_, 50);
                if (extent == 700 || extent == 2500)
                    put_nans(dtype, in, engine_);
                compare(symbol, {number(dtype), outer, extent, inner},
                        {{std::move(in), dtype},
                         LibraryBuffer::result(dtype, count),
                         LibraryBuffer::result(DType::I64, count)},
                        fmt::format("{} of ({}, {}, {})", symbol, outer, extent, inner),
                        extent == 300 ? 8 : 0);
            }
}

/// Totals of more than 2048 chunks are chunks again.
TEST_F(CudaLibrary, AScanOfMillionsOfIntegersHasThreeLevels) {
    constexpr int64_t kCount = 2 * 1024 * 1024 + 5;
    compare("cumsum", {number(DType::I16), 1, kCount, 1},
            {{random_elements(DType::I16, kCount, engine_), DType::I16},
             LibraryBuffer::result(DType::I16, kCount)},
            "two millions");
}
TEST_F(CudaLibrary, SoHasOneOfFloats) {
    for (const int64_t count : {int64_t{4000}, int64_t{1300000}})
        compare("cumsum", {number(DType::F32), 1, count, 1},
                {{random_elements(DType::F32, count, engine_, 900), DType::F32},
                 LibraryBuffer::result(DType::F32, count)},
                fmt::format("{} floats", count));
}

TEST_F(CudaLibrary, ScansOfNothingAreNothing) {
    for (const auto [outer, extent, inner] : {Folded{0, 5, 1}, Folded{2, 0, 3}, Folded{3, 4, 0}})
        compare("cumsum", {number(DType::F32), outer, extent, inner}, {{{}, DType::F32}, {{}, DType::F32}},
                "nothing");
}

/// Of several that go to one place the last stays, or they are added in their order; every index of its own,
/// and indices that are repeated along either side.
TEST_F(CudaLibrary, ScattersServeThePlacesInTheOrderOfTheSource) {
    struct Case {
        Folded x;
        int64_t count;
        bool own_outer, own_inner;
    };
    for (const DType dtype : kDTypes)
        for (const bool reduce : {false, true})
            for (const Case &c : {Case{{1, 7, 1}, 1, true, true}, Case{{2, 5, 3}, 40, true, true},
                                  Case{{1, 300, 1}, 5000, true, true}, Case{{3, 9, 20}, 33, false, false},
                                  Case{{2, 4, 6}, 11, false, true}, Case{{4, 3, 5}, 17, true, false},
                                  Case{{1, 1, 40}, 60, false, false}}) {
                const int64_t inner = c.own_inner ? c.x[2] : 1;
                const Folded strides = {c.own_outer ? c.count * inner : 0, inner, c.own_inner ? 1 : 0};
                const int64_t sets = (c.own_outer ? c.x[0] : 1) * c.count * inner,
                              elements = c.x[0] * c.x[1] * c.x[2], sources = c.x[0] * c.count * c.x[2];
                const DType index = c.x[1] == 300 ? DType::I32 : c.x[1] == 9 ? DType::U8 : DType::I64;
                Bytes places(static_cast<size_t>(sets * ir::size_of(index)));
                for (size_t i = 0; i < static_cast<size_t>(sets); ++i) {
                    const uint64_t place = engine_() % static_cast<uint64_t>(c.x[1]);
                    std::memcpy(&places[i * static_cast<size_t>(ir::size_of(index))], &place,
                                static_cast<size_t>(ir::size_of(index)));
                }
                compare("scatter", scatter_ints(dtype, index, reduce, c.x, c.count, strides),
                        {{random_elements(dtype, elements, engine_), dtype},
                         {std::move(places), index},
                         {random_elements(dtype, sources, engine_), dtype},
                         LibraryBuffer::result(dtype, elements)},
                        fmt::format("{} of {} into ({}, {}, {})", reduce ? "sum" : "scatter", c.count, c.x[0],
                                    c.x[1], c.x[2]));
            }
}

/// What is no place is left out, and the fault says which it was.
TEST_F(CudaLibrary, AnIndexOutOfRangeFillsTheFault) {
    for (const bool reduce : {false, true})
        for (const int64_t outside : {int64_t{-1}, int64_t{10}, std::numeric_limits<int64_t>::min()})
            compare("scatter", scatter_ints(DType::F32, DType::I64, reduce, {1, 10, 2}, 4, {8, 2, 1}),
                    {{random_elements(DType::F32, 20, engine_), DType::F32},
                     {bytes_of(std::vector<int64_t>{3, 3, 9, 0, 3, outside, 0, 0}), DType::I64},
                     {random_elements(DType::F32, 8, engine_), DType::F32},
                     LibraryBuffer::result(DType::F32, 20)},
                    fmt::format("{} at {}", reduce ? "sum" : "scatter", outside));
}

TEST_F(CudaLibrary, AScatterOfNothingIsACopy) {
    for (const bool reduce : {false, true}) {
        compare("scatter", scatter_ints(DType::I32, DType::I64, reduce, {2, 3, 1}, 0, {0, 1, 1}),
                {{random_elements(DType::I32, 6, engine_), DType::I32},
                 {{}, DType::I64},
                 {{}, DType::I32},
                 LibraryBuffer::result(DType::I32, 6)},
                "no indices");
        compare("scatter", scatter_ints(DType::I32, DType::I64, reduce, {1, 0, 1}, 1, {1, 1, 1}),
                {{{}, DType::I32},
                 {bytes_of(std::vector<int64_t>{0}), DType::I64},
                 {random_elements(DType::I32, 1, engine_), DType::I32},
                 {{}, DType::I32}},
                "no places");
    }
}

/// Equal elements stay in their order, NaN is above everything and -0 equals +0: rows of up to 2048 elements,
/// many in a block or one, and longer ones by digits.
TEST_F(CudaLibrary, SortsAreStableWithTheOrderOfTheCpu) {
    for (const DType dtype : kDTypes)
        for (const bool descending : {false, true})
            for (const auto [outer, extent, inner] :
                 {Folded{5, 1, 1}, Folded{70, 29, 1}, Folded{3, 130, 5}, Folded{1, 2048, 1},
                  Folded{1, 2049, 1}, Folded{2, 4100, 1}, Folded{1, 2500, 3}}) {
                const int64_t count = outer * extent * inner;
                Bytes in = random_elements(dtype, count, engine_, 100);
                put_nans(dtype, in, engine_);
                compare("sort", {number(dtype), outer, extent, inner, descending},
                        {{std::move(in), dtype},
                         LibraryBuffer::result(dtype, count),
                         LibraryBuffer::result(DType::I64, count)},
                        fmt::format("sort of ({}, {}, {})", outer, extent, inner));
            }
}

/// Keys and places of either width, several rows, digits of which the last is a part.
TEST_F(CudaLibrary, RadixSortTakesKeysAndPlacesOfEitherWidth) {
    const runtime::cuda::CudaDevice device(driver_table(), 0, 0);
    const runtime::cuda::LibraryKernels kernels(device, gpu(), load_source);
    for (const bool wide_keys : {false, true})
        for (const bool wide_places : {false, true}) {
            const runtime::cuda::RadixSort sort{3, 4500, wide_keys ? 37 : 19, wide_keys, wide_places};
            const auto count = static_cast<size_t>(sort.items());
            const auto narrowed = [](const std::vector<uint64_t> &values, bool wide) {
                return wide ? bytes_of(values)
                            : bytes_of(std::vector<uint32_t>(values.begin(), values.end()));
            };
            std::vector<uint64_t> keys(count), places(count), order(count);
            for (size_t i = 0; i < count; ++i) {
                keys[i] = engine_() % (uint64_t{1} << sort.key_bits) & ~uint64_t{0x3F0};
                places[i] = wide_places ? engine_() : engine_() >> 32;
            }
            std::iota(order.begin(), order.end(), 0);
            for (size_t row = 0; row < 3; ++row)
                std::sort(order.begin() + static_cast<int64_t>(row) * 4500,
                          order.begin() + static_cast<int64_t>(row + 1) * 4500, [&](uint64_t a, uint64_t b) {
                              return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
                          });
            std::vector<uint64_t> sorted_keys, sorted_places;
            for (const uint64_t at : order) {
                sorted_keys.push_back(keys[at]);
                sorted_places.push_back(places[at]);
            }

            runtime::LibraryArgs args{};
            const auto bytes = static_cast<size_t>(sort.scratch_bytes());
            auto *const memory = allocate<std::byte>(bytes);
            args.scratch = {memory, bytes};
            runtime::cuda::DeviceScratch scratch(args);
            const auto pairs = sort.take(scratch);
            write(static_cast<std::byte *>(pairs.keys), narrowed(keys, wide_keys));
            write(static_cast<std::byte *>(pairs.places), narrowed(places, wide_places));
            const runtime::Module &code = kernels.find("radix " + sort.name(), [&] {
                runtime::KernelSource source{"radix", "", {}, true};
                source.text = sort.source(source.entries);
                return source;
            });
            const runtime::cuda::Entered entered(device, "a test");
            const auto sorted = sort.sort({kernels, code, nullptr}, pairs, scratch);
            finish();
            EXPECT_EQ(device.driver().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
            const auto expect = [&](const void *found, const std::vector<uint64_t> &values, bool wide) {
                const Bytes expected = narrowed(values, wide);
                EXPECT_EQ(read(static_cast<const std::byte *>(found), expected.size()), expected)
                    << sort.name();
            };
            expect(sorted.keys, sorted_keys, wide_keys);
            expect(sorted.places, sorted_places, wide_places);
        }
}

TEST_F(CudaLibrary, TheFirstOfASortAreItsFirst) {
    for (const DType dtype : {DType::U8, DType::BF16, DType::F32, DType::F64, DType::I64})
        for (const bool descending : {false, true})
            for (const auto [outer, extent, inner, kept] : {std::array<int64_t, 4>{3, 100, 2, 7},
                                                            {2, 3000, 1, 1},
                                                            {2, 5000, 1, 100},
                                                            {2, 20000, 1, 2048},
                                                            {1, 9000, 2, 1},
                                                            {1, 2300, 3, 2300},
                                                            {1, 10, 1, 0}}) {
                Bytes in = random_elements(dtype, outer * extent * inner, engine_, 50);
                put_nans(dtype, in, engine_);
                compare("topk", {number(dtype), outer, extent, inner, descending, kept},
                        {{std::move(in), dtype},
                         LibraryBuffer::result(dtype, outer * kept * inner),
                         LibraryBuffer::result(DType::I64, outer * kept * inner)},
                        fmt::format("the first {} of ({}, {}, {})", kept, outer, extent, inner));
            }
}

} // namespace
} // namespace lz::test
