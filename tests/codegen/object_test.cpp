// The runtime's own loader of objects, beside the interpreter.
#include "ir/kernel/builder.h"
#include "ir/math/expand.h"
#include "tests/support/kernel_run.h"

#include "ir/diagnostic.h"
#include "runtime/cpu/object.h"

#include <gmock/gmock.h>

#include <random>

namespace lz::test {
namespace {

using namespace ir;

Launch sample() {
    Launch l = elementwise({DType::F32, DType::F32}, 1000, 64, [&](KernelBuilder &b, auto &x) {
        return b.add(b.exp(x[0]), b.mul(x[1], b.constant(DType::F32, 0.25)));
    });
    expand_math(l.kernel);
    return l;
}

Outcome run_loaded(const Launch &l, const runtime::Module &module) {
    Outcome o = prepare(l, 1, true);
    with_frame(l, o, [&](const KernelFrame &f, void *worker) {
        reinterpret_cast<PhaseEntry>(module.entry("phase0"))(&f, 0, 16, worker);
    });
    return o;
}

std::string refusal_of(const CompiledKernel &kernel) {
    try {
        runtime::load_object(kernel);
        return {};
    } catch (const Failure &failure) {
        EXPECT_EQ(failure.kind(), ErrorKind::Compile) << failure.message();
        return failure.message();
    }
}

TEST(Object, CodeOfEachLevelThatRunsHereAgreesWithTheInterpreter) {
    const Launch l = sample();
    int ran = 0;
    for (const IsaLevel level : {IsaLevel::V3, IsaLevel::V4, IsaLevel::V4Bf16, IsaLevel::V4Amx}) {
        if (!runs_here(level))
            continue;
        ++ran;
        const auto module = runtime::load_object(codegen::compile_cpu(l.kernel, codegen::isa_of(level)));
        EXPECT_EQ(difference(l, run_interpreted(l), run_loaded(l, *module)), "") << name(level);
    }
    if (ran == 0)
        GTEST_SKIP() << "This processor is below x86-64-v3.";
}

TEST(Object, ThatIsNoneOrNotForThisProcessorIsRefused) {
    CompiledKernel kernel = codegen::compile_cpu(sample().kernel, codegen::isa_of(IsaLevel::V3));
    EXPECT_THROW(runtime::load_object(kernel)->entry("phase7"), Failure);
    CompiledKernel other = kernel;
    other.object[18] = std::byte{183}; // AArch64
    EXPECT_THAT(refusal_of(other), testing::HasSubstr("another kind of processor"));
    other.object.clear();
    EXPECT_THAT(refusal_of(other), testing::HasSubstr("too short"));
    other.format = CodeFormat::KernelText;
    EXPECT_THAT(refusal_of(other), testing::HasSubstr("not for this processor"));
}

TEST(Object, OfChangedBytesIsLoadedOrRefused) {
    const CompiledKernel kernel = codegen::compile_cpu(sample().kernel, codegen::isa_of(IsaLevel::V3));
    std::mt19937 random(3);
    const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
    constexpr uint64_t kNumbers[] = {
        0, 1, 7, 0xff, 0xffff, 0x7fffffff, 0xffffffff, uint64_t{1} << 40, ~uint64_t{0} >> 1, ~uint64_t{0}};
    int refused = 0;
    for (int i = 0; i < 20000; ++i) {
        CompiledKernel changed = kernel;
        for (size_t edits = 1 + below(3); edits > 0; --edits) {
            // Mostly the header and the tables behind the code.
            const size_t size = changed.object.size();
            const size_t at = below(4) == 0   ? below(size)
                              : below(2) == 0 ? below(64)
                                              : size - 1 - below(size / 2);
            const uint64_t number = below(2) == 0 ? kNumbers[below(std::size(kNumbers))] : below(256);
            std::memcpy(changed.object.data() + at, &number, std::min(size_t{1} << below(4), size - at));
        }
        if (below(16) == 0)
            changed.object.resize(below(changed.object.size()));
        refused += !refusal_of(changed).empty(); // what is loaded is not run
    }
    EXPECT_GT(refused, 1000);
}

} // namespace
} // namespace lz::test
