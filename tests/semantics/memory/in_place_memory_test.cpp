// In-place forms work in the memory that they overwrite, when nothing else needs the old value.
#include "support.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kElements = 4 * kMiB; // 16 MiB of f32

struct Form {
    std::string name;
    std::function<void(Tensor &)> apply;
};
const std::vector<Form> kForms = {
    {"zero_", [](Tensor &x) { x.zero_(); }},
    {"fill_ with a number", [](Tensor &x) { x.fill_(3); }},
    {"fill_ with a tensor", [](Tensor &x) { x.fill_(lz::tensor(2.5).to(x.device())); }},
    {"normal_", [](Tensor &x) { x.normal_(); }},
    {"normal_ with mean and deviation", [](Tensor &x) { x.normal_(1, 2); }},
    {"uniform_", [](Tensor &x) { x.uniform_(); }},
    {"bernoulli_", [](Tensor &x) { x.bernoulli_(0.5); }},
    {"copy_ of an expression", [](Tensor &x) { x.copy_(lz::arange(x.numel(), {.device = x.device()}) * 2); }},
    {"copy_ of a row", [](Tensor &x) { x.copy_(lz::tensor({1.5}).to(x.device())); }},
    {"assignment to all", [](Tensor &x) { x.at({lz::Ellipsis}) = 7; }},
    {"assignment to all by a slice", [](Tensor &x) { x.at({lz::Slice()}) = 7; }},
    {"fill_ of all", [](Tensor &x) { x.at({lz::Ellipsis}).fill_(8); }},
    {"zero_ and then add_",
     [](Tensor &x) {
         x.zero_();
         x += 2;
     }},
    {"add_, as ever", [](Tensor &x) { x += 1; }},
};

/// What the form makes of a tensor that holds `before`, told by a tensor with memory to spare.
std::vector<float> plainly(const Form &form, const std::vector<float> &before, const Device &place) {
    lz::manual_seed(11);
    Tensor x = lz::from_blob(before.data(), {static_cast<int64_t>(before.size())}, {.device = place});
    const Tensor also = x * 1; // needs the old value
    form.apply(x);
    return floats(x);
}

void settle() {
    lz::sync();
    for (const Device &place : places())
        lz::cuda::synchronize(place);
}

TEST(Semantics, S24_an_overwriting_form_needs_no_second_buffer) {
    for (const Device &place : places())
        for (const Form &form : kForms) {
            Tensor x = lz::randn({kElements}, {.device = place}).eval();
            settle();
            const int64_t before = lz::memory_allocated(place);
            lz::reset_peak_memory_stats(place);
            for (int i = 0; i < 4; ++i) {
                form.apply(x);
                x.eval();
            }
            settle();
            EXPECT_LE(lz::max_memory_allocated(place) - before, 64 * 1024) << form.name << " on " << place;
            EXPECT_EQ(lz::memory_allocated(place), before) << form.name << " on " << place;
        }
}

TEST(Semantics, S24_a_tensor_of_most_of_the_memory_can_be_overwritten) {
    LZ_NEEDS_GPUS(4);
    settle();
    lz::empty_cache(kGpu3);
    Tensor x = lz::ones({160 * kMiB / 4}, {.device = kGpu3}).eval(); // of 256 MiB
    for (const Form &form : kForms) {
        form.apply(x);
        EXPECT_NO_THROW(lz::sync()) << form.name;
    }
    for (const Device &from : {Device::cpu(), kGpu1}) { // the second one is staged
        const Tensor source = lz::full({x.numel()}, 3, {.dtype = lz::f32, .device = from}).eval();
        x.copy_(source);
        EXPECT_NO_THROW(lz::sync()) << from;
        EXPECT_EQ(x.min().item<double>(), 3) << from;
    }
    x.fill_(0.5);
    EXPECT_EQ(x.sum().item<double>(), 0.5 * 160 * kMiB / 4);
}

TEST(Child, DISABLED_OverwritesMostOfTheMemory) {
    Tensor x = lz::ones({160 * kMiB / 4}, {.device = kGpu3}); // of 256 MiB
    const auto holds = [&](double expected) { EXPECT_EQ(x.sum().item<double>(), expected * 160 * kMiB / 4); };
    x.zero_();
    holds(0);
    x.fill_(3);
    holds(3);
    x.fill_(lz::tensor(0.5, {.device = kGpu3}));
    holds(0.5);
    x.copy_(lz::tensor({1.5}));
    holds(1.5);
    x.copy_(lz::full({x.numel()}, 2, {.dtype = lz::f32}));
    holds(2);
    x.uniform_();
    x.normal_();
    x.normal_(1, 0);
    holds(1);
    x.bernoulli_(1.0);
    holds(1);
    // Alone and to its end, as ever.
    x.zero_();
    EXPECT_TRUE(lz::default_stream(kGpu3).query());
    // What cannot be stored is thrown at its line, and leaves the value.
    uint32_t line = 0;
    const Caught error = caught<lz::IndexError>([&] {
        const Tensor table = lz::ones({3}, {.device = kGpu3});
        line = __LINE__ + 1;
        x.copy_(lz::index_select(table, 0, lz::tensor({7}, {.device = kGpu3})));
    });
    EXPECT_EQ(error.line, line);
    holds(0);
}
TEST(Semantics, S25_an_overwriting_form_needs_no_second_buffer_under_launch_blocking) {
    LZ_NEEDS_GPUS(4);
    run_child("LAZULI_LAUNCH_BLOCKING=1", "OverwritesMostOfTheMemory");
}

TEST(Semantics, S24_overwriting_forms_give_what_they_give_with_memory_to_spare) {
    for (const Device &place : places())
        for (const Form &form : kForms) {
            std::vector<float> before(1000);
            for (size_t i = 0; i < before.size(); ++i)
                before[i] = static_cast<float>(i) - 300;
            const std::vector<float> expected = plainly(form, before, place);
            lz::manual_seed(11);
            Tensor x =
                lz::from_blob(before.data(), {static_cast<int64_t>(before.size())}, {.device = place}).eval();
            form.apply(x);
            EXPECT_EQ(floats(x), expected) << form.name << " on " << place;
        }
}

TEST(Semantics, S24_who_needs_the_old_value_of_an_overwritten_tensor_has_it) {
    for (const Device &place : places()) {
        const std::vector<float> old = {1, 2, 3, 4, 5, 6};
        const auto stored = [&] { return lz::from_blob(old.data(), {6}, {.device = place}).eval(); };
        {
            Tensor x = stored();
            const Tensor half = x.slice(0, 0, 3), later = x * 10;
            x.zero_();
            x.eval(); // the two are pending still
            EXPECT_EQ(floats(x), std::vector<float>(6, 0.0F)) << place;
            EXPECT_EQ(floats(half), (std::vector<float>{1, 2, 3})) << place;
            EXPECT_EQ(floats(later), (std::vector<float>{10, 20, 30, 40, 50, 60})) << place;
        }
        {
            Tensor x = stored();
            Tensor shares = lz::zeros({6}, {.device = place});
            shares.copy_(x);
            shares.eval();
            shares.fill_(9);
            EXPECT_EQ(floats(shares), std::vector<float>(6, 9.0F)) << place;
            EXPECT_EQ(floats(x), old) << place;
            x.zero_();
            const Tensor both = x + shares;
            EXPECT_EQ(floats(both), std::vector<float>(6, 9.0F)) << place;
        }
        {
            Tensor x = stored();
            const Tensor flipped = x.flip({0}), sum = x.sum();
            x.fill_(2);
            const Tensor fresh = x + 1;
            x.normal_();
            lz::sync();
            EXPECT_EQ(floats(flipped), (std::vector<float>{6, 5, 4, 3, 2, 1})) << place;
            EXPECT_EQ(sum.item<double>(), 21) << place;
            EXPECT_EQ(floats(fresh), std::vector<float>(6, 3.0F)) << place;
        }
        {
            std::vector<float> own = old; // adopted memory is never written
            Tensor x = lz::from_blob(own.data(), {6}, [](void *) {});
            x.zero_();
            lz::sync();
            EXPECT_EQ(own, old);
            EXPECT_EQ(floats(x), std::vector<float>(6, 0.0F));
        }
    }
}

/// A tensor and what it should hold; handles of one tensor share the numbers.
struct Told {
    Tensor tensor;
    std::shared_ptr<std::vector<float>> numbers;
};

TEST(Semantics, S24_random_in_place_forms_do_to_tensors_what_they_do_to_arrays) {
    constexpr size_t kLength = 64;
    for (const Device &place : places())
        for (uint32_t seed = 0; seed < 12; ++seed) {
            std::mt19937 random(seed);
            const auto below = [&](size_t n) { return random() % n; };
            std::vector<Told> all;
            const auto made = [&](const Tensor &tensor, std::vector<float> numbers) {
                return Told{tensor, std::make_shared<std::vector<float>>(std::move(numbers))};
            };
            for (int i = 0; i < 4; ++i)
                all.push_back(made(lz::full({kLength}, i, {.dtype = lz::f32, .device = place}),
                                   std::vector<float>(kLength, static_cast<float>(i))));
            for (int step = 0; step < 250; ++step) {
                Told &a = all[below(all.size())];
                const Told &b = all[below(all.size())];
                std::vector<float> &x = *a.numbers;
                const std::vector<float> y = *b.numbers;
                const auto number = static_cast<float>(below(9));
                switch (below(12)) {
                case 0:
                    a.tensor.zero_();
                    x.assign(kLength, 0);
                    break;
                case 1:
                    a.tensor.fill_(number);
                    x.assign(kLength, number);
                    break;
                case 2:
                    a.tensor += number;
                    for (float &e : x)
                        e += number;
                    break;
                case 3:
                    a.tensor.copy_(b.tensor);
                    x = y;
                    break;
                case 4:
                    a.tensor.copy_(b.tensor * 0.5 + number);
                    for (size_t i = 0; i < kLength; ++i)
                        x[i] = y[i] * 0.5F + number;
                    break;
                case 5:
                    a.tensor.at({lz::Slice(3, 40)}) = number;
                    std::fill(x.begin() + 3, x.begin() + 40, number);
                    break;
                case 6:
                    a.tensor.at({lz::Ellipsis}) = b.tensor.flip({0});
                    for (size_t i = 0; i < kLength; ++i)
                        x[i] = y[kLength - 1 - i];
                    break;
                case 7: { // a value that the old one is needed for, pending or not
                    std::vector<float> sum(kLength);
                    for (size_t i = 0; i < kLength; ++i)
                        sum[i] = x[i] - y[i];
                    Told both = made(a.tensor - b.tensor, std::move(sum));
                    all[below(all.size())] = std::move(both);
                    break;
                }
                case 8: { // a second handle
                    const Told shared = b;
                    all[below(all.size())] = shared;
                    break;
                }
                case 9:
                    a.tensor.eval();
                    break;
                case 10:
                    lz::sync();
                    break;
                default:
                    ASSERT_EQ(floats(a.tensor), x) << place << ", seed " << seed << ", step " << step;
                }
            }
            for (const Told &t : all)
                ASSERT_EQ(floats(t.tensor), *t.numbers) << place << ", seed " << seed;
        }
}

TEST(Semantics, S24_many_tensors_of_one_shape_are_zeroed_where_they_are) {
    for (const Device &place : places()) {
        std::vector<Tensor> gradients;
        for (int i = 0; i < 5; ++i)
            gradients.push_back(lz::full({kMiB}, i + 1, {.dtype = lz::f32, .device = place}).eval());
        settle();
        const int64_t before = lz::memory_allocated(place);
        lz::reset_peak_memory_stats(place);
        for (Tensor &gradient : gradients)
            gradient.zero_();
        gradients[3].fill_(4);
        settle();
        EXPECT_LE(lz::max_memory_allocated(place) - before, 64 * 1024) << place;
        for (size_t i = 0; i < gradients.size(); ++i) {
            EXPECT_EQ(gradients[i].max().item<double>(), i == 3 ? 4 : 0) << place;
            EXPECT_EQ(gradients[i].min().item<double>(), i == 3 ? 4 : 0) << place;
        }
    }
}

TEST(Semantics, S26_an_overwritten_handle_goes_back_when_the_new_value_fails) {
    for (const Device &place : places()) {
        Tensor x = lz::full({4}, 5, {.dtype = lz::f32, .device = place}).eval();
        Tensor y = lz::full({4}, 6, {.dtype = lz::f32, .device = place}).eval();
        const Tensor table = lz::arange(10, {.dtype = lz::f32, .device = place});
        const Tensor index = lz::tensor({0, 99, 1, 2}).to(place);
        y.zero_();
        x.copy_(table.index_select(0, index) * 2);
        EXPECT_THROW(lz::sync(), lz::IndexError) << place;
        EXPECT_EQ(floats(x), std::vector<float>(4, 5.0F)) << place;
        EXPECT_EQ(floats(y), std::vector<float>(4, 0.0F)) << place;
        // The first of them was overwritten before what failed: that has not failed.
        x.zero_();
        x += table.index_select(0, index);
        EXPECT_THROW(lz::sync(), lz::IndexError) << place;
        EXPECT_EQ(floats(x), std::vector<float>(4, 0.0F)) << place;
    }
}

TEST(Semantics, S26_an_operation_that_may_fail_costs_others_in_place_no_memory) {
    for (const Device &place : places()) {
        Tensor x = lz::ones({kElements}, {.device = place}).eval();
        const Tensor table = lz::arange(10, {.dtype = lz::f32, .device = place});
        const Tensor index = lz::tensor({0, 1, 2}).to(place).eval();
        table.eval();
        settle();
        const int64_t before = lz::memory_allocated(place);
        lz::reset_peak_memory_stats(place);
        const Tensor taken = table.index_select(0, index) + 1;
        x.zero_();
        settle();
        EXPECT_LE(lz::max_memory_allocated(place) - before, 64 * 1024) << place;
        EXPECT_EQ(floats(taken), (std::vector<float>{1, 2, 3})) << place;
        EXPECT_EQ(x.max().item<double>(), 0) << place;
    }
}

/// A sum over rows of a table: what reads it is behind the check of the indices, and no part of its kernel.
Tensor looked_up(const Tensor &table, const Tensor &index) {
    return table.index_select(0, index).sum();
}

TEST(Semantics, S26_what_is_changed_in_place_behind_a_check_needs_no_memory_and_stays_when_it_fails) {
    for (const Device &place : places()) {
        // A kernel of a CUDA device cannot be left out: the new value has memory of its own there.
        const bool in_place = place.is_cpu() || lz::cuda::get_device_properties(place.index()).is_virtual;
        const int64_t length = in_place ? kMiB : kMiB / 32; // a driver without a GPU interprets them
        Tensor x = lz::ones({length}, {.device = place}).eval(), y = (x * 2).eval(), z = (x * 3).eval();
        const Tensor table = lz::arange(10, {.dtype = lz::f32, .device = place}).eval();
        const Tensor good = lz::tensor({0, 1, 2}).to(place).eval(),
                     bad = lz::tensor({0, 99, 2}).to(place).eval();
        const auto step = [&](const Tensor &index) {
            const Tensor found = looked_up(table, index);
            x += found;
            y.copy_(found.expand({length}));
            z += 1; // fails with nobody
        };
        settle();
        for (int i = 0; i < 3; ++i) {
            lz::reset_peak_memory_stats(place);
            const int64_t before = lz::memory_allocated(place);
            step(good);
            settle();
            EXPECT_TRUE(!in_place || lz::max_memory_allocated(place) - before <= 64 * 1024) << place;
            EXPECT_EQ(x.max().item<double>(), 4 + 6 * i) << place;
            EXPECT_EQ(y.min().item<double>(), 3) << place;
            y.zero_();
            step(bad);
            step(bad);
            EXPECT_THROW(settle(), lz::IndexError) << place;
            EXPECT_EQ(x.max().item<double>(), 4 + 6 * i) << place;
            EXPECT_EQ(x.min().item<double>(), 4 + 6 * i) << place;
            EXPECT_EQ(y.max().item<double>(), 0) << place;
            EXPECT_EQ(z.min().item<double>(), 6 + 4 * i) << place;
            EXPECT_EQ(z.max().item<double>(), 6 + 4 * i) << place;
            step(good);
            settle();
        }
    }
}

/// A tensor, what it would hold if nothing failed, and the newest of its versions that did not.
struct Checked {
    Tensor tensor;
    std::vector<float> now, good;
    bool lost = false;

    void becomes(std::vector<float> numbers, bool is_lost) {
        now = std::move(numbers);
        lost = is_lost;
        if (!lost)
            good = now;
    }
};

/// A version that was passed over is computed when it is read, and may turn out to have failed, too.
std::vector<float> held_by(const Tensor &tensor) {
    for (int tries = 0;; ++tries)
        try {
            return floats(tensor);
        } catch (const lz::IndexError &) {
            if (tries == 20)
                throw;
        }
}

TEST(Semantics, S26_of_random_in_place_forms_those_are_undone_that_depend_on_what_failed) {
    constexpr int64_t kLength = 1000;
    const uint32_t seeds = std::getenv("LAZULI_TEST_CUDA") ? 4 : 8; // NVRTC takes their kernels longer
    for (const Device &place : places())
        for (uint32_t seed = 0; seed < seeds; ++seed) {
            std::mt19937 random(seed);
            const auto below = [&](size_t n) { return random() % n; };
            const Tensor table = lz::arange(10, {.dtype = lz::f32, .device = place}).eval();
            std::vector<Checked> all;
            for (int i = 0; i < 5; ++i)
                all.push_back({lz::full({kLength}, i, {.dtype = lz::f32, .device = place}).eval(),
                               std::vector<float>(kLength, static_cast<float>(i)),
                               std::vector<float>(kLength, static_cast<float>(i))});
            for (int round = 0; round < 25; ++round) {
                const bool is_bad = below(3) == 0;
                const auto number = static_cast<int64_t>(below(10));
                const Tensor index = lz::tensor({number, is_bad ? int64_t{-77} : number}).to(place).eval();
                const Tensor found = looked_up(table, index);
                const auto sum = static_cast<float>(2 * number);
                for (size_t step = 1 + below(8); step > 0; --step) {
                    Checked &a = all[below(all.size())];
                    const Checked &b = all[below(all.size())];
                    std::vector<float> x = a.now;
                    const std::vector<float> y = b.now;
                    const bool lost = a.lost, other_lost = b.lost;
                    switch (below(6)) {
                    case 0: // another kernel checks
                        a.tensor += found;
                        for (float &e : x)
                            e += sum;
                        a.becomes(x, lost || is_bad);
                        break;
                    case 1: // this one does
                        a.tensor += table.index_select(0, index.at({lz::Slice(1, 2)}));
                        for (float &e : x)
                            e += static_cast<float>(number);
                        a.becomes(x, lost || is_bad);
                        break;
                    case 2:
                        a.tensor += b.tensor * 0.5;
                        for (size_t i = 0; i < x.size(); ++i)
                            x[i] += y[i] * 0.5F;
                        a.becomes(x, lost || other_lost);
                        break;
                    case 3:
                        a.tensor.copy_(b.tensor + found);
                        for (size_t i = 0; i < x.size(); ++i)
                            x[i] = y[i] + sum;
                        a.becomes(x, other_lost || is_bad);
                        break;
                    case 4:
                        a.tensor.fill_(static_cast<double>(number));
                        a.becomes(std::vector<float>(kLength, static_cast<float>(number)), false);
                        break;
                    default:
                        a.tensor *= 0.25;
                        for (float &e : x)
                            e *= 0.25F;
                        a.becomes(x, lost);
                    }
                }
                for (int quiet = 0; quiet < 2;) // what a GPU found is thrown at the next sync
                    try {
                        settle();
                        ++quiet;
                    } catch (const lz::IndexError &) {
                        quiet = 0;
                    }
                for (Checked &c : all) {
                    ASSERT_EQ(held_by(c.tensor), c.good) << place << ", seed " << seed << ", round " << round;
                    c.becomes(c.good, false);
                }
            }
        }
}

TEST(Semantics, S26_an_overwriting_form_beside_a_rejected_operation_is_done_at_the_next_sync) {
    LZ_NEEDS_GPUS(2);
    Tensor x = lz::full({4}, 5, {.dtype = lz::f32, .device = kGpu0}).eval();
    const Tensor there = lz::ones({4}, {.device = kGpu1}).eval();
    x.fill_(2);
    const Tensor wrong = x + there;
    EXPECT_THROW(lz::sync(), lz::DeviceError);
    EXPECT_EQ(floats(x), std::vector<float>(4, 2.0F));
}

} // namespace
