// Random programs that change tensors in place on two devices, of which a random call is refused a random
// number of times: nobody sees some of the tensors as before the program and others as after it, and in the
// end all are one or the other (S26).
//
// LAZULI_FUZZ_PROGRAMS=n  how many (300; 0: without end)
// LAZULI_FUZZ_SEED=s      the first seed (1)
#include "frontend/engine/engine.h"
#include "refused_steps.h"
#include "tests/support/environment.h"

#include <random>

namespace {

using namespace lz;
using namespace lz::test;

using Values = std::vector<std::vector<double>>;

class RandomUpdates {
public:
    RandomUpdates(uint64_t seed, const Device &device) : random_(seed) {
        const Device second = below(2) == 0 ? device : device.is_cpu() ? Device::cuda(0) : Device::cuda(1);
        const size_t count = 2 + below(5);
        for (size_t i = 0; i < count; ++i) {
            static constexpr int64_t kSizes[] = {1, 7, 300, 5000};
            devices_.push_back(below(2) == 0 ? device : second);
            dtypes_.push_back(below(3) == 0 ? f64 : f32);
            sizes_.push_back(kSizes[below(4)]);
        }
        const size_t changes = 3 + below(10);
        for (size_t i = 0; i < changes; ++i)
            changes_.push_back({below(count), below(count), static_cast<Kind>(below(kKinds))});
    }
    uint64_t below(uint64_t n) { return random_() % n; }

    void begin() {
        tensors.clear();
        results.clear();
        for (size_t i = 0; i < sizes_.size(); ++i)
            tensors.push_back(
                (lz::arange(sizes_[i]).to(dtypes_[i]) * 0.01 + static_cast<double>(i + 1)).to(devices_[i]));
        lz::sync();
    }
    void run() {
        for (const Change &change : changes_) {
            Tensor &t = tensors[change.to];
            const Tensor number = tensors[change.from].mean().to(t.device()).to(t.dtype());
            switch (change.kind) {
            case Kind::Add:
                t.add_(1.5);
                break;
            case Kind::AddOther:
                t.mul_(0.5).add_(number);
                break;
            case Kind::Scan:
                t.copy_(lz::cumsum(t * 0.01, 0));
                break;
            case Kind::Sort:
                t.copy_(lz::sort(lz::sin(t), 0).values);
                break;
            case Kind::Part:
                t.at({0}) = number;
                break;
            case Kind::Gather:
                t.sub_(t.index_select(0, lz::zeros({1}, {.dtype = i64, .device = t.device()})) * 0.1);
                break;
            case Kind::Fill:
                t.fill_(3);
                break;
            case Kind::Result:
                results.push_back(t * number);
                break;
            }
        }
        lz::sync();
    }
    std::vector<runtime::FaultInjectingBackend *> backends() const {
        std::vector<runtime::FaultInjectingBackend *> all = {faulty_cpu()};
        for (runtime::FaultInjectingBackend *gpu : faulty_gpus())
            all.push_back(gpu);
        return all;
    }

    std::vector<Tensor> tensors, results;

private:
    enum class Kind { Add, AddOther, Scan, Sort, Part, Gather, Fill, Result };
    static constexpr uint64_t kKinds = 8;
    struct Change {
        size_t to, from;
        Kind kind;
    };
    std::mt19937_64 random_;
    std::vector<Device> devices_;
    std::vector<DType> dtypes_;
    std::vector<int64_t> sizes_;
    std::vector<Change> changes_;
};

Values values(const std::vector<Tensor> &tensors) {
    Values out;
    for (const Tensor &t : tensors)
        try {
            out.push_back(doubles(t));
        } catch (const Error &error) {
            ADD_FAILURE() << error.what();
            out.emplace_back();
        }
    return out;
}

/// Whether those that can be read are these.
bool readable_are(const std::vector<Tensor> &tensors, const Values &values) {
    for (size_t i = 0; i < tensors.size(); ++i)
        try {
            if (doubles(tensors[i]) != values[i])
                return false;
        } catch (const Error &) {
        }
    return true;
}

TEST(OptimizerFaults, RandomProgramsAreAllAsBeforeOrAllAsAfter) {
    if (const std::string &why = engine::Engine::get().why_no_gpu(); !why.empty())
        GTEST_SKIP() << why;
    lz::arange(2).to("cuda:0").eval();
    lz::arange(2).to("cuda:1").eval();
    const int64_t programs = number_from("LAZULI_FUZZ_PROGRAMS", 300);
    const auto first = static_cast<uint64_t>(number_from("LAZULI_FUZZ_SEED", 1));
    int64_t refused = 0, went_on = 0;
    for (uint64_t seed = first; programs == 0 || seed < first + static_cast<uint64_t>(programs); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        RandomUpdates program(seed, seed % 2 == 0 ? Device("cpu") : Device("cuda:0"));
        program.begin();
        const Values before = values(program.tensors);
        program.run();
        const Values after = values(program.tensors), results = values(program.results);
        for (int tries = 0; tries < 12; ++tries) {
            const auto backends = program.backends();
            runtime::FaultInjectingBackend &faulty = *backends[program.below(backends.size())];
            static constexpr int64_t kTimes[] = {2, 3, kForEver};
            const auto n = static_cast<int64_t>(1 + program.below(24)), times = kTimes[program.below(3)];
            SCOPED_TRACE(testing::Message() << faulty.name() << ", call " << n << ", " << times << " times");
            program.begin();
            faulty.fail_at(n, times);
            bool threw = false, no_memory = false;
            try {
                program.run();
            } catch (const OutOfMemoryError &) { // values were computed one by one, in programs of their own
                no_memory = true;
            } catch (const Error &) {
                threw = true;
            }
            if (threw) {
                EXPECT_TRUE(readable_are(program.tensors, before) || readable_are(program.tensors, after));
            }
            forget_errors();
            faulty.fail_at(0);
            forget_errors();
            if (no_memory)
                continue;
            const Values now = values(program.tensors);
            refused += threw;
            if (now == after) {
                went_on += threw;
                if (!threw) {
                    EXPECT_EQ(values(program.results), results);
                }
            } else {
                EXPECT_TRUE(threw);
                EXPECT_EQ(now, before);
            }
            if (HasFailure())
                return;
        }
    }
    EXPECT_GT(refused, programs);
    EXPECT_GT(went_on, programs / 4);
}

} // namespace
