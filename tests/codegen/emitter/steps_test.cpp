/// How many registers of elements a step works on, and what it asks for ahead: seen in the code, which any
/// machine makes for any other.
#include "ir/kernel/builder.h"
#include "tests/support/kernel_run.h"

#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

CpuIsa avx512() {
    CpuIsa isa = codegen::host_isa();
    isa.features = "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+bmi,+bmi2,+f16c,+fma,+lzcnt,"
                   "+movbe,+popcnt,+sse4.1,+sse4.2,+ssse3";
    isa.vector_bytes = 64;
    isa.vector_registers = 32;
    isa.avx512 = true;
    isa.avx512_bf16 = isa.avx512_vnni = isa.amx_bf16 = isa.amx_int8 = false;
    return isa;
}

int count(const std::string &text, const std::string &what) {
    int n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size())
        ++n;
    return n;
}

std::string llvm_of(const Launch &l, const CpuIsa &isa) {
    return codegen::compile_cpu(l.kernel, isa, {.want_text = true}).text;
}

class EmitterSteps : public testing::Test {
protected:
    void SetUp() override {
        if (!codegen::host_isa().triple.starts_with("x86_64"))
            GTEST_SKIP() << "the code of AVX-512 is looked at";
    }
};

/// Multiplications of `depth` that wait for each other, and `beside` that wait for the first input alone.
Launch chain(int inputs, int depth, int beside = 0) {
    return elementwise(std::vector<DType>(static_cast<size_t>(inputs), DType::F32), 1000, 1000,
                       [&](KernelBuilder &b, auto &x) {
                           KValue y = x[0];
                           for (int i = 0; i < beside; ++i) // not one value
                               y = b.sub(y, b.mul(x[0], b.constant(DType::F32, i + 2)));
                           for (int i = 0; i < depth; ++i)
                               y = b.mul(y, x.back());
                           return y;
                       });
}

/// Registers that a step of all elements works on: the last ones are left to steps of one under masks.
int registers_of_a_step(const Launch &l, int multiplications) {
    const int all = count(llvm_of(l, avx512()), "fmul <16 x float>");
    EXPECT_EQ(all % multiplications, 0) << all;
    return all / multiplications - 1;
}

TEST_F(EmitterSteps, LongChainsAreWorkedOnSideBySide) {
    EXPECT_EQ(registers_of_a_step(chain(2, 3), 3), 4); // short: hides the loop around it
    EXPECT_EQ(registers_of_a_step(chain(2, 7), 7), 2);
    EXPECT_EQ(registers_of_a_step(chain(2, 12), 12), 4);
    EXPECT_EQ(registers_of_a_step(chain(2, 40), 40), 4); // of two streams
    EXPECT_EQ(registers_of_a_step(chain(1, 40), 40), 8);
    EXPECT_EQ(registers_of_a_step(chain(1, 12), 12), 4);
    EXPECT_EQ(registers_of_a_step(chain(2, 100), 100), 4);
    EXPECT_EQ(registers_of_a_step(chain(1, 12, 6), 18), 4); // 18 of 24 wait for each other
}

TEST_F(EmitterSteps, ChainsOfEveryWidthGiveTheInterpretersBits) {
    for (const int64_t n : {1, 16, 17, 100, 127, 128, 129, 255, 1000})
        for (const int inputs : {1, 2})
            for (const DType t : {DType::F32, DType::F64, DType::I32})
                for (const StoreTier stores : {StoreTier::Cached, StoreTier::Streaming}) {
                    Launch l = elementwise(std::vector<DType>(static_cast<size_t>(inputs), t), n, 512,
                                           [&](KernelBuilder &b, auto &x) {
                                               KValue y = x[0];
                                               for (int i = 0; i < 30; ++i)
                                                   y = b.sub(b.constant(t, 1), b.mul(y, x.back()));
                                               return y;
                                           });
                    l.kernel.phases[0].on_cpu().stores = stores;
                    expect_equal(l, std::to_string(n) + " of " + std::string(name(t)));
                }
}

TEST_F(EmitterSteps, LargeBodiesAreEmittedOnce) {
    EXPECT_EQ(count(llvm_of(chain(2, 200), avx512()), "fmul <16 x float>"), 200);
}

TEST_F(EmitterSteps, MachinesWith16RegistersAreLeftAsTheyWere) {
    CpuIsa isa = avx512();
    isa.vector_registers = 16;
    isa.vector_bytes = 32;
    isa.avx512 = false;
    isa.features = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse4.1,+sse4.2,+ssse3";
    EXPECT_EQ(count(llvm_of(chain(1, 60), isa), "fmul <8 x float>"), 120);
}

/// LLVM makes one masked load of a load and a choice, and such loads do not tell a processor what comes next.
TEST_F(EmitterSteps, WhatMayBeLoadedUnderAMaskIsAskedFor) {
    const auto prefetches = [](auto body) {
        const Launch l = elementwise({DType::F32, DType::F32}, 1000, 1000, body);
        return count(llvm_of(l, avx512()), "call void @llvm.prefetch");
    };
    EXPECT_GT(prefetches([](KernelBuilder &b, auto &x) {
                  return b.select(b.lt(x[0], b.constant(DType::F32, 1)), x[1], b.constant(DType::F32, 0));
              }),
              1);
    EXPECT_EQ(prefetches([](KernelBuilder &b, auto &x) { return b.maximum(x[0], x[1]); }), 0);
}

} // namespace
} // namespace lz::test
