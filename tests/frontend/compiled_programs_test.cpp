// Random graphs over the whole op table, recorded by a function that is compiled: the bits of the function.
//
// LAZULI_FUZZ_PROGRAMS=n  how many (300; 60 in sanitizer builds)
// LAZULI_FUZZ_SEED=s      the first seed (1)
#include "frontend/record/access.h"
#include "frontend/record/convert.h"
#include "frontend/record/record.h"
#include "frontend/record/storage.h"
#include "frontend/record/sync/sync.h"
#include "ir/interpreter/interpreter.h"
#include "ir/text/text.h"
#include "tests/support/environment.h"
#include "tests/support/random/graph.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace {

using namespace lz;

#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
constexpr int64_t kPrograms = 60;
#else
constexpr int64_t kPrograms = 300;
#endif

/// The graph's nodes as a user's calls would record them.
std::vector<Tensor> record_graph(const ir::Graph &graph, const std::vector<Tensor> &inputs) {
    std::vector<Tensor> values(graph.values().size());
    for (size_t i = 0; i < graph.params.size(); ++i)
        values[graph.params[i].value] = inputs[i];
    for (const ir::Node &node : graph.nodes()) {
        std::vector<const Tensor *> operands;
        for (const ir::ValueId operand : graph.operands(node))
            operands.push_back(&values[operand]);
        const ir::AttrView attrs = graph.attrs(node);
        std::vector<Tensor> results = detail::record_many(node.op, operands, attrs.structural, attrs.runtime,
                                                          Location(__FILE__, __LINE__));
        for (uint32_t k = 0; k < node.result_count; ++k)
            values[graph.result(node, k)] = results[k];
    }
    std::vector<Tensor> results;
    for (const ir::ValueId result : graph.results)
        results.push_back(values[result]);
    return results;
}

Tensor tensor_of(const ir::HostTensor &host) {
    detail::Storage *const storage = detail::Storage::allocate(static_cast<int64_t>(host.bytes.size()), {});
    if (!host.bytes.empty())
        std::memcpy(storage->data(), host.bytes.data(), host.bytes.size());
    ir::TensorType type = host.type;
    const ir::Device device = std::exchange(type.device, ir::kCpu);
    return detail::make_ready(type, storage, {}).to(detail::from_ir(device));
}

/// But for the payloads of NaN.
bool same_bits(const Tensor &a, const Tensor &b) {
    const Tensor x = a.cpu(), y = b.cpu();
    const auto bytes = static_cast<size_t>(detail::type_of(x).bytes());
    if (!(detail::type_of(x) == detail::type_of(y)))
        return false;
    const auto at = [](const Tensor &t) {
        return detail::materialize_now(detail::Access::node(t), {})->data();
    };
    if (bytes == 0 || std::memcmp(at(x), at(y), bytes) == 0)
        return true;
    const std::vector<double> p = x.to(f64).to_vector<double>(), q = y.to(f64).to_vector<double>();
    for (size_t i = 0; i < p.size(); ++i)
        if (p[i] != q[i] && !(std::isnan(p[i]) && std::isnan(q[i])))
            return false;
    return true;
}

/// `replayed`: counts calls that were.
void expect_same(uint64_t seed, const test::RandomGraphOptions &options, int64_t &replayed) {
    const ir::Graph graph = test::random_graph(seed, options).graph;
    std::vector<Tensor> given;
    for (const ir::Param &param : graph.params)
        given.push_back(tensor_of(ir::materialize_param(graph, param)));
    const auto f = [&](const std::vector<Tensor> &inputs) { return record_graph(graph, inputs); };
    const auto compiled = compile(f);
    for (int call = 0; call < 4; ++call) {
        std::vector<Tensor> inputs;
        for (const Tensor &one : given)
            inputs.push_back(call % 2 == 0 ? one : one.clone());
        const std::vector<Tensor> got = compiled(inputs), want = f(inputs);
        ASSERT_EQ(got.size(), want.size());
        for (size_t r = 0; r < got.size(); ++r)
            EXPECT_TRUE(same_bits(got[r], want[r]))
                << "seed " << seed << ", call " << call << ", result " << r << "\n"
                << ir::print(graph);
    }
    replayed += compiled.stats().replays;
}

TEST(CompiledPrograms, RandomGraphsHaveTheBitsOfTheFunction) {
    const int64_t programs = test::number_from("LAZULI_FUZZ_PROGRAMS", kPrograms);
    const auto first = static_cast<uint64_t>(test::number_from("LAZULI_FUZZ_SEED", 1));
    int64_t replayed = 0;
    for (uint64_t seed = first; seed < first + static_cast<uint64_t>(programs); ++seed) {
        test::RandomGraphOptions options;
        options.special_values = seed % 4 == 1;
        options.updates = seed % 4 == 2 ? 30 : 0;
        if (cuda::device_count() > 0 && seed % 3 == 0) {
            options.gpus = std::min(2, cuda::device_count());
            options.cpu_scalars = seed % 2 == 0;
        }
        expect_same(seed, options, replayed);
    }
    EXPECT_GT(replayed, programs); // of two calls that could be
}

} // namespace
