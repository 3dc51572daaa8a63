// The interpreter of PTX, an instruction at a time: PTX written by hand, results from the PTX document.

#include "ir/types/dtype.h"
#include "tests/support/cuda/device_memory.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace lz::test {
namespace {

/// A kernel of one warp: each lane loads a, b and c (u64), computes into %d, and stores it.
std::vector<uint64_t> compute(const std::string &code, const std::vector<uint64_t> &a,
                              std::vector<uint64_t> b = {}, std::vector<uint64_t> c = {}) {
    b.resize(a.size());
    c.resize(a.size());
    PtxProgram program(R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1, .param .u64 k_param_2, .param .u64 k_param_3)
{
    .reg .pred %p<4>;
    .reg .b16 %rs<8>;
    .reg .b32 %r<16>;
    .reg .f32 %f<8>;
    .reg .f64 %fd<8>;
    .reg .b64 %rd<24>;
    .reg .b64 %a, %b, %c, %d;
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd0, %r0, 8;
    ld.param.u64 %rd1, [k_param_0];
    ld.param.u64 %rd2, [k_param_1];
    ld.param.u64 %rd3, [k_param_2];
    ld.param.u64 %rd4, [k_param_3];
    add.s64 %rd5, %rd1, %rd0;
    add.s64 %rd6, %rd2, %rd0;
    add.s64 %rd7, %rd3, %rd0;
    add.s64 %rd8, %rd4, %rd0;
    ld.global.u64 %a, [%rd5];
    ld.global.u64 %b, [%rd6];
    ld.global.u64 %c, [%rd7];
    cvt.u32.u64 %r1, %a;
    cvt.u32.u64 %r2, %b;
    cvt.u32.u64 %r3, %c;
    cvt.u16.u64 %rs1, %a;
    cvt.u16.u64 %rs2, %b;
    mov.b32 %f1, %r1;
    mov.b32 %f2, %r2;
    mov.b32 %f3, %r3;
    mov.b64 %fd1, %a;
    mov.b64 %fd2, %b;
    mov.u64 %d, 0;
)" + code + R"(
    st.global.u64 [%rd8], %d;
    ret;
}
)");
    DeviceMemory memory;
    const uint64_t out = memory.put(std::vector<uint64_t>(a.size()));
    program.run("k", {1, 1, 1}, {static_cast<uint32_t>(a.size()), 1, 1}, memory, memory.put(a), memory.put(b),
                memory.put(c), out);
    return memory.get<uint64_t>(out);
}
uint64_t bits(float f) {
    return std::bit_cast<uint32_t>(f);
}
uint64_t bits(double f) {
    return std::bit_cast<uint64_t>(f);
}
uint64_t low(int32_t i) {
    return static_cast<uint32_t>(i);
}
/// The result's lower half.
const char *const kFrom32 = "cvt.u64.u32 %d, %r4;";
std::vector<uint64_t> compute32(const std::string &code, const std::vector<uint64_t> &a,
                                const std::vector<uint64_t> &b = {}, const std::vector<uint64_t> &c = {}) {
    return compute(code + kFrom32, a, b, c);
}
std::vector<uint64_t> compute_f32(const std::string &code, const std::vector<uint64_t> &a,
                                  const std::vector<uint64_t> &b = {}, const std::vector<uint64_t> &c = {}) {
    return compute(code + "mov.b32 %r4, %f4; cvt.u64.u32 %d, %r4;", a, b, c);
}
using U = std::vector<uint64_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Of a struct with padding the compiler says which bytes it uses; nobody wrote the others.
TEST(PtxInstructions, LoadsMayTakeThePaddingOfAStructAlong) {
    EXPECT_EQ(compute(R"(
    .shared .align 16 .b8 structs[512];
    mov.u32 %r4, structs;
    shl.b32 %r5, %r0, 4;
    add.s32 %r4, %r4, %r5;
    st.shared.u32 [%r4], %r1;
    st.shared.u64 [%r4+8], %b;
    .pragma "used_bytes_mask 65295";
    ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r4];
    cvt.u64.u32 %d, %r6;
    cvt.u64.u32 %rd9, %r8;
    add.s64 %d, %d, %rd9;
)",
                      {1, 2}, {10, 20}),
              (std::vector<uint64_t>{11, 22}));
}

/// A compiler may put a register together whose other half nobody uses: NVRTC 13.5 does.
TEST(PtxInstructions, HalvesThatNobodyWroteAreAnErrorWhereTheyAreUsed) {
    const std::vector<uint64_t> a{0x1111222233334444, 7};
    const auto fault_of = [&](const std::string &code) -> std::string {
        try {
            compute(code, a);
            return "";
        } catch (const ptx::Fault &fault) {
            EXPECT_EQ(fault.kind, ptx::Fault::Kind::Uninitialized);
            return fault.what();
        }
    };
    // The low half, through a copy of the whole.
    EXPECT_EQ(compute("mov.b64 %rd9, {%r1, %r9}; mov.b64 %rd10, %rd9; mov.b64 {%r4, %r5}, %rd10;"
                      "cvt.u64.u32 %d, %r4;",
                      a),
              (std::vector<uint64_t>{0x33334444, 7}));
    // One that is written later, and 16 bits of 64.
    EXPECT_EQ(compute("mov.b64 %rd9, {%r1, %r9}; mov.b64 %rd9, {%r1, %r2}; mov.b64 %d, %rd9;", a),
              (std::vector<uint64_t>{0x33334444, 7}));
    EXPECT_EQ(
        compute("mov.b32 %r9, {%rs5, %rs1}; mov.b64 %rd9, {%r9, %r8}; mov.b64 {%rs2, %rs3, %rs4, %rs6}, "
                "%rd9; cvt.u64.u16 %d, %rs3;",
                a),
        (std::vector<uint64_t>{0x4444, 7}));
    const std::string half = "mov.b64 %rd9, {%r1, %r9}; mov.b64 {%r4, %r5}, %rd9;";
    EXPECT_NE(fault_of(half + "cvt.u64.u32 %d, %r5;").find("register %r5 is read"), std::string::npos);
    EXPECT_NE(fault_of(half + "add.u64 %d, %rd9, %rd9;").find("register %rd9 is read"), std::string::npos);
    EXPECT_NE(fault_of(half + "mov.b64 %d, %rd9;").find("register %d is read"), std::string::npos);
    EXPECT_NE(fault_of("mov.b64 %rd9, {%r1, %r2}; mov.b64 %rd9, {%r9, %r1}; st.local.b64 [%rd0], %rd9;")
                  .find("register %rd9 is read"),
              std::string::npos);
    EXPECT_NE(fault_of("mov.b64 %d, {%r8, %r9};").find("register %r8 is read"), std::string::npos);
    EXPECT_NE(fault_of("mov.b64 {%r4, %r5}, %rd20;").find("register %rd20 is read"), std::string::npos);
    // Of lanes that took another way: the second one.
    EXPECT_NE(
        fault_of("setp.eq.u32 %p1, %r0, 0; @%p1 mov.u32 %r9, 5; mov.b64 %d, {%r1, %r9};").find("(1,0,0)"),
        std::string::npos);
}

/// Of a generic address that of the cluster's shared memory, and back.
TEST(PtxInstructions, AddressesOfTheSharedMemoryOfAClusterAreConverted) {
    EXPECT_EQ(
        compute(".shared .align 8 .b8 s[256]; mov.u64 %rd9, s; add.u64 %rd9, %rd9, %rd0;"
                "cvta.shared.u64 %rd10, %rd9; st.u64 [%rd10], %a;"
                "cvta.to.shared::cluster.u64 %rd11, %rd10; ld.shared::cluster.u64 %rd12, [%rd11];"
                "cvta.shared::cluster.u64 %rd13, %rd11; ld.u64 %rd14, [%rd13]; add.u64 %d, %rd12, %rd14;",
                {5, 70}),
        (std::vector<uint64_t>{10, 140}));
}

TEST(PtxInstructions, IntegersWrapAndDivideAsTheHardwareDoes) {
    EXPECT_EQ(compute32("add.s32 %r4, %r1, %r2;", {0xffffffff, 5}, {1, 7}), (U{0, 12}));
    EXPECT_EQ(compute32("mul.lo.s32 %r4, %r1, %r2;", {low(-3), 0x10000}, {7, 0x10000}), (U{low(-21), 0}));
    EXPECT_EQ(compute32("mul.hi.u32 %r4, %r1, %r2;", {0xffffffff}, {0xffffffff}), (U{0xfffffffe}));
    EXPECT_EQ(compute32("mul.hi.s32 %r4, %r1, %r2;", {low(-1)}, {5}), (U{0xffffffff}));
    EXPECT_EQ(compute("mul.wide.s32 %d, %r1, %r2;", {low(-2)}, {3}), (U{static_cast<uint64_t>(-6)}));
    EXPECT_EQ(compute("mul.hi.u64 %d, %a, %b;", {~uint64_t{0}}, {~uint64_t{0}}), (U{~uint64_t{0} - 1}));
    EXPECT_EQ(compute32("div.s32 %r4, %r1, %r2;", {low(-7), low(INT32_MIN), 9}, {2, low(-1), 0}),
              (U{low(-3), low(INT32_MIN), 0xffffffff}));
    EXPECT_EQ(compute32("rem.s32 %r4, %r1, %r2;", {low(-7), low(INT32_MIN), 9}, {2, low(-1), 0}),
              (U{low(-1), 0, 9}));
    EXPECT_EQ(compute32("mad.lo.s32 %r4, %r1, %r2, %r3;", {3}, {4}, {5}), (U{17}));
    EXPECT_EQ(compute("mad.wide.u32 %d, %r1, %r2, %c;", {0xffffffff}, {2}, {1}), (U{0x1ffffffff}));
    EXPECT_EQ(compute32("min.s32 %r4, %r1, %r2;", {low(-1)}, {1}), (U{low(-1)}));
    EXPECT_EQ(compute32("min.u32 %r4, %r1, %r2;", {low(-1)}, {1}), (U{1}));
    EXPECT_EQ(compute32("abs.s32 %r4, %r1;", {low(-5), low(INT32_MIN)}), (U{5, low(INT32_MIN)}));
}

/// Two halves at a time, rounded once: what the language says, rounded to f32 first, is the same.
TEST(PtxInstructions, PairsOfHalvesAreRoundedOnce) {
    std::mt19937_64 random(3);
    struct Operation {
        const char *bf16, *f16;
        float (*of)(float, float);
    };
    const Operation operations[] = {
        {"mov.b32 %r5, 0x3f803f80; fma.rn.bf16x2 %r4, %r1, %r5, %r2;",
         "mov.b32 %r5, 0x3c003c00; fma.rn.f16x2 %r4, %r1, %r5, %r2;", [](float x, float y) { return x + y; }},
        {"mov.b32 %r5, 0xbf80bf80; fma.rn.bf16x2 %r4, %r2, %r5, %r1;",
         "mov.b32 %r5, 0xbc00bc00; fma.rn.f16x2 %r4, %r2, %r5, %r1;", [](float x, float y) { return x - y; }},
        {"mov.b32 %r5, 0x80008000; fma.rn.bf16x2 %r4, %r1, %r2, %r5;",
         "mov.b32 %r5, 0x80008000; fma.rn.f16x2 %r4, %r1, %r2, %r5;",
         [](float x, float y) { return x * y; }}};
    for (const Operation &operation : operations)
        for (const bool bf16 : {true, false}) {
            const auto wide = [&](uint64_t half) {
                return bf16 ? ir::bfloat_to_float(static_cast<uint16_t>(half))
                            : ir::half_to_float(static_cast<uint16_t>(half));
            };
            for (int round = 0; round < 40; ++round) {
                U a(1024), b(1024);
                for (size_t i = 0; i < a.size(); ++i) {
                    a[i] = random() & 0xffffffff;
                    b[i] = random() & 0xffffffff;
                    if (i % 2) // of like size, and both small
                        b[i] = (a[i] & (round % 2 ? 0x87ff87ff : 0xffffffff)) ^ (random() & 0x801f801f);
                    if (i % 4 == 1)
                        a[i] &= 0x80ff80ff;
                }
                const U found = compute32(bf16 ? operation.bf16 : operation.f16, a, b);
                for (size_t i = 0; i < a.size(); ++i)
                    for (const int shift : {0, 16}) {
                        const float exact = operation.of(wide(a[i] >> shift), wide(b[i] >> shift));
                        const uint16_t expected =
                            bf16 ? ir::float_to_bfloat(exact) : ir::float_to_half(exact);
                        const auto got = static_cast<uint16_t>(found[i] >> shift);
                        if (exact != exact)
                            ASSERT_TRUE(wide(got) != wide(got));
                        else
                            ASSERT_EQ(got, expected)
                                << operation.bf16 << std::hex << ' ' << a[i] << ' ' << b[i] << ' ' << bf16;
                    }
            }
        }
    EXPECT_EQ(compute32("max.NaN.bf16x2 %r4, %r1, %r2;", {0x3f808000, 0x7fc0bf80}, {0x40000000, 0x3f80c000}),
              (U{0x40000000, 0x7fffbf80}));
    EXPECT_EQ(compute32("min.NaN.f16x2 %r4, %r1, %r2;", {0x3c008000, 0x7e00bc00}, {0x40000000, 0x3c00c000}),
              (U{0x3c008000, 0x7fffc000}));
    EXPECT_EQ(
        compute32("set.eq.u32.bf16x2 %r4, %r1, %r2;", {0x3f808000, 0x7fc0bf80}, {0x3f800000, 0x7fc0c000}),
        (U{0xffffffff, 0}));
}

TEST(PtxInstructions, BitsShiftsAndFields) {
    EXPECT_EQ(compute32("shl.b32 %r4, %r1, %r2;", {1, 1, 1}, {31, 32, 255}), (U{0x80000000, 0, 0}));
    EXPECT_EQ(compute32("shr.s32 %r4, %r1, %r2;", {low(-8), low(-8), 8}, {1, 40, 40}),
              (U{low(-4), low(-1), 0}));
    EXPECT_EQ(compute("shr.u64 %d, %a, %r2;", {uint64_t{1} << 63, 1}, {63, 64}), (U{1, 0}));
    EXPECT_EQ(compute32("bfe.u32 %r4, %r1, %r2, %r3;", {0x12345678, 0xffffffff}, {8, 28}, {8, 8}),
              (U{0x56, 0xf}));
    EXPECT_EQ(compute32("bfe.s32 %r4, %r1, %r2, %r3;", {0x12345678, 0x0000f000, 0x80000000, 7},
                        {12, 12, 28, 0}, {8, 4, 8, 0}),
              (U{0x45, 0xffffffff, 0xfffffff8, 0}));
    EXPECT_EQ(compute32("bfi.b32 %r4, %r1, %r2, 8, 4;", {0xab}, {0xffffffff}), (U{0xfffffbff}));
    EXPECT_EQ(compute32("dp4a.s32.s32 %r4, %r1, %r2, 5;", {0xff028001, 0}, {0x01010102, 0}),
              (U{0xffffff88, 5}));
    EXPECT_EQ(compute32("dp4a.u32.u32 %r4, %r1, %r2, 5;", {0xff028001}, {0x01010102}), (U{392}));
    EXPECT_EQ(compute32("dp4a.s32.u32 %r4, %r1, %r2, 0;", {0xff000000}, {0xff000000}), (U{0xffffff01}));
    EXPECT_EQ(compute32("dp4a.u32.s32 %r4, %r1, %r2, 0;", {0xff000000}, {0xfe000000}), (U{0xfffffe02}));
    EXPECT_EQ(
        compute32("prmt.b32 %r4, %r1, %r2, %r3;", {0x33221100, 0x80}, {0x77665544, 0}, {0x7531, 0x8888}),
        (U{0x77553311, 0xffffffff}));
    EXPECT_EQ(compute32("lop3.b32 %r4, %r1, %r2, %r3, 0x96;", {0xf0}, {0xcc}, {0xaa}),
              (U{0xf0 ^ 0xcc ^ 0xaa}));
    EXPECT_EQ(compute32("shf.l.wrap.b32 %r4, %r1, %r2, %r3;", {0x80000000, 1}, {1, 2}, {1, 32}), (U{3, 2}));
    EXPECT_EQ(compute32("shf.r.clamp.b32 %r4, %r1, %r2, %r3;", {2, 1}, {1, 9}, {1, 40}), (U{0x80000001, 9}));
    EXPECT_EQ(compute32("popc.b32 %r4, %r1;", {0xff00ff, 0}), (U{16, 0}));
    EXPECT_EQ(compute32("clz.b64 %r4, %a;", {1, 0}), (U{63, 64}));
    EXPECT_EQ(compute32("brev.b32 %r4, %r1;", {1}), (U{0x80000000}));
    EXPECT_EQ(compute32("bfind.s32 %r4, %r1;", {0, low(-1), 0x40, low(-2)}),
              (U{0xffffffff, 0xffffffff, 6, 0}));
    EXPECT_EQ(compute32("mov.b32 %r4, {%rs1, %rs2};", {0x1234}, {0xabcd}), (U{0xabcd1234}));
    EXPECT_EQ(compute32("mov.b64 {%r4, %r5}, %a;", {0x1122334455667788}), (U{0x55667788}));
}

TEST(PtxInstructions, FloatsRoundToNearestAndNoNumberIsCanonical) {
    EXPECT_EQ(
        compute_f32("add.rn.f32 %f4, %f1, %f2;", {bits(1.0f), bits(kInf)}, {bits(0x1p-24f), bits(-kInf)}),
        (U{bits(1.0f), 0x7fffffff}));
    EXPECT_EQ(compute_f32("fma.rn.f32 %f4, %f1, %f2, %f3;", {bits(1.0f + 0x1p-12f)}, {bits(1.0f + 0x1p-12f)},
                          {bits(-1.0f)}),
              (U{bits(std::fma(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -1.0f))}));
    EXPECT_EQ(compute_f32("div.rn.f32 %f4, %f1, %f2;", {bits(1.0f), bits(0.0f)}, {bits(3.0f), bits(0.0f)}),
              (U{bits(1.0f / 3.0f), 0x7fffffff}));
    EXPECT_EQ(compute_f32("sqrt.rn.f32 %f4, %f1;", {bits(2.0f), bits(-1.0f), bits(-0.0f)}),
              (U{bits(std::sqrt(2.0f)), 0x7fffffff, bits(-0.0f)}));
    EXPECT_EQ(compute_f32("min.f32 %f4, %f1, %f2;", {0x7fc00001, bits(0.0f), 0x7fc00001},
                          {bits(2.0f), bits(-0.0f), 0xffc00000}),
              (U{bits(2.0f), bits(-0.0f), 0x7fffffff}));
    EXPECT_EQ(compute_f32("max.NaN.f32 %f4, %f1, %f2;", {0x7fc00001, bits(0.0f)}, {bits(2.0f), bits(-0.0f)}),
              (U{0x7fffffff, bits(0.0f)}));
    EXPECT_EQ(compute_f32("copysign.f32 %f4, %f1, %f2;", {bits(-1.0f)}, {bits(5.0f)}), (U{bits(-5.0f)}));
    EXPECT_EQ(compute("add.rn.f64 %fd3, %fd1, %fd2; mov.b64 %d, %fd3;", {bits(0.1)}, {bits(0.2)}),
              (U{bits(0.1 + 0.2)}));
    // 1 + 2^-24 + 2^-60: rounding twice would lose it
    EXPECT_EQ(compute_f32("cvt.rn.f32.f64 %f4, %fd1;", {bits(1.0 + 0x1p-24 + 0x1p-50)}),
              (U{bits(1.0f + 0x1p-23f)}));
}

TEST(PtxInstructions, ConversionsSaturateAndTreatNoNumberAsTheDocumentSays) {
    EXPECT_EQ(compute32("cvt.rzi.s32.f32 %r4, %f1;", {bits(-2.9f), bits(3e9f), bits(-3e9f), 0x7fc00000}),
              (U{low(-2), INT32_MAX, low(INT32_MIN), 0}));
    EXPECT_EQ(compute32("cvt.rni.s32.f32 %r4, %f1;", {bits(2.5f), bits(3.5f)}), (U{2, 4}));
    EXPECT_EQ(compute32("cvt.rzi.u32.f32 %r4, %f1;", {bits(-1.0f), bits(5e9f)}), (U{0, 0xffffffff}));
    EXPECT_EQ(compute("cvt.rzi.s64.f64 %d, %fd1;", {bits(std::nan("")), bits(1e30)}),
              (U{uint64_t{1} << 63, INT64_MAX}));
    EXPECT_EQ(compute_f32("cvt.rmi.f32.f32 %f4, %f1;", {bits(-0.5f), bits(1.5f)}),
              (U{bits(-1.0f), bits(1.0f)}));
    EXPECT_EQ(compute_f32("cvt.rn.f32.s32 %f4, %r1;", {low(-16777217)}), (U{bits(-16777216.0f)}));
    EXPECT_EQ(compute_f32("cvt.rn.f32.u64 %f4, %a;", {~uint64_t{0}}), (U{bits(0x1p64f)}));
    EXPECT_EQ(compute32("cvt.s32.s16 %r4, %rs1;", {0x8000}), (U{0xffff8000}));
    EXPECT_EQ(compute32("cvt.u32.u8 %r4, %r1;", {0x1ff}), (U{0xff}));
    EXPECT_EQ(compute("cvt.s64.s32 %d, %r1;", {low(-1)}), (U{~uint64_t{0}}));
    EXPECT_EQ(compute32("cvt.sat.u8.s32 %r4, %r1;", {low(-5), 300}), (U{0, 255}));
    // halves: 65520 rounds to infinity, 65519 does not
    EXPECT_EQ(compute("cvt.rn.f16.f32 %rs3, %f1; cvt.u64.u16 %d, %rs3;",
                      {bits(65520.0f), bits(65519.0f), bits(0x1p-25f), 0x7fc00000}),
              (U{0x7c00, 0x7bff, 0, 0x7fff}));
    EXPECT_EQ(compute_f32("cvt.f32.f16 %f4, %rs1;", {0x0001, 0x7c00}), (U{bits(0x1p-24f), bits(kInf)}));
    EXPECT_EQ(compute("cvt.rn.bf16.f32 %rs3, %f1; cvt.u64.u16 %d, %rs3;",
                      {bits(1.0f + 0x1p-8f), bits(1.0f + 0x1p-8f + 0x1p-20f)}),
              (U{0x3f80, 0x3f81}));
    EXPECT_EQ(compute32("cvt.rn.bf16x2.f32 %r4, %f1, %f2;", {bits(2.0f)}, {bits(1.0f)}), (U{0x40003f80}));
}

TEST(PtxInstructions, ComparisonsAndPredicates) {
    const std::string select = "selp.u32 %r4, 1, 0, %p1;";
    EXPECT_EQ(compute32("setp.lt.s32 %p1, %r1, %r2;" + select, {low(-1)}, {1}), (U{1}));
    EXPECT_EQ(compute32("setp.lt.u32 %p1, %r1, %r2;" + select, {low(-1)}, {1}), (U{0}));
    EXPECT_EQ(
        compute32("setp.ne.f32 %p1, %f1, %f2;" + select, {0x7fc00000, bits(1.0f)}, {bits(1.0f), bits(2.0f)}),
        (U{0, 1}));
    EXPECT_EQ(compute32("setp.neu.f32 %p1, %f1, %f2;" + select, {0x7fc00000}, {bits(1.0f)}), (U{1}));
    EXPECT_EQ(compute32("setp.nan.f32 %p1, %f1, %f2;" + select, {0x7fc00000, 0}, {0, 0}), (U{1, 0}));
    EXPECT_EQ(compute32("setp.gt.s32 %p2, %r3, 0; setp.lt.and.s32 %p1|%p3, %r1, %r2, !%p2;" + select, {0, 0},
                        {1, 1}, {1, 0}),
              (U{0, 1}));
    EXPECT_EQ(
        compute32(
            "setp.eq.s32 %p1, %r1, 3; not.pred %p1, %p1; xor.pred %p2, %p1, %p1; or.pred %p1, %p1, %p2;" +
                select,
            {3, 4}),
        (U{0, 1}));
    EXPECT_EQ(
        compute32("mov.u32 %r4, 7; setp.eq.s32 %p1, %r1, 3; @%p1 mov.u32 %r4, 8; @!%p1 add.s32 %r4, %r4, 2;",
                  {3, 4}),
        (U{8, 9}));
}

TEST(PtxInstructions, ShufflesVotesAndMatches) {
    U lanes(32), ones(32, 1);
    for (uint32_t i = 0; i < 32; ++i)
        lanes[i] = i;
    U down(32), up(32), swapped(32);
    for (uint32_t i = 0; i < 32; ++i) {
        down[i] = i + 4 < 32 ? i + 4 : i;
        up[i] = i % 8 >= 3 ? i - 3 : i;
        swapped[i] = i ^ 5;
    }
    EXPECT_EQ(compute32("shfl.sync.down.b32 %r4|%p1, %r1, 4, 31, -1;", lanes), down);
    EXPECT_EQ(compute32("shfl.sync.up.b32 %r4, %r1, 3, 0x1800, -1;", lanes), up); // segments of 8
    EXPECT_EQ(compute32("shfl.sync.bfly.b32 %r4, %r1, 5, 31, -1;", lanes), swapped);
    EXPECT_EQ(compute32("shfl.sync.idx.b32 %r4, %r1, 9, 31, -1;", lanes), U(32, 9));
    EXPECT_EQ(compute32("setp.lt.u32 %p1, %r1, 3; vote.sync.ballot.b32 %r4, %p1, -1;", lanes), U(32, 7));
    EXPECT_EQ(compute32("setp.lt.u32 %p1, %r1, 3; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r4, 1, 0, %p2;",
                        lanes),
              ones);
    EXPECT_EQ(compute32("and.b32 %r5, %r1, 1; match.any.sync.b32 %r4, %r5, 15;", {0, 1, 2, 3}),
              (U{5, 10, 5, 10}));
}

TEST(PtxInstructions, WhatIsApproximateOrUnknownIsRefusedByName) {
    const auto why = [](const std::string &code) {
        try {
            compute(code, {1});
        } catch (const ptx::ParseError &e) {
            return std::string(e.what());
        }
        return std::string();
    };
    EXPECT_NE(why("ex2.approx.f32 %f4, %f1;").find("`ex2.approx.f32`"), std::string::npos);
    EXPECT_NE(why("div.full.f32 %f4, %f1, %f2;").find(".full is no rounding to nearest"), std::string::npos);
    EXPECT_NE(why("add.rn.ftz.f32 %f4, %f1, %f2;").find(".ftz"), std::string::npos);
    EXPECT_NE(why("mul.f32 %f4, %f1, %f2;").find("may contract it"), std::string::npos);
    EXPECT_NE(why("atom.global.add.f32 %f4, [%rd8], %f1;").find("atomic additions of floats"),
              std::string::npos);
    EXPECT_NE(
        why("wgmma.fence.sync.aligned;").find("`wgmma.fence.sync.aligned`: the interpreter does not know it"),
        std::string::npos);
    EXPECT_NE(why("add.s32 %r4, %r1, %nothing;").find("`%nothing` is not declared"), std::string::npos);
    EXPECT_NE(why("bra $nowhere;").find("no label `$nowhere`"), std::string::npos);
    EXPECT_NE(why("add.s32 %r4, %r1;").find("too few operands"), std::string::npos);
    EXPECT_NE(why("add.s64 %r4, %r1, %r2;").find("4 bytes, and the instruction wants 8"), std::string::npos);
}

} // namespace
} // namespace lz::test
