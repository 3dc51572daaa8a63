// In-place forms take over memory that other threads and streams may still read: never before these are done.
#include "virtual_gpus.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace {

using namespace lz;

TEST(Semantics, S28_a_tensor_is_overwritten_while_other_threads_compute_from_its_old_value) {
    LZ_NEEDS_GPUS();
    for (const Device &place : {Device::cpu(), Device::cuda(0)})
        for (int round = 0; round < 25; ++round) {
            const auto number = static_cast<float>(round);
            Tensor x = lz::full({3000}, number, {.dtype = lz::f32, .device = place}).eval();
            std::vector<Tensor> readers;
            for (int t = 0; t < 3; ++t)
                readers.push_back(x.flip({0}) * 2 + t);
            std::vector<std::thread> threads;
            for (int t = 0; t < 3; ++t)
                threads.emplace_back([&, t] {
                    EXPECT_EQ(readers[static_cast<size_t>(t)].to_vector<float>(),
                              std::vector<float>(3000, number * 2 + static_cast<float>(t)));
                });
            for (int i = 0; i < 4; ++i) {
                x.fill_(-1 - i);
                x.eval();
            }
            for (std::thread &thread : threads)
                thread.join();
            EXPECT_EQ(x.to_vector<float>(), std::vector<float>(3000, -4.0F)) << place;
        }
}

TEST(Semantics, S42_a_tensor_is_overwritten_after_the_streams_that_read_it) {
    LZ_NEEDS_GPUS();
    const Device place = Device::cuda(1);
    const lz::Stream one(place), other(place);
    Tensor x = lz::zeros({5000}, {.device = place}).eval();
    std::vector<Tensor> seen;
    for (int round = 1; round <= 30; ++round) {
        {
            const lz::StreamGuard guard(one);
            seen.push_back(x.flip({0}).sum());
            seen.back().eval();
        }
        const lz::StreamGuard guard(other);
        if (round % 3 == 0)
            x.zero_();
        x.fill_(round);
        x.eval();
    }
    for (size_t i = 0; i < seen.size(); ++i)
        EXPECT_EQ(seen[i].item<double>(), 5000.0 * static_cast<double>(i));
}

} // namespace
