#include "kernel_run.h"

#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

Access contiguous(uint16_t buffer, AxisId axis) {
    Access a;
    a.buffer = buffer;
    a.strides = {{axis, StrideClass::Contiguous, kNoArg}};
    return a;
}

/// out[i] = f(inputs[i]...) over one axis.
template <class F>
Launch elementwise(std::vector<DType> inputs, int64_t n, int64_t block, F f) {
    KernelBuilder b;
    const AxisId axis = b.axis();
    const ArgId size = b.arg(ArgRole::Block);
    std::vector<uint16_t> in;
    for (const DType t : inputs)
        in.push_back(b.buffer(t, BufferMode::In));
    Phase &phase = b.begin_phase({axis}, true);
    phase.block = size;
    std::vector<KValue> x;
    for (const uint16_t i : in)
        x.push_back(b.load(contiguous(i, axis)));
    const KValue y = f(b, x);
    const uint16_t out = b.buffer(b.dtype(y), BufferMode::Out);
    b.store(contiguous(out, axis), y);
    b.end_phase();
    Launch l{b.take(), {n, block}, {}, {}, 0};
    l.elements.assign(inputs.size() + 1, n);
    return l;
}

void expect_equal(const Launch &l, const char *what) {
    verify(l.kernel);
    const Outcome oracle = run_interpreted(l);
    for (const int bytes : {64, 32, 16})
        EXPECT_EQ(difference(l, oracle, run_compiled(l, isa_with(bytes))), "")
            << what << " with vectors of " << bytes << " bytes\n"
            << codegen::compile_cpu(l.kernel, isa_with(bytes), {.want_text = true}).text;
}

TEST(EmitterLoop, FusedMultiplyAndAddGivesTheInterpretersBits) {
    for (const int64_t n : {1, 2, 15, 16, 17, 64, 100, 1000})
        expect_equal(elementwise({DType::F32, DType::F32, DType::F32}, n, 64,
                                 [](KernelBuilder &b, auto &x) { return b.add(b.mul(x[0], x[1]), x[2]); }),
                     "a * b + c");
}

} // namespace
} // namespace lz::test
