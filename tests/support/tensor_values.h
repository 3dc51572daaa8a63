#pragma once
/// Comparing tensors with what plain C++ says, for tests of the public API.

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace lz::test {

using Values = std::vector<double>;
using Extents = std::vector<int64_t>;

inline Values values(const Tensor &t) {
    return t.to(f64).to_vector<double>();
}

/// Within `ulp` of the tensor's dtype (relative) or `tolerance` (absolute) of the expected number; NaN equals
/// NaN.
inline void expect_values(const Tensor &t, const Values &expected, double tolerance = 0) {
    const Values found = values(t);
    ASSERT_EQ(found.size(), expected.size()) << t;
    for (size_t i = 0; i < found.size(); ++i) {
        if (std::isnan(expected[i])) {
            EXPECT_TRUE(std::isnan(found[i])) << "element " << i << " of " << t;
        } else if (std::isinf(expected[i])) {
            EXPECT_EQ(found[i], expected[i]) << "element " << i << " of " << t;
        } else {
            EXPECT_NEAR(found[i], expected[i], tolerance) << "element " << i << " of " << t;
        }
    }
}

/// The same with a shape and a dtype.
inline void expect_tensor(const Tensor &t, const Extents &sizes, DType dtype, const Values &expected,
                          double tolerance = 0) {
    EXPECT_EQ(t.sizes(), sizes);
    EXPECT_EQ(t.dtype(), dtype);
    expect_values(t, expected, tolerance);
}

/// f throws E, at a known line of the test's file, with all of these words in its message.
template <class E>
void expect_error(const std::function<void()> &f, const std::vector<std::string> &words) {
    try {
        f();
    } catch (const E &error) {
        const std::string what = error.what();
        for (const std::string &word : words)
            EXPECT_NE(what.find(word), std::string::npos) << '"' << word << "\" is not in: " << what;
        EXPECT_NE(what.find("_test.cpp:"), std::string::npos) << "no place in: " << what;
        EXPECT_GT(error.line(), 0u);
        return;
    } catch (const std::exception &error) {
        ADD_FAILURE() << "another error: " << error.what();
        return;
    }
    ADD_FAILURE() << "no error";
}

} // namespace lz::test
