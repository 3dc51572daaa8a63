// Calls of a training step of several launches are refused for good after some of its tensors have been
// changed in place: the step stops, nobody sees a part of it, and it goes on at the next sync (S26).
#include "frontend/engine/engine.h"
#include "refused_steps.h"
#include "tests/support/forked.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <thread>

namespace {

using namespace lz;
using namespace lz::test;

using Values = std::map<std::string, std::vector<double>>;

class StoppedSteps : public testing::TestWithParam<const char *> {
protected:
    void SetUp() override {
        if (const std::string &why = engine::Engine::get().why_no_gpu(); !why.empty())
            GTEST_SKIP() << why;
        lz::sync();
    }
    Device device{GetParam()};
};

/// The values that can be read. Of many some: each that cannot is a try to go on with the step.
Values readable(const PlainStep &training) {
    Values out;
    const size_t every = training.parameters.size() / 4;
    const auto look = [&](const std::string &name, const Tensor &tensor) {
        try {
            out[name] = doubles(tensor);
        } catch (const Error &) {
        }
    };
    const StateDict state = training.optimizer->state_dict();
    for (size_t i = 0; i < training.parameters.size(); i += every) {
        look("parameter." + std::to_string(i), training.parameters[i]);
        for (const char *name : {"momentum_buffer", "exp_avg", "exp_avg_sq", "step"})
            if (const std::string key = "state." + std::to_string(i) + "." + name; state.contains(key))
                look("optimizer." + key, state.at(key));
    }
    return out;
}

bool part_of(const Values &some, const Values &all) {
    return std::ranges::all_of(some, [&](const auto &one) { return all.at(one.first) == one.second; });
}

TEST_P(StoppedSteps, AreAllAsBeforeOrAllAsAfterHoweverOftenACallIsRefused) {
    int64_t stopped = 0;
    const std::vector<int64_t> often = ::getenv("LAZULI_TEST_CUDA") // a step takes its interpreter longer
                                           ? std::vector<int64_t>{3, kForEver}
                                           : std::vector<int64_t>{2, 3, 7, kForEver};
    for (const Kind kind :
         {Kind::Sgd, Kind::Momentum, Kind::TwoDevices, Kind::ManyTensors, Kind::TwoGroups}) {
        PlainStep undisturbed(kind, device);
        undisturbed.step();
        undisturbed.step();
        const Values before = undisturbed.all(false);
        const auto backends = undisturbed.backends();
        undisturbed.step();
        const Values after = undisturbed.all(), after_alone = undisturbed.all(false);
        undisturbed.step();
        const Values later = undisturbed.all();
        for (size_t b = 0; b < backends.size(); ++b)
            for (const int64_t times : often) {
                bool refused = true; // until a step has no call of this number
                for (int64_t n = 1; refused; ++n) {
                    SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", device " << b
                                                    << ", call " << n << ", " << times << " times");
                    PlainStep training(kind, device);
                    training.step();
                    training.step();
                    bool threw = false;
                    backends[b]->fail_at(n, times);
                    try {
                        training.step();
                    } catch (const Error &error) {
                        threw = true;
                        EXPECT_TRUE(error.file()) << error.what();
                    }
                    refused = backends[b]->calls() >= n;
                    if (threw) {
                        const Values seen = readable(training);
                        EXPECT_TRUE(part_of(seen, before) || part_of(seen, after)) << "nobody sees a mixture";
                    }
                    forget_errors();
                    backends[b]->fail_at(0);
                    forget_errors();
                    if (threw && training.all(false) == after_alone) {
                        ++stopped;
                    } else if (threw) {
                        EXPECT_EQ(training.all(false), before);
                        training.step();
                    }
                    EXPECT_EQ(training.all(), after);
                    training.step();
                    EXPECT_EQ(training.all(), later) << "and it goes on";
                    if (HasFailure()) {
                        forget_errors();
                        return;
                    }
                }
            }
    }
    EXPECT_GT(stopped, 10);
}

/// Each of two devices goes on refusing, memory too, until it is told to stop, one after the other.
TEST_P(StoppedSteps, OfTwoDevicesThatBothRefuseAreAllAsBeforeOrAllAsAfter) {
    PlainStep undisturbed(Kind::TwoDevices, device);
    undisturbed.step();
    undisturbed.step();
    const Values before = undisturbed.all(false);
    const auto backends = undisturbed.backends();
    ASSERT_EQ(backends.size(), 2u);
    undisturbed.step();
    const Values after = undisturbed.all(), after_alone = undisturbed.all(false);
    int64_t stopped = 0, stopped_again = 0;
    for (const size_t first : {0u, 1u})
        for (const int64_t m : {1, 2, 5}) {
            bool refused = true; // until a step has no call of this number
            for (int64_t n = 1; refused; ++n) {
                SCOPED_TRACE(testing::Message() << "device " << first << " from call " << n
                                                << ", the other from its call " << m << " after that");
                PlainStep training(Kind::TwoDevices, device);
                training.step();
                training.step();
                lz::cuda::empty_cache(); // so that the step asks for memory
                bool threw = false;
                backends[first]->fail_at(n, kForEver);
                try {
                    training.step();
                } catch (const Error &error) {
                    threw = true;
                    EXPECT_TRUE(error.file()) << error.what();
                }
                refused = backends[first]->calls() >= n;
                const auto expect_no_mixture = [&] {
                    const Values seen = readable(training);
                    EXPECT_TRUE(part_of(seen, before) || part_of(seen, after));
                };
                if (threw) {
                    expect_no_mixture();
                    backends[1 - first]->fail_at(m, kForEver);
                    backends[first]->fail_at(0);
                    try {
                        lz::sync();
                    } catch (const Error &error) {
                        stopped_again += std::string(error.what()).find("goes on") != std::string::npos;
                    }
                    expect_no_mixture();
                    backends[1 - first]->fail_at(0);
                }
                backends[first]->fail_at(0);
                forget_errors();
                forget_errors();
                if (threw && training.all(false) == after_alone) {
                    ++stopped;
                } else if (threw) {
                    EXPECT_EQ(training.all(false), before);
                    training.step();
                }
                EXPECT_EQ(training.all(), after);
                if (HasFailure()) {
                    forget_errors();
                    return;
                }
            }
        }
    EXPECT_GT(stopped, 5);
    EXPECT_GT(stopped_again, 0) << "by the other device";
}

/// A replay is one run as well.
TEST_P(StoppedSteps, OfACompiledFunctionAreAllAsBeforeOrAllAsAfter) {
    int64_t stopped = 0;
    for (const Kind kind : {Kind::Momentum, Kind::TwoDevices, Kind::ManyTensors, Kind::TwoGroups}) {
        for (const int64_t times : {int64_t{0}, int64_t{2}, kForEver}) {
            PlainStep undisturbed(kind, device), training(kind, device);
            const auto step_of = [](PlainStep &step) {
                return lz::compile([&](const Tensor &scale) {
                    step.optimizer->zero_grad();
                    const Tensor loss = step.loss() * scale;
                    loss.backward();
                    step.optimizer->step();
                    return loss.detach();
                });
            };
            const auto expected = step_of(undisturbed), step = step_of(training);
            const Tensor scale = lz::ones({});
            for (int i = 0; i < 6; ++i) {
                expected(scale);
                step(scale);
            }
            lz::sync();
            EXPECT_TRUE(device.is_cuda() || kind == Kind::TwoDevices || step.stats().replays > 0)
                << step.explain();
            for (size_t b = 0; b < training.backends().size(); ++b) {
                runtime::FaultInjectingBackend &faulty = *training.backends()[b];
                bool refused = true;
                for (int64_t n = 1; refused; n += kind == Kind::ManyTensors ? 40 : 1) {
                    SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", device " << b
                                                    << ", call " << n << ", " << times << " times");
                    const Values before = training.all(false);
                    expected(scale);
                    const Values after = undisturbed.all(false);
                    bool threw = false;
                    faulty.fail_at(n, times);
                    try {
                        step(scale);
                        lz::sync();
                    } catch (const Error &) {
                        threw = true;
                    }
                    refused = faulty.calls() >= n && times > 0;
                    if (threw) {
                        const Values seen = readable(training);
                        EXPECT_TRUE(part_of(seen, before) || part_of(seen, after)) << "nobody sees a mixture";
                    }
                    forget_errors();
                    faulty.fail_at(0);
                    forget_errors();
                    if (threw && training.all(false) == after) {
                        ++stopped;
                    } else if (threw) {
                        EXPECT_EQ(training.all(false), before);
                        step(scale);
                    }
                    EXPECT_EQ(training.all(), undisturbed.all());
                    if (HasFailure()) {
                        forget_errors();
                        return;
                    }
                }
            }
        }
    }
    EXPECT_GT(stopped, 2);
}

/// A program of several launches that is refused after the first of them, for good.
struct Refused {
    explicit Refused(const Device &device, const Tensor &more = {})
        : faulty(device.is_cuda() ? *faulty_gpus()[0] : *faulty_cpu()) {
        other = lz::arange(300).to(f32).to(device);
        for (int64_t n = 1; why.empty() && n < 100; ++n) {
            faulty.fail_at(0);
            forget_errors();
            first = lz::zeros({300}).to(device); // what has gone back to an older version is not written over
            second = lz::zeros({300}, {.dtype = f64}).to(device);
            sums = lz::zeros({300}).to(device);
            lz::sync();
            faulty.fail_at(n, kForEver);
            try {
                change(more);
                lz::sync();
                break;
            } catch (const Error &error) {
                if (std::string(error.what()).find("goes on") != std::string::npos)
                    why = error.what();
            }
        }
        if (why.empty()) {
            faulty.fail_at(0);
            ADD_FAILURE() << "no call stops it";
        }
    }
    ~Refused() { faulty.fail_at(0); }
    void change(const Tensor &more) {
        sums.add_(1);
        first.add_(2).mul_(first + 1);
        second.add_(2).mul_(second + 1);
        if (more.defined())
            second.add_(more.to(second.device()).to(f64));
        sums.copy_(lz::cumsum(sums, 0));
    }
    void expect_done(double more = 0) const {
        EXPECT_EQ(doubles(first).back(), 6);
        EXPECT_EQ(doubles(second).back(), 6 + more);
        EXPECT_EQ(doubles(sums).back(), 300);
    }

    runtime::FaultInjectingBackend &faulty;
    Tensor first, second, other, sums;
    std::string why;
};

TEST_P(StoppedSteps, ThrowWhereverAResultIsReadAndAtEachSyncUntilTheyAreDone) {
    Refused step(device);
    ASSERT_FALSE(step.why.empty());
    EXPECT_NE(step.why.find("made to fail"), std::string::npos) << step.why;
    EXPECT_NE(step.why.find("stopped_steps_test.cpp"), std::string::npos) << step.why;
    for (int again = 0; again < 2; ++again) {
        EXPECT_THROW(lz::sync(), Error);
        EXPECT_THROW(doubles(step.first), Error);
        EXPECT_THROW(doubles(step.second), Error);
        EXPECT_THROW(step.sums.eval(), Error);
    }
    step.faulty.fail_at(0);
    EXPECT_NO_THROW(lz::sync());
    step.expect_done();
}

TEST_P(StoppedSteps, AreGoneOnWithByWhoReadsAResult) {
    Refused step(device);
    step.faulty.fail_at(0);
    EXPECT_EQ(doubles(step.second).back(), 6);
    step.expect_done();
    EXPECT_NO_THROW(lz::sync());
}

TEST_P(StoppedSteps, AreGoneOnWithByAnotherThread) {
    Refused step(device);
    step.faulty.fail_at(0);
    double read = 0;
    std::thread([&] { read = doubles(step.second).back(); }).join();
    EXPECT_EQ(read, 6);
    step.expect_done();
}

TEST_P(StoppedSteps, OutliveTheirThread) {
    std::optional<Refused> step;
    std::thread([&] { step.emplace(device); }).join();
    EXPECT_NO_THROW(lz::sync()) << "it is another thread's";
    EXPECT_THROW(doubles(step->first), Error);
    step->faulty.fail_at(0);
    step->expect_done();
}

TEST_P(StoppedSteps, FailWhatIsComputedFromThemAndTensorsGoBackToThem) {
    Refused step(device);
    step.first.mul_(10);
    const Tensor sum = step.second.sum();
    EXPECT_THROW(lz::sync(), Error);
    EXPECT_THROW(sum.item<double>(), Error);
    step.faulty.fail_at(0);
    forget_errors();
    step.expect_done(); // the product failed with its operand, and nothing came of it
    step.first.mul_(10);
    EXPECT_EQ(doubles(step.first).back(), 60);
}

TEST_P(StoppedSteps, LeaveAlonePlacesThatAreFilledMeanwhile) {
    Refused step(device);
    step.faulty.fail_at(0);
    step.first.fill_(7);
    forget_errors();
    EXPECT_EQ(doubles(step.first).back(), 7);
    EXPECT_EQ(doubles(step.second).back(), 6);
    EXPECT_EQ(doubles(step.sums).back(), 300);
}

TEST_P(StoppedSteps, LetEverythingElseBeComputed) {
    Refused step(device);
    const Tensor here = lz::arange(10).to(f32) + 1; // on the CPU
    if (device.is_cuda()) {
        EXPECT_EQ(here.sum().item<float>(), 55);
    }
    step.faulty.fail_at(0);
    EXPECT_EQ(doubles(step.other * 2).back(), 598);
    step.expect_done();
}

TEST_P(StoppedSteps, KeepWhatTheUserWritesOver) {
    std::vector<float> mine(300, 5);
    const Tensor more = lz::from_blob(mine.data(), {300});
    Tensor exposed = lz::full({300}, 4.0);
    exposed.mutable_data<float>()[299] = 6;
    {
        Refused step(device, more + exposed);
        std::ranges::fill(mine, -1.0f);
        step.faulty.fail_at(0);
        step.expect_done(11);
    }
}

TEST_P(StoppedSteps, DoNotLetTheirInputsBeWritten) {
    if (device.is_cuda())
        GTEST_SKIP() << "an input on a GPU is written by kernels alone";
    Tensor more = lz::full({300}, 4.0) + 1;
    more.eval();
    Refused step(device, more);
    EXPECT_THROW(more.mutable_data<float>(), Error);
    EXPECT_EQ(more.to_vector<float>()[299], 5) << "but read";
    step.faulty.fail_at(0);
    more.mutable_data<float>()[299] = -1;
    step.expect_done(5);
}

TEST_P(StoppedSteps, GiveTheirMemoryBack) {
    lz::sync();
    const auto allocated = [&] { return device.is_cuda() ? lz::cuda::memory_allocated(device) : int64_t{0}; };
    const int64_t nothing = allocated();
    {
        Refused step(device); // nobody asks for it any more
        step.first = step.second = step.sums = step.other = Tensor();
        EXPECT_NO_THROW(lz::sync());
        EXPECT_EQ(allocated(), nothing);
        step.faulty.fail_at(0);
    }
    {
        Refused step(device);
        step.faulty.fail_at(0);
        step.expect_done();
    }
    lz::sync();
    EXPECT_EQ(allocated(), nothing);
}

TEST_P(StoppedSteps, AreNotGoneOnWithOnADeviceThatIsLost) {
    if (device.is_cpu())
        GTEST_SKIP() << "a CPU is not lost";
    Refused step(device);
    step.faulty.fail_at(0);
    step.faulty.lose_at(1);
    EXPECT_THROW(lz::sync(), CudaError);
    step.faulty.lose_at(0);
    forget_errors();
    for (const Tensor &changed : {step.first, step.second, step.sums})
        EXPECT_THROW(doubles(changed), Error) << "one may be as before and another as after it";
    EXPECT_NO_THROW(lz::sync());
}

TEST_P(StoppedSteps, AreAClearErrorInAForkedChild) { // S65
    Refused step(device);
    step.faulty.fail_at(0);
    EXPECT_EQ(in_child([&] { lz::sync(); }), 42);
    EXPECT_EQ(in_child([&] { (void)doubles(step.first); }), 42);
    EXPECT_EQ(in_child([&] { (step.second + 1).eval(); }), 42);
    EXPECT_EQ(in_child([&] {
                  std::thread([] { (void)(lz::ones({2}) + 1); }).join(); // leaves nothing locked
                  lz::sync();
              }),
              42);
    step.expect_done();
}

TEST_P(StoppedSteps, MayBeLeftWhenTheProgramEnds) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            static Refused *const step = new Refused(device);
            std::exit(step->why.empty() ? 1 : 0);
        },
        testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(OptimizerFaults, StoppedSteps, testing::Values("cpu", "cuda:0"),
                         [](const auto &info) {
                             return std::string(info.param).substr(0, 3) == "cpu" ? "Cpu" : "Gpu";
                         });

} // namespace
