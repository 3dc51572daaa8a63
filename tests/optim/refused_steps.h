#pragma once
/// Training steps on devices that refuse calls when told to.

#include "runtime/fault_injection.h"
#include "support.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lz::test {

/// Of this process, opened so far; refused_steps.cpp puts them before the engine's own.
std::vector<runtime::FaultInjectingBackend *> &faulty_gpus();
runtime::FaultInjectingBackend *&faulty_cpu();

constexpr int64_t kForEver = int64_t{1} << 40;

/// What was refused is told, once or as long as it stands.
inline void forget_errors() {
    for (int again = 0; again < 2; ++again)
        try {
            lz::sync();
        } catch (const Error &) {
        }
}

/// Steps that are several launches, or whose update is a part of another kernel.
enum class Kind { Sgd, Momentum, TwoDevices, ManyTensors, TwoGroups };

struct PlainStep {
    PlainStep(Kind kind, const Device &device) : kind(kind) {
        const Device second = kind != Kind::TwoDevices ? device
                              : device.is_cpu()        ? Device::cuda(0)
                                                       : Device::cuda(1);
        const auto made = [](const Sizes &sizes, double step, const Device &there) {
            const int64_t count = sizes.size() == 2 ? sizes[0] * sizes[1] : sizes[0];
            return leaf(lz::sin(lz::arange(count).to(f32) * step + step).reshape(sizes).to(there));
        };
        if (kind == Kind::ManyTensors)
            for (int i = 0; i < 300; ++i)
                parameters.push_back(made({3 + i % 3}, 0.1 + 0.01 * i, device));
        else
            parameters = {made({6, 5}, 0.7, device), made({6}, 0.3, device), made({2, 6}, 0.9, second),
                          made({2}, 0.2, second)};
        if (kind == Kind::TwoGroups)
            for (size_t i = 2; i < 4; ++i)
                parameters[i] = leaf(parameters[i].detach().to(f64));
        x = lz::cos(lz::arange(20).to(f32)).reshape({4, 5}).to(device);
        x.eval();
        if (kind == Kind::Sgd)
            optimizer = std::make_unique<optim::SGD>(parameters, optim::SGDOptions(0.1));
        else if (kind == Kind::Momentum)
            optimizer = std::make_unique<optim::SGD>(
                parameters, optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01));
        else if (kind == Kind::TwoGroups)
            optimizer = std::make_unique<optim::AdamW>(std::vector<optim::OptimizerParamGroup>{
                {{parameters[0], parameters[1]}},
                {{parameters[2], parameters[3]}, optim::AdamWOptions(0.02)}});
        else
            optimizer = std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(0.1));
    }
    void step() {
        optimizer->zero_grad();
        loss().backward();
        optimizer->step();
        lz::sync();
    }
    Tensor loss() const {
        if (kind == Kind::ManyTensors) {
            Tensor sum = lz::zeros({}, {.device = x.device()});
            for (const Tensor &p : parameters)
                sum = sum + lz::cos(p).sum();
            return sum;
        }
        const Tensor hidden = lz::tanh(lz::linear(x, parameters[0], parameters[1]));
        const Tensor there = hidden.to(parameters[2].device()).to(parameters[2].dtype());
        return lz::linear(there, parameters[2], parameters[3]).square().sum();
    }
    /// Of which it calls any, in the order of `backends`.
    std::vector<runtime::FaultInjectingBackend *> backends() const {
        std::vector<runtime::FaultInjectingBackend *> all;
        if (x.device().is_cpu())
            all.push_back(faulty_cpu());
        if (x.device().is_cuda() || kind == Kind::TwoDevices)
            all.push_back(faulty_gpus()[0]);
        if (x.device().is_cuda() && kind == Kind::TwoDevices)
            all.push_back(faulty_gpus()[1]);
        return all;
    }
    /// (Gradients of a step that failed are for `zero_grad`.)
    std::map<std::string, std::vector<double>> all(bool gradients = true) const {
        std::map<std::string, Tensor> tensors;
        for (size_t i = 0; i < parameters.size(); ++i) {
            tensors["parameter." + std::to_string(i)] = parameters[i].detach();
            if (gradients)
                tensors["gradient." + std::to_string(i)] = parameters[i].grad();
        }
        for (const auto &[name, tensor] : optimizer->state_dict())
            tensors["optimizer." + name] = tensor;
        std::vector<Tensor> there; // one program for all of them
        for (auto &[name, tensor] : tensors)
            there.push_back(tensor = tensor.cpu().to(f64));
        lz::eval(there);
        std::map<std::string, std::vector<double>> out;
        for (const auto &[name, tensor] : tensors)
            out[name] = tensor.to_vector<double>();
        return out;
    }

    Kind kind;
    std::vector<Tensor> parameters;
    Tensor x;
    std::unique_ptr<optim::Optimizer> optimizer;
};

} // namespace lz::test
