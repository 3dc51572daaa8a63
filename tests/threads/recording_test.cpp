// Recording and syncing from several threads: S28.
#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace {

using lz::Tensor;

void on_threads(int count, const auto &f) {
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t)
        threads.emplace_back([&f, t] { f(t); });
    for (std::thread &thread : threads)
        thread.join();
}

TEST(Semantics, S28_every_thread_may_record_and_sync) {
    on_threads(4, [](int t) {
        Tensor x = lz::full({64}, 1.0 * t);
        for (int i = 0; i < 50; ++i) {
            x = x + 1;
            if (i % 10 == 0) {
                EXPECT_EQ(x.to_vector<float>()[63], static_cast<float>(t + i + 1));
            }
        }
        EXPECT_EQ(x.to_vector<float>()[0], static_cast<float>(t + 50));
    });
}

TEST(Semantics, S28_pending_tensors_cross_threads_and_outlive_them) {
    std::vector<Tensor> made(4);
    on_threads(4, [&](int t) { made[static_cast<size_t>(t)] = lz::full({8}, 1.0 * t) * 10; });
    const Tensor sum = made[0] + made[1] + made[2] + made[3];
    EXPECT_EQ(sum.to_vector<float>()[0], 60.0f);
    made.clear();
}

TEST(Semantics, S28_threads_that_sync_one_pending_value_all_get_it) {
    for (int round = 0; round < 20; ++round) {
        const Tensor shared = lz::full({256}, 1.0 * round) * 2;
        on_threads(4, [&](int t) {
            const Tensor mine = shared + t;
            EXPECT_EQ(mine.to_vector<float>()[255], static_cast<float>(round * 2 + t));
            EXPECT_EQ(shared.to_vector<float>()[1], static_cast<float>(round * 2));
        });
    }
}

TEST(Semantics, S28_handles_may_be_dropped_on_other_threads) {
    for (int round = 0; round < 20; ++round) {
        std::vector<Tensor> pending;
        for (int i = 0; i < 40; ++i)
            pending.push_back(lz::full({4}, 1.0 * i) + round);
        on_threads(4, [&](int t) {
            for (size_t i = static_cast<size_t>(t); i < pending.size(); i += 4) {
                if (i % 3 == 0) {
                    EXPECT_EQ(pending[i].to_vector<float>()[0],
                              static_cast<float>(i) + static_cast<float>(round));
                }
                pending[i] = Tensor();
            }
        });
        lz::sync();
    }
}

// The last handle of a pending tensor goes on one thread while the thread that recorded it syncs.
TEST(Semantics, S28_a_pending_handle_may_be_dropped_while_its_thread_syncs) {
    for (int round = 0; round < 30; ++round) {
        const Tensor a = lz::full({4}, 1.0 * round);
        std::vector<Tensor> given;
        Tensor kept = a;
        for (int i = 0; i < 60; ++i) {
            kept = kept + 1;
            given.push_back(kept * 2 + i);
        }
        std::thread dropper([&] {
            for (Tensor &t : given)
                t = Tensor();
        });
        lz::sync();
        dropper.join();
        EXPECT_EQ(kept.to_vector<float>()[3], static_cast<float>(round + 60));
    }
}

} // namespace
