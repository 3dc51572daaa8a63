// Library calls against naive loops, for every dtype.
#include "ir/target.h"
#include "runtime/api/library.h"
#include "runtime/api/parallel.h"
#include "runtime/library/avx512.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace lz::runtime {
namespace {

using ir::DType;

/// Elements of any dtype as bytes, read and written as doubles.
class Array {
public:
    Array(DType dtype, int64_t n)
        : dtype_(dtype), bytes_(static_cast<size_t>(n * ir::size_of(dtype))), n_(n) {}

    DType dtype() const { return dtype_; }
    int64_t size() const { return n_; }
    void *data() { return bytes_.data(); }
    const std::vector<std::byte> &bytes() const { return bytes_; }

    double get(int64_t i) const {
        switch (dtype_) {
        case DType::Bool:
        case DType::U8:
            return read<uint8_t>(i);
        case DType::I8:
            return read<int8_t>(i);
        case DType::I16:
            return read<int16_t>(i);
        case DType::I32:
            return read<int32_t>(i);
        case DType::I64:
            return static_cast<double>(read<int64_t>(i));
        case DType::F16:
            return ir::half_to_float(read<uint16_t>(i));
        case DType::BF16:
            return ir::bfloat_to_float(read<uint16_t>(i));
        case DType::F32:
            return read<float>(i);
        case DType::F64:
            return read<double>(i);
        }
        return 0;
    }
    /// Integers wrap, floats round; f16 and bf16 by way of f32.
    void set(int64_t i, double v) {
        auto integer = static_cast<int64_t>(ir::is_float(dtype_) ? 0 : v);
        switch (dtype_) {
        case DType::Bool:
            return write<uint8_t>(i, v != 0);
        case DType::U8:
        case DType::I8:
            return write(i, static_cast<uint8_t>(integer));
        case DType::I16:
            return write(i, static_cast<int16_t>(integer));
        case DType::I32:
            return write(i, static_cast<int32_t>(integer));
        case DType::I64:
            return write(i, integer);
        case DType::F16:
            return write(i, ir::float_to_half(static_cast<float>(v)));
        case DType::BF16:
            return write(i, ir::float_to_bfloat(static_cast<float>(v)));
        case DType::F32:
            return write(i, static_cast<float>(v));
        case DType::F64:
            return write(i, v);
        }
    }

private:
    template <class T>
    T read(int64_t i) const {
        T value;
        std::memcpy(&value, bytes_.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
        return value;
    }
    template <class T>
    void write(int64_t i, T value) {
        std::memcpy(bytes_.data() + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    }

    DType dtype_;
    std::vector<std::byte> bytes_;
    int64_t n_;
};

ir::FaultCode call(const char *symbol, std::vector<void *> buffers, std::vector<int64_t> ints,
                   ir::Fault *fault = nullptr) {
    ir::Fault mine;
    fault = fault ? fault : &mine;
    // Exactly the scratch that the rule asks for, of what is in it nothing known, and bytes behind it that
    // stay.
    const ir::LibraryRule *const rule = cpu_library().find(symbol);
    ir::DeviceInfo device;
    device.cpu().threads = num_threads();
    const auto bytes = static_cast<size_t>(rule->scratch_bytes ? rule->scratch_bytes(ints, device) : 0);
    std::unique_ptr<std::byte[], decltype(&std::free)> scratch(
        static_cast<std::byte *>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)), &std::free);
    std::fill_n(scratch.get(), bytes + 64, std::byte{0xa5});
    find_cpu_function(symbol)({buffers, ints, fault, {scratch.get(), bytes}});
    EXPECT_TRUE(std::all_of(scratch.get() + bytes, scratch.get() + bytes + 64,
                            [](std::byte b) { return b == std::byte{0xa5}; }))
        << symbol << " writes behind its scratch";
    return static_cast<ir::FaultCode>(fault->code.load());
}

int64_t number(DType dtype) {
    return static_cast<int64_t>(dtype);
}

class Library : public testing::TestWithParam<DType> {
protected:
    void SetUp() override { set_num_threads(3); }
    void TearDown() override { allow_avx512(true); }
    Array random(int64_t n, int low = -4, int high = 4) {
        Array a(GetParam(), n);
        bool negative = ir::is_signed(GetParam());
        for (int64_t i = 0; i < n; ++i)
            a.set(i, std::uniform_int_distribution(negative ? low : 0, high)(engine_));
        return a;
    }
    std::mt19937 engine_{7};
};

TEST(LibraryTable, UnknownSymbolsAreNull) {
    EXPECT_EQ(find_cpu_function("cumsums"), nullptr);
    EXPECT_EQ(cpu_library().find("cumsums"), nullptr);
}

TEST_P(Library, ScansFoldAlongTheAxisFromTheFirstElementOn) {
    for (bool product : {false, true})
        for (auto [outer, extent, inner] : {std::array<int64_t, 3>{3, 7, 5},
                                            {1, 1000, 1},
                                            {19, 33, 1},
                                            {2, 50, 700},
                                            {9, 101, 2},
                                            {6, 200, 4},
                                            {5, 37, 3},
                                            {1, 1, 1},
                                            {0, 4, 4},
                                            {3, 0, 2},
                                            {1000, 40, 1}}) {
            // Small whole numbers: f32 sums are exact, products stay within a few ones and twos.
            Array in = product ? random(outer * extent * inner, -1, 1) : random(outer * extent * inner);
            Array out(GetParam(), in.size());
            call(product ? "cumprod" : "cumsum", {in.data(), out.data()},
                 {number(GetParam()), outer, extent, inner});
            Array expected(GetParam(), in.size());
            for (int64_t o = 0; o < outer; ++o)
                for (int64_t i = 0; i < inner; ++i) {
                    double running = product ? 1 : 0;
                    for (int64_t e = 0; e < extent; ++e) {
                        int64_t at = (o * extent + e) * inner + i;
                        running = product ? running * in.get(at) : running + in.get(at);
                        expected.set(at, running);
                        ASSERT_EQ(out.get(at), expected.get(at)) << at;
                    }
                }
        }
}

TEST_P(Library, ExtremesSoFarAreTheLastOfEqualsAndNaNFromThereOn) {
    const double nan = std::numeric_limits<double>::quiet_NaN(),
                 inf = std::numeric_limits<double>::infinity();
    for (const bool largest : {false, true})
        for (auto [outer, extent, inner] : {std::array<int64_t, 3>{3, 200, 4},
                                            {1, 5000, 1},
                                            {300, 70, 1},
                                            {2, 300, 300},
                                            {1, 1, 1},
                                            {0, 9, 2},
                                            {3, 0, 2}}) {
            Array in = random(outer * extent * inner, -100, 100);
            if (ir::is_float(GetParam()))
                for (int64_t i = 50; i < in.size(); i += 97)
                    in.set(i, std::array{inf, -inf, 0.0, -0.0, 1e-40, nan,
                                         -nan}[static_cast<size_t>(i / 97 % 7)]);
            Array values(GetParam(), in.size());
            std::vector<int64_t> places(static_cast<size_t>(in.size()));
            call(largest ? "cummax" : "cummin", {in.data(), values.data(), places.data()},
                 {number(GetParam()), outer, extent, inner});
            const auto size = static_cast<size_t>(ir::size_of(GetParam()));
            for (int64_t o = 0; o < outer; ++o)
                for (int64_t i = 0; i < inner; ++i) {
                    const auto at = [&](int64_t e) { return (o * extent + e) * inner + i; };
                    int64_t best = 0;
                    for (int64_t e = 0; e < extent; ++e) {
                        const double x = in.get(at(e)), y = in.get(at(best));
                        if (std::isnan(x) || (largest ? x >= y : x <= y)) // no number is so of NaN
                            best = e;
                        ASSERT_EQ(places[static_cast<size_t>(at(e))], best) << e;
                        ASSERT_EQ(std::memcmp(values.bytes().data() + static_cast<size_t>(at(e)) * size,
                                              in.bytes().data() + static_cast<size_t>(at(best)) * size, size),
                                  0);
                    }
                }
        }
}

/// The first `count` elements of what sort gives, where most of them tie.
TEST_P(Library, TopkGivesWhatSortBeginsWith) {
    const double nan = std::numeric_limits<double>::quiet_NaN(),
                 inf = std::numeric_limits<double>::infinity();
    for (bool descending : {false, true})
        for (auto [outer, extent, inner] : {std::array<int64_t, 3>{3, 200, 4},
                                            {1, 5000, 1},
                                            {40, 37, 1},
                                            {2, 8, 1},
                                            {1, 4096, 3},
                                            {2, 70, 20},
                                            {1, 700, 9},
                                            {1, 40000, 1},
                                            {0, 9, 2}})
            for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{3}, extent / 8, extent / 3, extent}) {
                if (count > extent)
                    continue;
                Array in = random(outer * extent * inner, -100, 100);
                if (ir::is_float(GetParam()))
                    for (int64_t i = 0; i < in.size(); i += 97)
                        in.set(i, std::array{nan, -nan, inf, -inf, 0.0, -0.0,
                                             1e-40}[static_cast<size_t>(i / 97 % 7)]);
                Array all(GetParam(), in.size()), values(GetParam(), outer * count * inner);
                std::vector<int64_t> order(static_cast<size_t>(in.size())),
                    indices(static_cast<size_t>(values.size()));
                call("sort", {in.data(), all.data(), order.data()},
                     {number(GetParam()), outer, extent, inner, descending});
                const auto size = static_cast<size_t>(ir::size_of(GetParam()));
                for (const bool avx512 : {true, false}) { // where the machine has it
                    allow_avx512(avx512);
                    call("topk", {in.data(), values.data(), indices.data()},
                         {number(GetParam()), outer, extent, inner, descending, count});
                    for (int64_t i = 0; i < values.size(); ++i) {
                        const int64_t row = i / (count * inner),
                                      at = row * extent * inner + i % (count * inner);
                        ASSERT_EQ(indices[static_cast<size_t>(i)], order[static_cast<size_t>(at)]) << i;
                        ASSERT_EQ(std::memcmp(values.bytes().data() + static_cast<size_t>(i) * size,
                                              all.bytes().data() + static_cast<size_t>(at) * size, size),
                                  0);
                    }
                }
            }
}

/// What `sort` makes of each row beside std::sort by value and place, bit for bit: NaN payloads and signs of
/// zero travel.
void expect_sorted(Array &in, int64_t outer, int64_t extent, int64_t inner, bool descending) {
    Array values(in.dtype(), in.size());
    std::vector<int64_t> indices(static_cast<size_t>(in.size()));
    call("sort", {in.data(), values.data(), indices.data()},
         {number(in.dtype()), outer, extent, inner, descending});
    const auto size = static_cast<size_t>(ir::size_of(in.dtype()));
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i) {
            auto at = [&](int64_t e) { return (o * extent + e) * inner + i; };
            std::vector<int64_t> order(static_cast<size_t>(extent));
            std::iota(order.begin(), order.end(), 0);
            auto before = [&](int64_t a, int64_t b) {
                double x = in.get(at(a)), y = in.get(at(b));
                return std::isnan(y) ? !std::isnan(x) : x < y;
            };
            std::ranges::sort(order, [&](int64_t a, int64_t b) {
                if (before(a, b) || before(b, a))
                    return descending ? before(b, a) : before(a, b);
                return a < b;
            });
            for (int64_t e = 0; e < extent; ++e) {
                const int64_t from = order[static_cast<size_t>(e)];
                ASSERT_EQ(indices[static_cast<size_t>(at(e))], from);
                ASSERT_EQ(std::memcmp(values.bytes().data() + static_cast<size_t>(at(e)) * size,
                                      in.bytes().data() + static_cast<size_t>(at(from)) * size, size),
                          0);
            }
        }
}

TEST_P(Library, SortIsStableWithNaNLastOrFirstWhenDescending) {
    const double nan = std::numeric_limits<double>::quiet_NaN(),
                 inf = std::numeric_limits<double>::infinity();
    for (bool descending : {false, true})
        for (auto [outer, extent, inner] : {std::array<int64_t, 3>{3, 50, 4},
                                            {1, 5000, 1},
                                            {2, 3000, 3},
                                            {40, 17, 1},
                                            {9, 47, 1},
                                            {9, 48, 1},
                                            {1, 40000, 1},
                                            {1, 33000, 2},
                                            {2, 70, 20},
                                            {1, 3000, 9},
                                            {3, 200, 17},
                                            {1, 60, 8},
                                            {1, 1, 1},
                                            {0, 3, 3},
                                            {2, 0, 2}}) {
            Array in = random(outer * extent * inner, -100, 100);
            if (ir::is_float(GetParam()))
                for (int64_t i = 0; i < in.size(); i += 7)
                    in.set(i, std::array{nan, -nan, inf, -inf, 0.0, -0.0,
                                         1e-40}[static_cast<size_t>(i / 7 % 7)]);
            expect_sorted(in, outer, extent, inner, descending);
        }
}

/// All of the high digits have the same value in a key, or in one key of so many: each tells items apart as
/// well as all of them together.
TEST(LibrarySort, KeysWhoseHighDigitsSayTheSame) {
    std::mt19937 engine(9);
    for (const int64_t outer : {1, 3})
        for (const int64_t extent : {60, 4096, 40000})
            for (const int64_t values : {2, 40, 256})
                for (const int one_in : {1, 2, 1000000}) { // one key in so many is like the others
                    Array in(ir::DType::I32, outer * extent);
                    for (int64_t i = 0; i < in.size(); ++i) {
                        const uint32_t high = static_cast<uint32_t>(engine() % static_cast<uint64_t>(values)),
                                       low = static_cast<uint32_t>(engine() % 256);
                        const uint32_t key = engine() % static_cast<uint64_t>(one_in) == 0
                                                 ? high << 24 | high << 16 | high << 8 | low
                                                 : static_cast<uint32_t>(engine());
                        in.set(i, static_cast<int32_t>(key));
                    }
                    for (const bool descending : {false, true})
                        expect_sorted(in, outer, extent, 1, descending);
                }
}

/// Wherever the bits are in which keys of 64 differ, and however many agree in the highest 32 of these.
TEST(LibrarySort, KeysOf64BitsAreSortedByAllOfThem) {
    std::mt19937_64 engine(5);
    using Draw = std::function<int64_t()>;
    const auto any = [&] { return static_cast<int64_t>(engine()); };
    const std::pair<const char *, Draw> kinds[] = {
        {"all bits", any},
        {"high bits", [&] { return any() & ~INT64_C(0xFFFFFFFFFFF); }},
        {"low bits", [&] { return any() & 0xFFF; }},
        {"bits in the middle", [&] { return any() & INT64_C(0xFFFFFF000000); }},
        {"both ends", [&] { return any() & INT64_C(-0x7FFFFFFFFFFFFF01); }},
        {"few high parts", [&] { return (any() & INT64_C(0x7000000000000000)) | (any() & 0xFFFFFF); }},
        {"pairs", [&] { return (any() % 1000) << 40 | (any() & 1); }},
        {"few of both signs", [&] { return any() % 100; }},
        {"one", [] { return INT64_C(-7); }},
    };
    for (const auto &[kind, draw] : kinds)
        for (const size_t n : {1, 2, 47, 48, 3000, 40000})
            for (const int threads : {1, 3}) {
                SCOPED_TRACE(std::string(kind) + ", " + std::to_string(n));
                set_num_threads(threads);
                std::vector<int64_t> in(n), values(n), indices(n), order(n);
                for (int64_t &x : in)
                    x = draw();
                for (const bool descending : {false, true}) {
                    call("sort", {in.data(), values.data(), indices.data()},
                         {number(DType::I64), 1, static_cast<int64_t>(n), 1, descending});
                    std::iota(order.begin(), order.end(), 0);
                    std::ranges::sort(order, [&](int64_t a, int64_t b) {
                        const int64_t x = in[static_cast<size_t>(a)], y = in[static_cast<size_t>(b)];
                        return x != y ? (descending ? x > y : x < y) : a < b;
                    });
                    ASSERT_EQ(indices, order);
                    for (size_t i = 0; i < n; ++i)
                        ASSERT_EQ(values[i], in[static_cast<size_t>(order[i])]);
                }
            }
}

/// A result that nobody reads need not be made; the other is as ever.
TEST_P(Library, ResultsThatNobodyReadsNeedNotBeMade) {
    for (auto [outer, extent, inner] : {std::array<int64_t, 3>{3, 200, 1}, {2, 70, 20}, {1, 40000, 1}})
        for (const char *symbol : {"sort", "topk", "cummax", "cummin"}) {
            Array in = random(outer * extent * inner, -100, 100);
            const int64_t kept = std::string_view(symbol) == "topk" ? extent / 3 : extent;
            const auto made = [&](int64_t wanted) {
                Array values(GetParam(), outer * kept * inner);
                std::vector<int64_t> indices(static_cast<size_t>(values.size()), -7);
                std::vector<int64_t> ints = {number(GetParam()), outer, extent, inner};
                if (symbol[0] != 'c')
                    ints.insert(ints.end(), {0, kept});
                ints.push_back(wanted);
                call(symbol, {in.data(), values.data(), indices.data()}, ints);
                return std::pair(values.bytes(), indices);
            };
            const auto both = made(3);
            EXPECT_EQ(made(1).first, both.first) << symbol;
            EXPECT_EQ(made(2).second, both.second) << symbol;
            EXPECT_EQ(made(1).second, std::vector<int64_t>(both.second.size(), -7)) << symbol;
        }
}

TEST_P(Library, ScatterServesEqualPlacesInOrder) {
    for (bool add : {false, true})
        for (bool in_place : {false, true})
            for (DType index_dtype : {DType::I32, DType::I64})
                for (auto [outer, extent, count, inner] : {std::array<int64_t, 4>{2, 5, 40, 3},
                                                           {1, 10, 3000, 1},
                                                           {3, 4, 2, 500},
                                                           {5, 3, 0, 2},
                                                           {0, 3, 2, 2},
                                                           {1, 50, 300, 64},
                                                           {1, 700, 9000, 1},
                                                           {1, 2, 900, 20}}) {
                    for (unsigned repeated = 0; repeated < 8; ++repeated) { // outer, along, inner
                        if (add && GetParam() == DType::Bool)
                            continue;
                        Array x = random(outer * extent * inner), source = random(outer * count * inner);
                        const int64_t there[] = {repeated & 1 ? 1 : outer, repeated & 2 ? 1 : count,
                                                 repeated & 4 ? 1 : inner};
                        const int64_t strides[] = {repeated & 1 ? 0 : there[1] * there[2],
                                                   repeated & 2 ? 0 : there[2], repeated & 4 ? 0 : 1};
                        Array index(index_dtype, there[0] * there[1] * there[2]), out(GetParam(), x.size());
                        for (int64_t i = 0; i < index.size(); ++i)
                            index.set(i, static_cast<double>(engine_() % static_cast<uint64_t>(extent)));
                        std::vector<double> expected;
                        for (int64_t i = 0; i < x.size(); ++i)
                            expected.push_back(x.get(i));
                        for (int64_t i = 0; i < source.size(); ++i) {
                            int64_t o = i / (count * inner), k = i / inner % count, column = i % inner;
                            const int64_t at = o * strides[0] + k * strides[1] + column * strides[2];
                            auto place = static_cast<size_t>(
                                (o * extent + static_cast<int64_t>(index.get(at))) * inner + column);
                            expected[place] = add ? expected[place] + source.get(i) : source.get(i);
                        }
                        Array &to = in_place ? x : out;
                        auto code =
                            call("scatter", {x.data(), index.data(), source.data(), to.data()},
                                 {number(GetParam()), number(index_dtype), 1, add, 0, strides[0], strides[1],
                                  strides[2], 3, outer, extent, inner, outer, count, inner});
                        EXPECT_EQ(code, ir::FaultCode::None);
                        Array rounded(GetParam(), x.size());
                        for (int64_t i = 0; i < x.size(); ++i) {
                            rounded.set(i, expected[static_cast<size_t>(i)]);
                            ASSERT_EQ(to.get(i), rounded.get(i)) << i << ", repeated " << repeated;
                        }
                    }
                }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Library,
                         testing::Values(DType::Bool, DType::U8, DType::I8, DType::I16, DType::I32,
                                         DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64),
                         [](const auto &param) { return std::string(ir::name(param.param)); });

TEST(Semantics, S26_a_scatters_index_out_of_range_is_a_fault_and_touches_no_foreign_memory) {
    for (int64_t bad : {int64_t{-1}, int64_t{3}, INT64_MAX, INT64_MIN}) {
        std::vector<float> memory(5, -7), source{1, 2, 3};
        std::vector<float> x{10, 20, 30};
        std::vector<int64_t> index{0, bad, 2};
        ir::Fault fault;
        auto code = call("scatter", {x.data(), index.data(), source.data(), memory.data() + 1},
                         {number(DType::F32), number(DType::I64), 0, 1, 99, 3, 1, 1, 1, 3, 3}, &fault);
        EXPECT_EQ(code, ir::FaultCode::IndexOutOfRange);
        EXPECT_EQ(fault.value, bad);
        EXPECT_EQ(fault.limit, 3);
        EXPECT_EQ(fault.source, 99u);
        EXPECT_EQ(memory, (std::vector<float>{-7, 11, 20, 33, -7}));
    }
}

/// Written down from ir::kScanChunk's comment.
template <class T>
std::vector<T> chunked_sums(const std::vector<T> &x) {
    constexpr size_t kChunk = 1024;
    std::vector<T> sums(x.size()), totals;
    for (size_t i = 0; i < x.size(); ++i) {
        sums[i] = i % kChunk == 0 ? x[i] : sums[i - 1] + x[i];
        if (i % kChunk == kChunk - 1)
            totals.push_back(sums[i]);
    }
    if (x.size() <= kChunk)
        return sums;
    totals = chunked_sums(totals);
    for (size_t i = kChunk; i < x.size(); ++i)
        sums[i] = totals[i / kChunk - 1] + sums[i];
    return sums;
}

/// One column of each is looked at; all are in the same order.
TEST(LibraryScan, LongLinesOfFloatsAreChunksOfChunks) {
    set_num_threads(3);
    std::mt19937 engine(5);
    std::normal_distribution<float> normal;
    for (const auto &[outer, extent, inner] : {std::array<int64_t, 3>{1, 1024, 1},
                                               {1, 1025, 1},
                                               {9, 3000, 1},
                                               {2, 5000, 2},
                                               {3, 2048, 4},
                                               {1, 2100, 300},
                                               {2, 1500, 3},
                                               {1, 1024 * 1024 + 3000, 1}}) {
        const auto count = static_cast<size_t>(outer * extent * inner);
        std::vector<float> in(count), out(count);
        std::vector<double> wide(count), wide_out(count);
        for (size_t i = 0; i < count; ++i)
            wide[i] = static_cast<double>(in[i] = normal(engine));
        call("cumsum", {in.data(), out.data()}, {number(DType::F32), outer, extent, inner});
        call("cumsum", {wide.data(), wide_out.data()}, {number(DType::F64), outer, extent, inner});
        std::vector<float> line;
        std::vector<double> wide_line;
        const int64_t first = (outer - 1) * extent * inner + inner - 1;
        for (int64_t e = 0; e < extent; ++e) {
            line.push_back(in[static_cast<size_t>(first + e * inner)]);
            wide_line.push_back(wide[static_cast<size_t>(first + e * inner)]);
        }
        line = chunked_sums(line);
        wide_line = chunked_sums(wide_line);
        for (int64_t e = 0; e < extent; ++e) {
            ASSERT_EQ(out[static_cast<size_t>(first + e * inner)], line[static_cast<size_t>(e)]) << e;
            ASSERT_EQ(wide_out[static_cast<size_t>(first + e * inner)], wide_line[static_cast<size_t>(e)]);
        }
    }
}

TEST(Semantics, S62_half_types_add_up_in_f32) {
    // 1 + 4096 * 2^-12: with a rounding to f16 after each addition it would stay at 1.
    uint16_t one = ir::float_to_half(1), small = ir::float_to_half(0x1p-12f), out = 0;
    std::vector<int64_t> index(4096, 0);
    std::vector<uint16_t> source(4096, small);
    call("scatter", {&one, index.data(), source.data(), &out},
         {number(DType::F16), number(DType::I64), 0, 1, 0, 4096, 1, 1, 1, 1, 4096});
    EXPECT_EQ(ir::half_to_float(out), 2.0f);
    std::vector<uint16_t> sums(4096);
    call("cumsum", {source.data(), sums.data()}, {number(DType::F16), 1, 4096, 1});
    EXPECT_EQ(ir::half_to_float(sums.back()), 1.0f);
}

TEST(Semantics, S29_library_results_do_not_depend_on_the_number_of_threads) {
    std::mt19937 engine(3);
    std::normal_distribution<float> normal;
    const auto bits_of = [](const auto &v) {
        return std::string(reinterpret_cast<const char *>(v.data()), v.size() * sizeof(v[0]));
    };
    for (auto [extent, count, inner] :
         {std::array<int64_t, 3>{300, 300, 257}, {90, 20000, 1}, {57, 3000, 24}, {1, 30000, 1}}) {
        const auto of_x = static_cast<size_t>(extent * inner), of_source = static_cast<size_t>(count * inner);
        std::vector<float> in(of_x), source(of_source);
        std::vector<uint16_t> half_in(of_x), half_source(of_source);
        for (size_t i = 0; i < of_x; ++i)
            half_in[i] = ir::float_to_half(in[i] = normal(engine));
        for (size_t i = 0; i < of_source; ++i)
            half_source[i] = ir::float_to_half(source[i] = normal(engine));
        for (bool rows : {false, true}) {
            std::vector<int64_t> index(static_cast<size_t>(rows ? count : count * inner));
            for (int64_t &i : index)
                i = static_cast<int64_t>(engine() % static_cast<uint64_t>(extent));
            std::string first;
            for (int threads : {1, 2, 7}) {
                set_num_threads(threads);
                std::vector<float> scanned(of_source), sums(of_x), best(of_source / 4);
                std::vector<uint16_t> half_sums(of_x);
                std::vector<int64_t> places(of_source / 4);
                call("cumsum", {source.data(), scanned.data()}, {number(DType::F32), 1, count, inner});
                for (DType dtype : {DType::F32, DType::F16}) {
                    const bool half = dtype == DType::F16;
                    call("scatter",
                         {half ? static_cast<void *>(half_in.data()) : in.data(), index.data(),
                          half ? static_cast<void *>(half_source.data()) : source.data(),
                          half ? static_cast<void *>(half_sums.data()) : sums.data()},
                         {number(dtype), number(DType::I64), 0, 1, 0, 0, rows ? 1 : inner, rows ? 0 : 1, 2,
                          extent, inner, count, inner});
                }
                call("topk", {source.data(), best.data(), places.data()},
                     {number(DType::F32), 1, count, inner, 1, count / 4});
                const std::string bits =
                    bits_of(scanned) + bits_of(sums) + bits_of(half_sums) + bits_of(best) + bits_of(places);
                if (threads == 1)
                    first = bits;
                EXPECT_TRUE(bits == first) << threads << " threads, " << count << " lines of " << inner;
            }
        }
    }
}

} // namespace
} // namespace lz::runtime
