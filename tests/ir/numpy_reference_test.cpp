// The interpreter against results of NumPy, see inputs/make_numpy_reference.py.
#include "ir/interpreter/interpreter.h"
#include "ir/text/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

namespace lz::ir {
namespace {

/// The graphs of the file, which is many modules one after another.
std::vector<std::string> reference_texts() {
    std::ifstream file(LAZULI_TEST_DATA "/inputs/numpy_reference.lz");
    std::stringstream all;
    all << file.rdbuf();
    const std::string text = all.str();
    std::vector<std::string> texts;
    size_t at = text.find("graph @");
    while (at != std::string::npos) {
        const size_t next = text.find("\ngraph @", at);
        texts.push_back(text.substr(at, next == std::string::npos ? next : next - at));
        at = next == std::string::npos ? next : next + 1;
    }
    return texts;
}

/// Distance of the next number of the dtype from this one.
double ulp(DType dtype, double value) {
    const int digits = dtype == DType::F16 ? 11 : dtype == DType::BF16 ? 8 : dtype == DType::F32 ? 24 : 53;
    const int least = dtype == DType::F16 ? -24 : dtype == DType::F64 ? -1074 : -149;
    return std::ldexp(1.0, value == 0 ? least : std::max(std::ilogb(value) - digits + 1, least));
}

TEST(NumpyReference, TheInterpreterGivesWhatNumpyGives) {
    const std::vector<std::string> texts = reference_texts();
    ASSERT_GT(texts.size(), 500u);
    std::set<Op> seen;
    for (const std::string &text : texts) {
        const Graph g = parse_graph(text);
        seen.insert(g.node(0).op);
        const double allowed = std::stod(g.name.substr(g.name.rfind(".ulp") + 4));
        std::vector<HostTensor> inputs, expected;
        for (const Param &p : g.params) {
            inputs.push_back(materialize_param(g, p));
            if (p.name[0] == 'e')
                expected.push_back(inputs.back());
        }
        const std::vector<HostTensor> results = interpret(g, inputs);
        ASSERT_EQ(results.size(), expected.size()) << g.name;
        for (size_t i = 0; i < results.size(); ++i) {
            ASSERT_EQ(results[i].type, expected[i].type) << g.name;
            const DType dtype = results[i].type.dtype;
            if (!is_float(dtype)) {
                EXPECT_EQ(results[i].bytes, expected[i].bytes) << g.name;
                continue;
            }
            const auto got = to_doubles(results[i]), want = to_doubles(expected[i]);
            for (size_t k = 0; k < got.size(); ++k) {
                const bool same = got[k] == want[k] || (std::isnan(got[k]) && std::isnan(want[k]));
                EXPECT_TRUE(same || std::fabs(got[k] - want[k]) <= allowed * ulp(dtype, want[k]))
                    << g.name << " result " << i << " element " << k << ": " << got[k] << ", NumPy gives "
                    << want[k];
            }
        }
    }
    // NumPy knows nothing of these.
    const std::set<Op> open = {Op::Constant, Op::Literal, Op::Philox, Op::Transfer};
    for (int op = 0; op < num_ops(); ++op) {
        const OpFamily family = info(static_cast<Op>(op)).family;
        if (family != OpFamily::Effect && family != OpFamily::Call && !open.contains(static_cast<Op>(op))) {
            EXPECT_TRUE(seen.contains(static_cast<Op>(op)))
                << "no reference for " << name(static_cast<Op>(op));
        }
    }
}

} // namespace
} // namespace lz::ir
