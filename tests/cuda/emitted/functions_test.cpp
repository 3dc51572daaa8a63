/// What functions of f32 execute, as the interpreter of PTX counts it.

#include "emitted/emitted.h"
#include "ir/kernel/builder.h"
#include "kernels.h"

#include <functional>
#include <map>
#include <string>

namespace lz::test {
namespace {

using namespace ir;

/// GPUs that are made for games have few units for f64: those instructions stand behind the branch that asks
/// whether an argument is large, or a power tiny or huge.
TEST(EmittedFunctions, SinesTangentsAndPowersOfModerateArgumentsTakeNoF64) {
    if (!why_not_run().empty())
        GTEST_SKIP() << why_not_run();
    using Function = std::function<KValue(KernelBuilder &, KValue)>;
    const auto f64 = [&](const Function &f) {
        std::map<std::string, uint64_t> counts;
        const Launch l = scheduled(
            elementwise({DType::F32}, 1 << 12, 64, [&](KernelBuilder &b, auto &x) { return f(b, x[0]); }));
        run_cuda(l, {.corners = false, .instructions = &counts});
        uint64_t doubles = 0, all = 0;
        for (const auto &[name, count] : counts) {
            all += count;
            if (name.find("f64") != std::string::npos)
                doubles += count;
        }
        return std::pair{doubles, all};
    };
    const std::pair<const char *, Function> functions[] = {
        {"sin", [](KernelBuilder &b, KValue x) { return b.sin(x); }},
        {"cos", [](KernelBuilder &b, KValue x) { return b.cos(x); }},
        {"tan", [](KernelBuilder &b, KValue x) { return b.tan(x); }},
        {"pow", [](KernelBuilder &b, KValue x) {
             const auto c = [&](double v) { return b.constant(DType::F32, v); };
             return b.pow(b.minimum(b.maximum(b.abs(x), c(0.25)), c(8)),
                          b.minimum(b.maximum(x, c(-3)), c(3)));
         }}};
    if (f64(functions[0].second).second == 0)
        GTEST_SKIP() << "A device does not count what it executes: the interpreter of PTX does.";
    for (const auto &[name, function] : functions)
        EXPECT_EQ(f64(function).first, 0U) << name;
    // The count sees them where they are.
    EXPECT_GT(
        f64([](KernelBuilder &b, KValue x) { return b.sin(b.mul(x, b.constant(DType::F32, 1e9))); }).first,
        0U);
}

} // namespace
} // namespace lz::test
