// The library's scatters of single elements against a loop that serves one after another, to the bit: places
// that are near or far, indices that are random, in runs or outside, and any number of threads.
#include "ir/target.h"
#include "runtime/api/library.h"
#include "runtime/api/parallel.h"
#include "runtime/library/avx512.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace lz::runtime {
namespace {

using ir::DType;

/// How a dtype's elements are written down and added, said once more here.
template <DType D, class T, class Running = T>
struct Kind {
    static constexpr DType kDType = D;
    using Storage = T;
    using Sum = Running;
    static Sum widen(T value) { return static_cast<Sum>(value); }
    static T narrow(Sum sum) { return static_cast<T>(sum); }
};
struct Half : Kind<DType::F16, uint16_t, float> {
    static float widen(uint16_t value) { return ir::half_to_float(value); }
    static uint16_t narrow(float sum) { return ir::float_to_half(sum); }
};
using F32 = Kind<DType::F32, float>;
using F64 = Kind<DType::F64, double>;
using I32 = Kind<DType::I32, int32_t, uint32_t>;
using U8 = Kind<DType::U8, uint8_t, unsigned>;

/// Sums of (outer, extent) from (outer, count), whose index is every `along`th of a longer one.
struct Case {
    int64_t outer, extent, count, along = 1;
};

enum class Order { Random, Sorted, Equal, Runs };

std::vector<int64_t> make_places(const Case &c, Order order, std::mt19937_64 &engine) {
    std::vector<int64_t> places(static_cast<size_t>(c.outer * c.count));
    const auto any = [&] { return static_cast<int64_t>(engine() % static_cast<uint64_t>(c.extent)); };
    const int64_t one = any();
    for (size_t i = 0; i < places.size(); ++i)
        places[i] = order == Order::Equal                         ? one
                    : order == Order::Runs && i > 0 && i % 57 > 0 ? places[i - 1]
                                                                  : any();
    if (order == Order::Sorted)
        std::ranges::sort(places);
    return places;
}

template <class K>
class LibraryScatter : public testing::Test {
protected:
    void TearDown() override {
        set_num_threads(3);
        allow_avx512(true);
    }

    template <class Index>
    void check(const Case &c, bool add, const std::vector<int64_t> &places, const std::string &what) {
        using T = typename K::Storage;
        const auto of_x = static_cast<size_t>(c.outer * c.extent);
        std::vector<T> x(of_x), source(places.size());
        for (auto *v : {&x, &source})
            for (T &value : *v) // floats of many sizes, whose sums depend on their order
                value = K::narrow(static_cast<typename K::Sum>(
                    std::ldexp(static_cast<double>(engine_() % 255), static_cast<int>(engine_() % 9) - 4)));
        std::vector<typename K::Sum> sums(of_x);
        std::ranges::transform(x, sums.begin(), K::widen);
        for (size_t i = 0; i < places.size(); ++i) {
            const auto o = static_cast<int64_t>(i) / c.count;
            if (places[i] < 0 || places[i] >= c.extent)
                continue;
            auto &sum = sums[static_cast<size_t>(o * c.extent + places[i])];
            sum = add ? sum + K::widen(source[i]) : K::widen(source[i]);
        }
        std::vector<T> expected(of_x);
        std::ranges::transform(sums, expected.begin(), K::narrow);

        std::vector<Index> index(places.size() * static_cast<size_t>(c.along), Index{99});
        for (size_t i = 0; i < places.size(); ++i)
            index[i * static_cast<size_t>(c.along)] = static_cast<Index>(places[i]);
        const std::vector<int64_t> ints = {static_cast<int64_t>(K::kDType),
                                           static_cast<int64_t>(sizeof(Index) == 8   ? DType::I64
                                                                : sizeof(Index) == 4 ? DType::I32
                                                                                     : DType::I16),
                                           1,
                                           add,
                                           7,
                                           c.count * c.along,
                                           c.along,
                                           1,
                                           2,
                                           c.outer,
                                           c.extent,
                                           c.outer,
                                           c.count};
        for (const int threads : {1, 2, 5})
            for (const bool avx512 : {false, true}) {
                set_num_threads(threads);
                allow_avx512(avx512);
                ir::DeviceInfo device;
                device.cpu().threads = threads;
                std::vector<std::byte> scratch(
                    static_cast<size_t>(cpu_library().find("scatter")->scratch_bytes(ints, device)) + 64);
                const auto off = reinterpret_cast<uintptr_t>(scratch.data()) % 64;
                std::vector<T> out(of_x + 2, T{55}); // with a guard on each side
                std::vector<void *> buffers = {x.data(), index.data(), source.data(), out.data() + 1};
                ir::Fault fault;
                find_cpu_function("scatter")(
                    {buffers, ints, &fault, {scratch.data() + (64 - off) % 64, scratch.size() - 64}});
                const std::string how = what + ", " + std::to_string(threads) + " threads, " +
                                        (avx512 ? "" : "no ") + "AVX-512, extent " +
                                        std::to_string(c.extent) + ", count " + std::to_string(c.count);
                ASSERT_EQ(std::memcmp(out.data() + 1, expected.data(), of_x * sizeof(T)), 0) << how;
                ASSERT_TRUE(out.front() == T{55} && out.back() == T{55}) << how;
                const auto outside = std::ranges::find_if(
                    places, [&](int64_t place) { return place < 0 || place >= c.extent; });
                const bool none = outside == places.end();
                ASSERT_EQ(static_cast<ir::FaultCode>(fault.code.load()),
                          none ? ir::FaultCode::None : ir::FaultCode::IndexOutOfRange)
                    << how;
                if (!none && c.outer == 1) {
                    ASSERT_EQ(fault.value, *outside) << how; // the first
                    ASSERT_EQ(fault.limit, c.extent) << how;
                    ASSERT_EQ(fault.source, 7u) << how;
                }
            }
    }

    void check_all(const Case &c, const std::vector<int64_t> &places, const std::string &what) {
        for (const bool add : {true, false}) {
            const std::string how = (add ? "sums, " : "the last, ") + what;
            check<int64_t>(c, add, places, how + ", i64");
            check<int32_t>(c, add, places, how + ", i32");
            if (c.extent < 30000)
                check<int16_t>(c, add, places, how + ", i16");
        }
    }

    std::mt19937_64 engine_{17};
};

using Kinds = testing::Types<F32, F64, I32, U8, Half>;
TYPED_TEST_SUITE(LibraryScatter, Kinds);

TYPED_TEST(LibraryScatter, ServesSingleElementsInOrder) {
    for (const Case &c : {Case{1, 1, 1},
                          {1, 1, 600},
                          {1, 3, 0},
                          {2, 3, 7},
                          {1, 10, 31, 3},
                          {1, 10, 513},
                          {3, 1000, 1025},
                          {1, 1000, 9001, 2},
                          {1, 70, 20000}})
        for (const auto &[order, name] : {std::pair{Order::Random, "random"},
                                          {Order::Sorted, "sorted"},
                                          {Order::Equal, "equal"},
                                          {Order::Runs, "runs"}}) {
            this->check_all(c, make_places(c, order, this->engine_), name);
            if (this->HasFatalFailure())
                return;
        }
}

TYPED_TEST(LibraryScatter, ThreadsShareFarPlaces) {
    const Case c{1, 600001, 20011}; // more bytes than kFar
    for (const auto &[order, name] :
         {std::pair{Order::Random, "random"}, {Order::Equal, "equal"}, {Order::Runs, "runs"}})
        this->check_all(c, make_places(c, order, this->engine_), name);
}

TYPED_TEST(LibraryScatter, LeavesOutWhatIsOutside) {
    for (const Case &c : {Case{1, 1, 40}, {1, 100, 2000}, {2, 5, 700}, {1, 600001, 9000}})
        for (const Order order : {Order::Random, Order::Equal, Order::Runs})
            for (const int64_t bad : {int64_t{-1}, int64_t{-30000}, c.extent, c.extent + 7}) {
                if (bad > 32767 && c.extent < 30000)
                    continue;
                std::vector<int64_t> places = make_places(c, order, this->engine_);
                for (const size_t at : {places.size() / 3, places.size() / 3 + 1, places.size() - 1})
                    places[at] = at % 2 ? bad : -2;
                this->check_all(c, places, "with " + std::to_string(bad));
                if (this->HasFatalFailure())
                    return;
            }
}

} // namespace
} // namespace lz::runtime
