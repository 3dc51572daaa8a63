// Operations with several results (sort, topk, call), of which a program asks for one and then for another
// (S21, S24, S28): they are computed together, once, whoever asks first.
#include "support.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <numeric>
#include <sstream>
#include <thread>

namespace lz::test {
namespace {

/// x + 1 of {4, -3, 1}, sorted.
const std::vector<float> kSorted = {-2, 2, 5};
const std::vector<int64_t> kPlacesOfSorted = {1, 2, 0};

Tensor three(const Device &device) {
    return tensor({4.f, -3.f, 1.f}).to(device).eval();
}

/// The ways in which a program comes to a value.
struct Ask {
    const char *name;
    std::function<void(const Tensor &)> of;
};
const std::vector<Ask> kAsks = {
    {"eval", [](const Tensor &t) { t.eval(); }},
    {"lz::eval", [](const Tensor &t) { lz::eval({t}); }},
    {"print", [](const Tensor &t) { std::ostringstream() << t; }},
    {"item", [](const Tensor &t) { (void)t.slice(0, 0, 1).item<double>(); }},
    {"to_vector", [](const Tensor &t) { (void)t.to(f64).to_vector<double>(); }},
    {"sync", [](const Tensor &) { lz::sync(); }},
    {"mutable_data",
     [](const Tensor &t) {
         Tensor handle = t;
         (void)handle.mutable_data<void>();
     }},
};

/// Both ways round, each way of asking, with the operand held or not.
TEST(SeveralResults, evaluating_one_result_and_then_the_other_returns) {
    for (const Device &device : places())
        for (const Ask &first : kAsks)
            for (const Ask &second : kAsks)
                for (const bool values_first : {true, false})
                    for (const bool held : {true, false}) {
                        SCOPED_TRACE(device.str() + ": " + first.name + ", then " + second.name);
                        Tensor x = three(device), kept;
                        Tensor operand = x + 1;
                        if (held)
                            kept = operand;
                        auto [v, i] = sort(std::move(operand));
                        first.of(values_first ? v : i);
                        second.of(values_first ? i : v);
                        EXPECT_EQ(floats(v), kSorted);
                        EXPECT_EQ(i.to_vector<int64_t>(), kPlacesOfSorted);
                    }
}

/// The operand is a value that is there, and nobody has it any more: its memory may be written over, and the
/// other result must not be computed from that.
TEST(SeveralResults, the_other_result_is_right_though_the_operand_is_gone) {
    for (const Device &device : places()) {
        Tensor x = three(device);
        auto [v, i] = sort(std::move(x));
        v.eval();
        Tensor filled = full({3}, 9.f, {.device = device}).eval();
        EXPECT_EQ(i.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 0}));
        EXPECT_EQ(floats(v), (std::vector<float>{-3, 1, 4}));
    }
}

TEST(SeveralResults, one_result_goes_on_in_a_program_before_the_other_is_read) {
    for (const Device &device : places()) {
        Tensor x = three(device);
        auto [v, i] = sort(x + 1);
        v.eval();
        Tensor y = v * 10;
        EXPECT_EQ(floats(y + i), (std::vector<float>{-19, 22, 50}));
        auto [best, where] = topk(x + 1, 2);
        where.eval();
        EXPECT_EQ(floats(best), (std::vector<float>{5, 2}));
        EXPECT_EQ(where.to_vector<int64_t>(), (std::vector<int64_t>{0, 2}));
    }
}

TEST(SeveralResults, a_result_that_is_changed_in_place_leaves_the_others_alone) {
    for (const Device &device : places()) {
        Tensor x = three(device);
        auto [v, i] = sort(x + 1);
        v.eval();
        v += 1;
        i -= 1;
        i.eval();
        v.eval();
        EXPECT_EQ(floats(v), (std::vector<float>{-1, 3, 6}));
        EXPECT_EQ(i.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, -1}));
    }
}

/// `several.parts` cuts a vector into as many results of one element.
std::atomic<int> parts_calls{0};
const bool registered = [] {
    register_call(
        "several.parts",
        [](std::span<const CallType> in) {
            return std::vector<CallType>(static_cast<size_t>(in[0].shape[0]), CallType{in[0].dtype, {1}});
        },
        [](std::span<const CallInput> in, std::span<const CallOutput> out) {
            ++parts_calls;
            for (size_t k = 0; k < out.size(); ++k)
                out[k].values<float>()[0] = in[0].values<float>()[k];
        });
    return true;
}();

/// 129 and 257 results: their numbers do not fit seven or eight bits of a key.
TEST(SeveralResults, a_call_of_many_results_gives_each_its_own) {
    ASSERT_TRUE(registered);
    for (const Device &device : places())
        for (const int64_t count : {2, 127, 128, 129, 255, 256, 257, 1000}) {
            const Tensor x = arange(count, {.dtype = f32}).to(device).eval();
            const std::vector<Tensor> all = call("several.parts", {x + 1});
            ASSERT_EQ(all.size(), static_cast<size_t>(count));
            all[static_cast<size_t>(count / 2)].eval();
            for (int64_t k = 0; k < count; ++k)
                EXPECT_EQ(all[static_cast<size_t>(k)].item<float>(), static_cast<float>(k + 1))
                    << "result " << k << " of " << count << " on " << device;
        }
}

/// The keys of two programs that differ only in which result they ask for are different.
TEST(SeveralResults, programs_that_ask_for_different_results_are_different) {
    const Tensor x = arange(300, {.dtype = f32}).eval();
    for (const size_t k : {1, 127, 128, 129, 255, 256, 257, 299}) {
        const Tensor one = call("several.parts", {x})[k];
        EXPECT_EQ(one.item<float>(), static_cast<float>(k));
    }
}

TEST(SeveralResults, a_call_computes_once_what_is_asked_for_one_after_the_other) {
    const Tensor x = arange(5, {.dtype = f32}).eval();
    const int before = parts_calls;
    const std::vector<Tensor> all = call("several.parts", {x + 1});
    for (size_t k = all.size(); k-- > 0;)
        EXPECT_EQ(all[k].item<float>(), static_cast<float>(k + 1));
    EXPECT_EQ(parts_calls, before + 1);
}

TEST(SeveralResults, more_results_than_an_operation_can_have_are_an_error_and_not_other_values) {
    const Tensor x = zeros({40000});
    EXPECT_THROW(call("several.parts", {x}), StateError);
}

/// S55: what the sort was computed from is given back, though one of its results lives on.
TEST(SeveralResults, a_result_that_lives_keeps_no_memory_of_the_operand) {
    lz::sync();
    const int64_t before = memory_allocated(kGpu0);
    const int64_t mib = int64_t{1} << 20;
    auto [v, i] = sort(rand({mib / 4}, {.device = kGpu0}).eval() + 1);
    i.eval();
    cuda::synchronize(kGpu0);
    EXPECT_LE(memory_allocated(kGpu0), before + 4 * mib) << "1 MiB of values, 2 MiB of places";
    i = Tensor();
    EXPECT_LE(memory_allocated(kGpu0), before + 2 * mib);
}

/// S28: results are asked for by several threads at once, and dropped by others than recorded them.
TEST(SeveralResults, threads_that_ask_for_different_results_at_once_are_all_right) {
    for (int round = 0; round < 200; ++round) {
        const Tensor x = arange(16, {.dtype = f32}).eval();
        std::vector<Tensor> all = call("several.parts", {x + 1});
        std::vector<std::thread> threads;
        std::atomic<int> wrong{0};
        for (size_t t = 0; t < 4; ++t)
            threads.emplace_back(
                [&, t,
                 mine = std::vector<Tensor>(all.begin() + static_cast<ptrdiff_t>(4 * t),
                                            all.begin() + static_cast<ptrdiff_t>(4 * t + 4))]() mutable {
                    for (size_t k = 0; k < 4; ++k) {
                        if ((k + t + static_cast<size_t>(round)) % 3 == 0)
                            mine[k] = Tensor(); // nobody asks for it, if `all` is gone
                        else
                            wrong += mine[k].item<float>() != static_cast<float>(4 * t + k + 1);
                    }
                });
        all.clear();
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(wrong, 0);
    }
}

/// S26: a version of a result is what the handle goes back to.
TEST(SeveralResults, a_handle_goes_back_to_a_result_when_its_newer_version_failed) {
    const Tensor x = tensor({4.f, -3.f, 1.f}).eval(), zero = tensor({0, 0, 0}).eval();
    auto [v, i] = sort(x + 1);
    v.eval();
    i += 1;
    i = i.floor_divide(1);
    Tensor places = argsort(x + 1);
    places += 1;
    places.floor_divide_(zero);
    EXPECT_THROW(places.eval(), Error);
    EXPECT_EQ(places.to_vector<int64_t>(), (std::vector<int64_t>{2, 3, 1}));
}

} // namespace
} // namespace lz::test
