#pragma once
/// Small functions that are called for the first time (bench_cold_start), and as files (bench_program_files).
/// Every input is all ones; every element of a result is known.

#include <lazuli/lazuli.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace lz::bench {

/// A tensor in f32 of equal elements.
inline Tensor filled(const std::vector<int64_t> &shape, float value) {
    size_t count = 1;
    for (const int64_t extent : shape)
        count *= static_cast<size_t>(extent);
    return from_blob(std::vector<float>(count, value).data(), shape);
}

struct Function {
    std::string name;
    std::vector<std::vector<int64_t>> inputs; ///< their shapes
    Tensor (*of)(const std::vector<Tensor> &);
    float result; ///< of every element

    /// From memory of the host: nothing is compiled for them.
    std::vector<Tensor> make_inputs() const {
        std::vector<Tensor> all;
        for (const std::vector<int64_t> &shape : inputs)
            all.push_back(filled(shape, 1));
        return all;
    }
    bool is_right(float element) const { return std::abs(element - result) < 1e-4f * result; }
};

/// Two layers whose weights are the function's own.
inline Tensor mlp(const std::vector<Tensor> &in) {
    static const Tensor w1 = filled({64, 128}, 0.01f), w2 = filled({128, 10}, 0.01f);
    return softmax(matmul(relu(matmul(in[0], w1)), w2), -1) * 10;
}

inline const std::vector<Function> &functions() {
    static const std::vector<Function> all = {
        {"attention",
         {{8, 64, 64}, {8, 64, 64}, {8, 64, 64}},
         [](const std::vector<Tensor> &in) {
             return matmul(softmax(matmul(in[0], in[1].transpose(1, 2)) * 0.125, -1), in[2]);
         },
         1},
        {"mlp", {{64, 64}}, mlp, 1},
        {"multiply_add",
         {{1000}, {1000}, {1000}},
         [](const std::vector<Tensor> &in) { return in[0] * in[1] + in[2]; },
         2},
        {"softmax", {{64, 100}}, [](const std::vector<Tensor> &in) { return softmax(in[0], -1) * 100; }, 1},
    };
    return all;
}

/// As a file.
inline void save_function(const Function &function, const std::string &path) {
    const NoGradGuard guard;
    auto compiled = compile([&](const std::vector<Tensor> &in) { return function.of(in); });
    for (int call = 0; call < 3; ++call)
        compiled(function.make_inputs());
    save_program(path, compiled, {.name = function.name});
}

} // namespace lz::bench
