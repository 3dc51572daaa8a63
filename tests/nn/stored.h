#pragma once
/// What is read of reference files of PyTorch (inputs/): tensors as `[sizes] values`, in f64 and row-major.

#include "support.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

namespace lz::test {

inline std::vector<double> numbers_of(std::istringstream &line) {
    std::vector<double> out;
    for (std::string word; line >> word;)
        out.push_back(std::stod(word)); // `>>` does not read nan
    return out;
}

inline Sizes sizes_of(const std::string &text) { // [2,3]
    Sizes out;
    std::istringstream in(text.substr(1));
    for (int64_t extent = 0; in >> extent; in.ignore(1))
        out.push_back(extent);
    return out;
}

inline Tensor tensor_of(std::istringstream &line) {
    std::string sizes;
    line >> sizes;
    return tensor<double>(numbers_of(line), sizes_of(sizes), {.device = Device::cpu()});
}

inline void expect_near(const Tensor &found, const std::vector<double> &expected, double tolerance = 1e-11) {
    const std::vector<double> values = found.to(f64).to_vector<double>();
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::fabs(expected[i])))
            << "element " << i;
}

} // namespace lz::test
