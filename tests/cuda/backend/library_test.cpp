// The library's kernels on the driver without a GPU, against the functions of the CPU: equal to the bit.

#include "backend/gpus.h"

#include "runtime/cuda/library/radix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

namespace lz::test {
namespace {

using ir::DType;
using runtime::Backend;

constexpr DType kDTypes[] = {DType::Bool, DType::U8,  DType::I8,   DType::I16, DType::I32,
                             DType::I64,  DType::F16, DType::BF16, DType::F32, DType::F64};

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T> &values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
}

/// Whether the element is a NaN: which one is not promised.
bool is_nan(DType dtype, const std::byte *at) {
    uint64_t bits = 0;
    std::memcpy(&bits, at, static_cast<size_t>(ir::size_of(dtype)));
    switch (dtype) {
    case DType::F16:
        return (bits & 0x7FFF) > 0x7C00;
    case DType::BF16:
        return (bits & 0x7FFF) > 0x7F80;
    case DType::F32:
        return (bits & 0x7FFFFFFF) > 0x7F800000;
    case DType::F64:
        return (bits & ~(uint64_t{1} << 63)) > 0x7FF0000000000000;
    default:
        return false;
    }
}

/// Elements that meet, and the extremes: zeros of both signs, infinities and NaN of floats.
Bytes random_elements(DType dtype, int64_t count, std::mt19937_64 &engine, int64_t spread = 6) {
    const auto size = static_cast<size_t>(ir::size_of(dtype));
    Bytes bytes(static_cast<size_t>(count) * size);
    const auto number = [&](double v) -> uint64_t {
        switch (dtype) {
        case DType::F16:
            return ir::float_to_half(static_cast<float>(v));
        case DType::BF16:
            return ir::float_to_bfloat(static_cast<float>(v));
        case DType::F32:
            return std::bit_cast<uint32_t>(static_cast<float>(v));
        default:
            return std::bit_cast<uint64_t>(v);
        }
    };
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        uint64_t bits = engine();
        const uint64_t kind = engine() % 64;
        if (dtype == DType::Bool)
            bits &= 1;
        else if (!ir::is_float(dtype))
            bits = kind < 8 ? bits : bits % static_cast<uint64_t>(spread);
        else if (kind < 40)
            bits = number(static_cast<double>(static_cast<int64_t>(bits % 41) - 20) / 7.0);
        else if (kind < 60)
            bits = number(static_cast<double>(bits % static_cast<uint64_t>(spread)) - 2);
        else
            bits = number(kind == 60   ? -0.0
                          : kind == 61 ? 0.0
                          : kind == 62 ? 1e30
                                       : std::array{kInfinity, -kInfinity, -kInfinity, 7.0}[bits % 4]);
        std::memcpy(bytes.data() + i * size, &bits, size);
    }
    return bytes;
}

/// NaNs of either sign among them.
void put_nans(DType dtype, Bytes &bytes, std::mt19937_64 &engine) {
    const auto size = static_cast<size_t>(ir::size_of(dtype));
    for (size_t i = 0; ir::is_float(dtype) && i + size <= bytes.size(); i += size)
        if (engine() % 16 == 0) {
            uint64_t bits = dtype == DType::F16    ? 0x7E00
                            : dtype == DType::BF16 ? 0x7FC0
                            : dtype == DType::F32  ? 0x7FC00000
                                                   : 0x7FF8000000000000;
            bits |= (engine() & 1) << (8 * size - 1);
            std::memcpy(bytes.data() + i, &bits, size);
        }
}

class CudaLibrary : public CudaGpus {
protected:
    void SetUp() override {
        if (!why_no_nvrtc().empty())
            GTEST_SKIP() << why_no_nvrtc();
        CudaGpus::SetUp();
    }
    void TearDown() override {
        if (why_no_nvrtc().empty())
            CudaGpus::TearDown();
    }

    struct Buffer {
        Bytes bytes;
        DType dtype;
        bool is_result = false;
    };

    /// Calls a function on the host and on the GPU, and compares their results. Buffers begin `past` bytes
    /// behind where an allocation does.
    void compare(const char *symbol, const std::vector<int64_t> &ints, std::vector<Buffer> buffers,
                 const std::string &what, size_t past = 0) {
        const std::vector<Buffer> inputs = buffers;
        const std::unique_ptr<ir::Fault> fault_there = call_on_host(symbol, ints, buffers);
        const ir::Fault &expected = *fault_there;
        const Bytes fault = call_on_gpu(symbol, ints, inputs, past);
        for (size_t b = 0; b < buffers.size(); ++b)
            expect_equal(buffers[b], results_[b], what + " buffer " + std::to_string(b));
        const auto &found = *reinterpret_cast<const ir::Fault *>(fault.data());
        EXPECT_EQ(found.code.load(), expected.code.load()) << what;
        if (expected.code.load() != 0) {
            EXPECT_EQ(found.source, expected.source) << what;
            EXPECT_EQ(found.value, expected.value) << what;
            EXPECT_EQ(found.limit, expected.limit) << what;
        }
    }

    static void expect_equal(const Buffer &expected, const Bytes &found, const std::string &what) {
        const auto size = static_cast<size_t>(ir::size_of(expected.dtype));
        ASSERT_EQ(found.size(), expected.bytes.size());
        int wrong = 0;
        for (size_t i = 0; i < found.size() && wrong < 4; i += size)
            if (std::memcmp(&found[i], &expected.bytes[i], size) != 0 &&
                !(is_nan(expected.dtype, &found[i]) && is_nan(expected.dtype, &expected.bytes[i]))) {
                uint64_t is = 0, should_be = 0;
                std::memcpy(&is, &found[i], size);
                std::memcpy(&should_be, &expected.bytes[i], size);
                ADD_FAILURE() << what << ' ' << ir::name(expected.dtype) << " element " << i / size
                              << std::hex << ": " << is << ", should be " << should_be;
                ++wrong;
            }
    }

    std::unique_ptr<ir::Fault> call_on_host(const char *symbol, const std::vector<int64_t> &ints,
                                            std::vector<Buffer> &buffers) {
        const ir::LibraryRule *const rule = runtime::cpu_library().find(symbol);
        ir::DeviceInfo info;
        info.cpu().threads = 2;
        const auto count = static_cast<size_t>(rule->scratch_bytes ? rule->scratch_bytes(ints, info) : 0);
        std::unique_ptr<std::byte[], decltype(&std::free)> scratch(
            static_cast<std::byte *>(std::aligned_alloc(64, (count + 64) / 64 * 64)), &std::free);
        auto fault = std::make_unique<ir::Fault>();
        std::vector<void *> pointers;
        for (Buffer &buffer : buffers)
            pointers.push_back(buffer.bytes.data());
        runtime::find_cpu_function(symbol)({pointers, ints, fault.get(), {scratch.get(), count}});
        return fault;
    }

    /// Its results, and the fault.
    Bytes call_on_gpu(const char *symbol, const std::vector<int64_t> &ints,
                      const std::vector<Buffer> &buffers, size_t past) {
        const ir::LibraryRule *const rule = gpu().library().find(symbol);
        ir::DeviceInfo info;
        info.limits = *gpu().properties().cuda;
        Backend::Call c{};
        c.function = gpu().find_library(symbol);
        EXPECT_FALSE(c.function.is_on_host());
        const auto count = static_cast<size_t>(rule->scratch_bytes ? rule->scratch_bytes(ints, info) : 0);
        std::vector<void *> pointers;
        for (const Buffer &buffer : buffers) {
            auto *const memory = allocate<std::byte>(buffer.bytes.size() + past) + past;
            gpu().copy(memory, buffer.bytes.data(), buffer.bytes.size(), 0);
            pointers.push_back(memory);
        }
        finish();
        auto *const scratch = count ? allocate<std::byte>(count) : nullptr;
        ir::Fault *const fault = gpu().allocate_faults(1);
        c.args.buffers = pointers;
        c.args.ints = ints;
        c.args.fault = fault;
        c.args.scratch = {scratch, count};
        gpu().call(c, 0);
        finish();
        results_.clear();
        for (size_t b = 0; b < buffers.size(); ++b) {
            results_.push_back(read(static_cast<const std::byte *>(pointers[b]), buffers[b].bytes.size()));
            give_back(static_cast<std::byte *>(pointers[b]) - past);
        }
        if (scratch)
            give_back(scratch);
        Bytes copy(sizeof(ir::Fault));
        std::memcpy(copy.data(), static_cast<const void *>(fault), sizeof(ir::Fault));
        gpu().free_faults(fault, 1);
        return copy;
    }

    static int64_t number(DType dtype) { return static_cast<int64_t>(dtype); }
    static Buffer result(DType dtype, int64_t count) {
        return {Bytes(static_cast<size_t>(count * ir::size_of(dtype)), std::byte{0x5A}), dtype, true};
    }

    std::vector<Bytes> results_;
    std::mt19937_64 engine_{11};
};

using Folded = std::array<int64_t, 3>;

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
                        {{std::move(in), dtype}, result(dtype, count)},
                        fmt::format("{} of ({}, {}, {})", symbol, outer, extent, inner),
                        extent == 300 ? 8 : 0);
            }
}

/// Totals of more than 2048 chunks are chunks again.
TEST_F(CudaLibrary, AScanOfMillionsOfIntegersHasThreeLevels) {
    constexpr int64_t kCount = 2 * 1024 * 1024 + 5;
    compare("cumsum", {number(DType::I16), 1, kCount, 1},
            {{random_elements(DType::I16, kCount, engine_), DType::I16}, result(DType::I16, kCount)},
            "two millions");
}
TEST_F(CudaLibrary, SoHasOneOfFloats) {
    for (const int64_t count : {int64_t{4000}, int64_t{1300000}})
        compare("cumsum", {number(DType::F32), 1, count, 1},
                {{random_elements(DType::F32, count, engine_, 900), DType::F32}, result(DType::F32, count)},
                fmt::format("{} floats", count));
}

TEST_F(CudaLibrary, ScansOfNothingAreNothing) {
    for (const auto [outer, extent, inner] : {Folded{0, 5, 1}, Folded{2, 0, 3}, Folded{3, 4, 0}})
        compare("cumsum", {number(DType::F32), outer, extent, inner}, {{{}, DType::F32}, {{}, DType::F32}},
                "nothing");
}

/// dtype, dtype of the index, axis, reduce, node, strides of the index, rank, extents of x, of the index.
std::vector<int64_t> scatter_ints(DType dtype, DType index, bool reduce, Folded x, int64_t count,
                                  Folded strides) {
    return {static_cast<int64_t>(dtype),
            static_cast<int64_t>(index),
            1,
            reduce,
            77,
            strides[0],
            strides[1],
            strides[2],
            3,
            x[0],
            x[1],
            x[2],
            x[0],
            count,
            x[2]};
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
                         result(dtype, elements)},
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
                     result(DType::F32, 20)},
                    fmt::format("{} at {}", reduce ? "sum" : "scatter", outside));
}

TEST_F(CudaLibrary, AScatterOfNothingIsACopy) {
    for (const bool reduce : {false, true}) {
        compare("scatter", scatter_ints(DType::I32, DType::I64, reduce, {2, 3, 1}, 0, {0, 1, 1}),
                {{random_elements(DType::I32, 6, engine_), DType::I32},
                 {{}, DType::I64},
                 {{}, DType::I32},
                 result(DType::I32, 6)},
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
                        {{std::move(in), dtype}, result(dtype, count), result(DType::I64, count)},
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
                         result(dtype, outer * kept * inner),
                         result(DType::I64, outer * kept * inner)},
                        fmt::format("the first {} of ({}, {}, {})", kept, outer, extent, inner));
            }
}

} // namespace
} // namespace lz::test
