// What a failure that only running reveals leaves behind (S26), on one thread and on several (S28).
#include "support.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

using lz::Device;
using lz::Tensor;

class S26 : public testing::TestWithParam<const char *> {
protected:
    Device device() const { return GetParam(); }
    /// A number that does not exist: an element past the end.
    Tensor missing(const Tensor &of) const {
        return lz::index_select(of, 0, lz::tensor({99}).to(device())).sum();
    }
};

TEST_P(S26, a_handle_keeps_the_updates_before_the_one_that_failed) {
    Tensor w = lz::ones({4}, {.device = device()});
    w.eval();
    w += 1;
    w *= 3;
    w += missing(w);
    w *= 5;
    EXPECT_THROW(lz::sync(), lz::IndexError);
    EXPECT_EQ(w.to_vector<float>(), std::vector<float>(4, 6.0f));
    w += 1;
    EXPECT_EQ(w.to_vector<float>(), std::vector<float>(4, 7.0f));
}

TEST_P(S26, a_handle_goes_back_to_a_version_that_was_never_stored) {
    Tensor copied = lz::zeros({4}, {.device = device()}), added = lz::ones({4}, {.device = device()});
    copied.copy_(lz::ones({4}, {.device = device()}) * 7);
    added += 1;
    copied += missing(copied);
    added += missing(added);
    EXPECT_THROW(lz::sync(), lz::IndexError);
    EXPECT_EQ(copied.to_vector<float>(), std::vector<float>(4, 7.0f));
    EXPECT_EQ(added.to_vector<float>(), std::vector<float>(4, 2.0f));
}

TEST_P(S26, a_version_that_nothing_reads_is_one_to_go_back_to) {
    Tensor w = lz::ones({2}, {.device = device()});
    const Tensor lost = missing(w);
    w += 1;
    w.copy_(lost.expand({2}));
    EXPECT_THROW(lz::sync(), lz::IndexError);
    EXPECT_EQ(w.to_vector<float>(), std::vector<float>(2, 2.0f));
}

TEST_P(S26, a_copy_of_a_value_that_fails_leaves_that_value_failed) {
    const Tensor lost = missing(lz::ones({2}, {.device = device()})).expand({2}) + 1;
    Tensor w = lz::ones({2}, {.device = device()});
    w.copy_(lost);
    EXPECT_THROW(lz::sync(), lz::IndexError);
    EXPECT_EQ(w.to_vector<float>(), std::vector<float>(2, 1.0f));
    EXPECT_THROW(lost.to_vector<float>(), lz::IndexError);
}

TEST_P(S26, a_failure_that_nobody_was_told_of_does_not_show_in_later_updates) {
    for (const int updates : {10, 5000}) { // of the second part, much is launched on its own (S22)
        Tensor w = lz::ones({2}, {.device = device()});
        w += 1;
        w += missing(w);
        for (int i = 0; i < updates; ++i) {
            w += 1;
            if (i == 5)
                std::thread([] { lz::ones({1}).item<float>(); }).join(); // another thread looks at what ended
        }
        EXPECT_THROW(lz::sync(), lz::IndexError);
        EXPECT_EQ(w.to_vector<float>(), std::vector<float>(2, 2.0f));
        w += 1;
        EXPECT_EQ(w.to_vector<float>(), std::vector<float>(2, 3.0f));
    }
}

TEST_P(S26, thousands_of_updates_after_the_one_that_failed_are_taken_back) {
    Tensor w = lz::ones({2}, {.device = device()});
    w += 1;
    w += missing(w);
    for (int i = 0; i < 3500; ++i)
        w += 1;
    EXPECT_THROW(lz::sync(), lz::IndexError);
    EXPECT_EQ(w.to_vector<float>(), std::vector<float>(2, 2.0f));
}

TEST_P(S26, random_numbers_are_the_same_when_a_version_is_computed_again) {
    lz::manual_seed(3);
    Tensor w = lz::randn({5}, {.device = device()});
    w += missing(w);
    EXPECT_THROW(lz::sync(), lz::IndexError);
    lz::manual_seed(3);
    EXPECT_EQ(w.to_vector<float>(), lz::randn({5}, {.device = device()}).to_vector<float>());
}

TEST_P(S26, several_failures_go_back_past_all_that_failed) {
    Tensor w = lz::ones({4}, {.device = device()});
    w.eval();
    w += 1; // the newest that needs nothing that fails
    w += missing(w);
    w += 1;
    w += missing(lz::ones({2}, {.device = device()}));
    try {
        lz::sync();
        ADD_FAILURE() << "no error";
    } catch (const lz::IndexError &) {
    }
    std::vector<float> got;
    for (int reads = 0; got.empty() && reads < 3; ++reads)
        try {
            got = w.to_vector<float>();
        } catch (const lz::IndexError &) { // a second failure may show when a version is computed again
        }
    EXPECT_EQ(got, std::vector<float>(4, 2.0f));
}

/// Threads that fail again and again, each reading its own lost value: nobody reads a number, and nobody is
/// told of the others' failures.
TEST_P(S26, S28_a_lost_value_is_never_read_and_failures_stay_with_their_thread) {
    std::atomic<int> numbers{0}, told{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            const Tensor x = lz::full({4}, 7.0, {.device = device()});
            for (int i = 0; i < 150; ++i) {
                const Tensor fine = x + t;
                try {
                    if (t == 0) {
                        if (fine.to_vector<float>()[3] != 7.0f)
                            ++told;
                        lz::sync();
                    } else {
                        (void)missing(x).item<float>();
                        ++numbers;
                    }
                } catch (const lz::IndexError &) {
                    told += t == 0;
                }
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(numbers, 0);
    EXPECT_EQ(told, 0);
}

INSTANTIATE_TEST_SUITE_P(Semantics, S26, testing::Values("cpu", "cuda:0"),
                         [](const auto &info) { return info.index == 0 ? "Cpu" : "Gpu"; });

TEST(Semantics, S28_what_a_thread_told_a_stream_is_done_although_the_thread_ended) {
    const Device gpu("cuda:0");
    std::atomic<bool> ran{false};
    lz::Stream stream(gpu);
    lz::Event event({.timing = true});
    std::thread([&] {
        stream.add_callback([&] { ran = true; });
        event.record(stream);
    }).join();
    event.synchronize();
    EXPECT_TRUE(ran);
    EXPECT_TRUE(event.query());
    EXPECT_EQ(event.elapsed_time(event), 0.0);
}

TEST(Semantics, S28_an_event_of_a_thread_that_ended_is_reached_although_another_operation_was_rejected) {
    LZ_NEEDS_GPUS(2);
    const Device gpu("cuda:0");
    const lz::Stream stream(gpu);
    lz::Event event;
    const Tensor a = lz::ones({3}, {.device = gpu}), b = lz::ones({3}, {.device = "cuda:1"});
    Tensor wrong;
    std::thread([&] {
        wrong = a + b;
        event.record(stream);
    }).join();
    event.synchronize();
    EXPECT_TRUE(event.query());
    EXPECT_THROW(wrong.to_vector<float>(), lz::DeviceError);
}

TEST(Semantics, S28_a_thread_does_not_inherit_what_another_left_pending) {
    Tensor left;
    std::thread([&] { left = lz::ones({2}) + lz::ones({2}, {.device = "cuda:0"}); }).join();
    std::thread([] {
        EXPECT_EQ((lz::ones({2}) + 1).to_vector<float>(), std::vector<float>(2, 2.0f));
    }).join();
    EXPECT_THROW(left.to_vector<float>(), lz::DeviceError);
}

} // namespace
