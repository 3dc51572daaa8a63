// `view`, `reshape` and `clone` of a value that is there share its memory, and nobody can tell but by the
// time and memory they take (S24, S33): a change in place of one side leaves the other as it was.
#include "support.h"

#include <functional>
#include <memory>
#include <numeric>
#include <thread>

namespace lz::test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kElements = 4 * kMiB; // 16 MiB of f32

const std::vector<std::pair<const char *, std::function<Tensor(const Tensor &)>>> kShares = {
    {"view", [](const Tensor &x) { return x.view({4, -1}); }},
    {"reshape", [](const Tensor &x) { return x.reshape({-1, 2}); }},
    {"flatten", [](const Tensor &x) { return x.view({2, -1}).flatten(); }},
    {"unsqueeze", [](const Tensor &x) { return x.unsqueeze(0); }},
    {"clone", [](const Tensor &x) { return x.clone(); }},
    {"clone of a view", [](const Tensor &x) { return x.view({8, -1}).clone(); }},
};

std::vector<float> count_up(int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    std::iota(values.begin(), values.end(), 0.f);
    return values;
}

void settle() {
    lz::sync();
    for (const Device &place : places())
        cuda::synchronize(place);
}

TEST(SharedStorage, a_view_or_clone_of_a_value_that_is_there_takes_no_memory) {
    for (const Device &place : places())
        for (const auto &[name, share] : kShares) {
            const Tensor x = rand({kElements}, {.device = place}).eval();
            settle();
            const int64_t before = memory_allocated(place);
            reset_peak_memory_stats(place);
            const Tensor y = share(x);
            y.eval();
            settle();
            EXPECT_EQ(memory_allocated(place), before) << name << " on " << place;
            EXPECT_EQ(max_memory_allocated(place), before) << name << " on " << place;
            EXPECT_TRUE(y.flatten().equal(x)) << name << " on " << place;
        }
}

/// Forms that write, with what they make of 0, 1, 2, ...
struct Write {
    const char *name;
    std::function<void(Tensor &)> apply;
};
const std::vector<Write> kWrites = {
    {"add_", [](Tensor &t) { t += 1; }},
    {"zero_", [](Tensor &t) { t.zero_(); }},
    {"fill_", [](Tensor &t) { t.fill_(3); }},
    {"copy_", [](Tensor &t) { t.copy_(t * 2 + 5); }},
    {"a part", [](Tensor &t) { t.at({0}) = -1; }},
    {"a part's +=", [](Tensor &t) { t.at({0}) += 4; }},
    {"normal_", [](Tensor &t) { t.normal_(); }},
    {"mutable_data",
     [](Tensor &t) {
         if (t.device().is_cpu())
             *t.mutable_data<float>() = 77;
         else
             (void)t.mutable_data<float>();
     }},
};

TEST(SharedStorage, a_change_in_place_of_one_side_leaves_the_other_as_it_was) {
    const std::vector<float> values = count_up(64);
    for (const Device &place : places())
        for (const auto &[name, share] : kShares)
            for (const Write &write : kWrites)
                for (const bool evaluated : {true, false})
                    for (const bool of_the_view : {true, false}) {
                        SCOPED_TRACE(std::string(name) + ", " + write.name + " on " + place.str());
                        Tensor x = tensor(values).to(place).eval();
                        Tensor y = share(x);
                        if (evaluated)
                            y.eval();
                        write.apply(of_the_view ? y : x);
                        lz::sync();
                        EXPECT_EQ(floats((of_the_view ? x : y).flatten()), values);
                        write.apply(of_the_view ? y : x); // alone by now
                        EXPECT_EQ(floats((of_the_view ? x : y).flatten()), values);
                    }
}

/// Once the other side is gone the change is in place again.
TEST(SharedStorage, a_side_that_is_left_alone_is_changed_in_its_memory) {
    for (const Device &place : places()) {
        Tensor x = rand({kElements}, {.device = place}).eval();
        Tensor y = x.view({2, -1}).eval();
        x = Tensor();
        settle();
        const int64_t before = memory_allocated(place);
        reset_peak_memory_stats(place);
        y += 1;
        y.eval();
        settle();
        EXPECT_EQ(memory_allocated(place), before) << place;
        EXPECT_LE(max_memory_allocated(place) - before, 64 * 1024) << place;
    }
}

/// The user's memory: a clone is a copy of it as it is, a view is not written by the engine.
TEST(SharedStorage, a_clone_of_adopted_memory_does_not_see_what_the_user_writes_there_later) {
    std::vector<float> mine = count_up(32);
    {
        int deleted = 0;
        Tensor x = from_blob(mine.data(), {32}, [&](void *) { ++deleted; });
        const Tensor clone = x.clone().eval();
        Tensor view = x.view({4, 8}).eval(), clone_of_view = view.clone().eval();
        view += 1;
        view.eval();
        EXPECT_EQ(mine, count_up(32)) << "the engine wrote to it";
        mine[0] = 99;
        EXPECT_EQ(clone.to_vector<float>(), count_up(32));
        EXPECT_EQ(clone_of_view.flatten().to_vector<float>(), count_up(32));
        x = Tensor();
        view = Tensor();
        EXPECT_EQ(deleted, 1);
    }
}

TEST(SharedStorage, a_clone_of_memory_that_the_user_writes_to_is_a_copy) {
    for (const bool before : {true, false}) {
        Tensor x = tensor(count_up(8)).eval();
        Tensor early;
        if (before)
            early = x.clone().eval();
        float *const at = x.mutable_data<float>();
        at[0] = 5;
        const Tensor late = x.clone().eval();
        at[1] = 6;
        if (before) {
            EXPECT_EQ(early.to_vector<float>(), count_up(8));
        }
        EXPECT_EQ(late.to_vector<float>(), (std::vector<float>{5, 1, 2, 3, 4, 5, 6, 7}));
        EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{5, 6, 2, 3, 4, 5, 6, 7}));
    }
}

TEST(SharedStorage, pinned_and_pageable_memory_stay_what_they_are) {
    const Tensor pageable = tensor(count_up(8)).eval();
    const Tensor pinned = pageable.pin_memory().eval();
    EXPECT_TRUE(pinned.is_pinned());
    EXPECT_FALSE(pageable.is_pinned());
    EXPECT_EQ(floats(pinned.view({2, 4}).flatten()), count_up(8));
    const Tensor clone = pinned.clone().eval();
    EXPECT_EQ(clone.is_pinned(), clone.clone().eval().is_pinned());
}

/// S45: the memory is used through one side and freed through the other.
TEST(SharedStorage, work_on_a_stream_keeps_the_memory_whichever_side_it_uses) {
    Stream s(kGpu0);
    for (int round = 0; round < 50; ++round) {
        Tensor x = full({kMiB}, round, {.device = kGpu0}).eval();
        Tensor y = x.view({2, -1}).eval(), sum;
        {
            StreamGuard guard(s);
            sum = y.sum();
            sum.eval();
        }
        y = Tensor();
        x = Tensor();
        const Tensor other = full({kMiB}, -1, {.device = kGpu0}).eval(); // may get the memory
        EXPECT_EQ(sum.item<float>(), static_cast<float>(round) * static_cast<float>(kMiB));
    }
}

/// S28: one thread clones while another changes its own handle of the same value.
TEST(SharedStorage, threads_that_share_and_change_a_value_at_once_are_both_right) {
    for (int round = 0; round < 100; ++round) {
        const Tensor x = tensor(count_up(64)).eval();
        std::vector<std::thread> threads;
        std::atomic<int> wrong{0};
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                Tensor mine = x.clone();
                if (t % 2)
                    mine.eval();
                mine += t;
                std::vector<float> expected = count_up(64);
                for (float &value : expected)
                    value += static_cast<float>(t);
                wrong += mine.to_vector<float>() != expected;
            });
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(wrong, 0);
        EXPECT_EQ(x.to_vector<float>(), count_up(64));
    }
}

/// S26: the value that is shared may still turn out to have failed.
TEST(SharedStorage, a_view_of_a_value_that_fails_on_a_gpu_fails_with_it) {
    const Tensor x = arange(8, {.dtype = f32, .device = kGpu0}).eval();
    const Tensor bad = x.index_select(0, tensor({1, 99}).to(kGpu0));
    Tensor view;
    EXPECT_THROW(
        {
            bad.eval();
            view = bad.view({2, 1});
            view.eval();
            lz::sync();
        },
        IndexError);
    view = bad.view({2, 1});
    EXPECT_THROW((void)view.to_vector<float>(), IndexError);
}

} // namespace
} // namespace lz::test
