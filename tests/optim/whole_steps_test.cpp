// A training step in which something is found to be wrong while it runs changes nothing: parameters and what
// the optimizer remembers are worked on in place, and are all as they were.
#include "support.h"

#include <memory>
#include <string>
#include <vector>

namespace {

using namespace lz;
using namespace lz::test;

/// An embedding, a layer and AdamW: indices and labels are checked on the way.
struct Training {
    explicit Training(const Device &device) : device(device) {
        const auto made = [&](const Sizes &sizes, double step) {
            int64_t count = 1;
            for (const int64_t n : sizes)
                count *= n;
            return leaf(lz::sin(lz::arange(count).to(f32) * step).reshape(sizes).to(device));
        };
        parameters = {made({10, 6}, 0.7), made({5, 6}, 0.3), made({5}, 0.9)};
        optimizer = std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(0.1));
    }
    void step(const std::vector<int64_t> &words, const std::vector<int64_t> &labels) {
        optimizer->zero_grad();
        const Tensor x = parameters[0].index_select(0, lz::tensor(words).to(device));
        lz::cross_entropy(lz::linear(x, parameters[1], parameters[2]), lz::tensor(labels).to(device))
            .backward();
        optimizer->step();
        lz::sync();
        if (device.is_cuda())
            lz::cuda::synchronize(device);
        lz::sync(); // who launched it is told what failed
    }
    std::vector<std::vector<double>> all() const {
        std::vector<std::vector<double>> out;
        const StateDict state = optimizer->state_dict();
        for (size_t i = 0; i < parameters.size(); ++i) {
            out.push_back(doubles(parameters[i]));
            for (const char *name : {"exp_avg", "exp_avg_sq"})
                out.push_back(doubles(state.at("state." + std::to_string(i) + "." + name)));
        }
        return out;
    }

    Device device;
    std::vector<Tensor> parameters;
    std::unique_ptr<optim::AdamW> optimizer;
};

TEST(WholeSteps, ABadIndexOrLabelChangesNothing) {
    std::vector<Device> devices = {Device::cpu()};
    if (lz::cuda::device_count() > 0)
        devices.push_back(Device::cuda(0));
    for (const Device &device : devices) {
        Training training(device);
        for (int i = 0; i < 3; ++i)
            training.step({1, 2, 3, 9}, {0, 1, 2, 4});
        for (const bool bad_word : {false, true}) {
            SCOPED_TRACE(device.str() + (bad_word ? ": a word" : ": a label"));
            const auto before = training.all();
            EXPECT_THROW(training.step({1, 2, bad_word ? 10 : 3, 9}, {0, 1, bad_word ? 2 : 5, 4}),
                         IndexError);
            EXPECT_EQ(training.all(), before);
            training.step({1, 2, 3, 9}, {0, 1, 2, 4});
            const auto after = training.all();
            for (size_t i = 0; i < before.size(); ++i)
                EXPECT_NE(after[i], before[i]) << i;
        }
    }
}

} // namespace
