#include "ir/diagnostic.h"
#include "ir/graph/builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lz::ir {
namespace {

constexpr Device kGpu{DeviceKind::Cuda, 1};

struct Operand {
    TensorType type;
    Operand(DType dtype, const Shape &shape, Device device = kCpu) : type{dtype, shape, device} {}
};

/// A graph with parameters of these types, to which one node is added.
struct Bench {
    GraphBuilder b{"f"};
    std::vector<ValueId> p;

    explicit Bench(const std::vector<Operand> &types) {
        for (const Operand &t : types)
            p.push_back(b.param(t.type, "p" + std::to_string(p.size())));
    }
    std::string add(Op op, const std::vector<int64_t> &structural = {},
                    const std::vector<int64_t> &runtime = {}) {
        try {
            const ValueId v = b.add(op, p, structural, runtime, {"a.cpp", 7});
            return to_string(b.graph().type(v));
        } catch (const Failure &f) {
            if (f.kind() != ErrorKind::Internal) {
                EXPECT_EQ(to_string(f.loc()), "a.cpp:7");
            }
            kind = f.kind();
            return f.message();
        }
    }
    ErrorKind kind = ErrorKind::Internal;
};

struct Case {
    Op op;
    std::vector<Operand> operands;
    std::vector<int64_t> structural, runtime;
    std::string result;
};

constexpr DType kF = DType::F32;
constexpr auto kF32 = static_cast<int64_t>(kF); ///< as a word

TEST(Infer, TypesOfResults) {
    const std::vector<Case> cases = {
        {Op::Add, {{kF, {64, 1}}, {kF, {10}}}, {}, {}, "f32[64,10] @cpu"},
        {Op::Add, {{kF, {}}, {kF, {3}, kGpu}}, {}, {}, "f32[3] @cuda:1"}, // S05
        {Op::Add, {{kF, {0, 1}}, {kF, {1, 5}}}, {}, {}, "f32[0,5] @cpu"},
        {Op::Lt, {{DType::I8, {2}}, {DType::I8, {2}}}, {}, {}, "bool[2] @cpu"},
        {Op::Select, {{DType::Bool, {2, 1}}, {kF, {}}, {kF, {3}}}, {}, {}, "f32[2,3] @cpu"},
        {Op::IsNan, {{DType::F16, {2}}}, {}, {}, "bool[2] @cpu"},
        {Op::Maximum, {{DType::Bool, {2}}, {DType::Bool, {2}}}, {}, {}, "bool[2] @cpu"},
        {Op::Cast, {{kF, {2}}}, {static_cast<int64_t>(DType::BF16)}, {}, "bf16[2] @cpu"},
        {Op::Philox, {}, {2, 3, 4, 257}, {1, 2}, "i32[3,4] @cuda:1"},
        {Op::Reshape, {{kF, {2, 3}}}, {1, 6}, {}, "f32[6] @cpu"},
        {Op::Reshape, {{kF, {0, 3}}}, {2, 7, 0}, {}, "f32[7,0] @cpu"},
        {Op::Permute, {{kF, {2, 3, 4}}}, {3, 2, 0, 1}, {}, "f32[4,2,3] @cpu"},
        {Op::Broadcast, {{kF, {3, 1}}}, {3, 2, 3, 4}, {}, "f32[2,3,4] @cpu"},
        {Op::Slice, {{kF, {10, 4}}}, {2, 2, 3, 0, 2, 4, 1}, {1, 4}, "f32[3,0] @cpu"},
        {Op::Pad, {{kF, {2, 3}}, {kF, {}}}, {2, 0, 1, 2, 2, 0}, {}, "f32[4,4] @cpu"},
        {Op::Concat, {{kF, {2, 3}}, {kF, {0, 3}}, {kF, {1, 3}}}, {0}, {}, "f32[3,3] @cpu"},
        {Op::Window, {{kF, {7, 2}}}, {0, 0, 3, 3, 2}, {}, "f32[3,2,3] @cpu"},
        {Op::Window, {{kF, {7, 2}}}, {0, 1, 4, 3, 1}, {}, "f32[4,2,3] @cpu"},
        {Op::Window, {{kF, {7}}}, {0, 7, 5, 0, 1}, {}, "f32[5,0] @cpu"},
        {Op::Window, {{kF, {7}}}, {0, 6, 0, 1, 9}, {}, "f32[0,1] @cpu"},
        {Op::UpdateSlice, {{kF, {5}}, {kF, {2}}}, {1, 1, 3}, {1}, "f32[5] @cpu"},
        {Op::ReduceSum, {{kF, {2, 3, 4}}}, {2, 0, 2}, {}, "f32[3] @cpu"},
        {Op::ReduceMax, {{DType::Bool, {0, 3}}}, {1, 1}, {}, "bool[0] @cpu"},
        {Op::ArgMin, {{kF, {2, 3}}}, {0}, {}, "i64[3] @cpu"},
        {Op::CumSum, {{kF, {2, 3}}}, {1}, {}, "f32[2,3] @cpu"},
        {Op::CumMax, {{DType::Bool, {2, 0}}}, {1}, {}, "bool[2,0] @cpu"},
        {Op::CumMin, {{kF, {2, 3}}}, {0}, {}, "f32[2,3] @cpu"},
        {Op::Dot, {{kF, {8, 2, 3}}, {kF, {3, 8, 5}}}, {1, 0, 1, 1, 1, 2, 1, 0, kF32}, {}, "f32[8,2,5] @cpu"},
        {Op::Dot, {{kF, {3}}, {kF, {3}}}, {0, 0, 1, 0, 1, 0, kF32}, {}, "f32[] @cpu"},
        {Op::Dot,
         {{DType::I8, {2, 3}}, {DType::I8, {3, 5}}},
         {0, 0, 1, 1, 1, 0, static_cast<int64_t>(DType::I32)},
         {},
         "i32[2,5] @cpu"},
        {Op::Dot, {{DType::BF16, {3}}, {DType::BF16, {3}}}, {0, 0, 1, 0, 1, 0, kF32}, {}, "f32[] @cpu"},
        {Op::Gather, {{kF, {4, 3}}, {DType::I32, {9, 3}}}, {0}, {}, "f32[9,3] @cpu"},
        {Op::Scatter, {{kF, {4, 3}}, {DType::I64, {9, 3}}, {kF, {9, 3}}}, {0, 1}, {}, "f32[4,3] @cpu"},
        {Op::Sort, {{DType::U8, {4, 3}}}, {1, 0}, {}, "u8[4,3] @cpu"},
        {Op::Transfer, {{kF, {2}}}, {257}, {}, "f32[2] @cuda:1"},
        {Op::Transfer, {{kF, {2}}, {DType::Bool, {3}, kGpu}, {kF, {}}}, {257}, {}, "f32[2] @cuda:1"},
    };
    for (const Case &c : cases)
        EXPECT_EQ(Bench(c.operands).add(c.op, c.structural, c.runtime), c.result) << name(c.op);
}

// S05: of the first operand that is no 0-dim CPU tensor, whatever the operation and however its operands are
// mixed.
TEST(Infer, ResultsLiveWhereTheFirstOperandDoesThatIsNoCpuScalar) {
    const Operand scalar{kF, {}}, gpu_scalar{kF, {}, kGpu}, cpu{kF, {4}}, gpu{kF, {4}, kGpu},
        other{kF, {4}, {DeviceKind::Cuda, 2}}, index{DType::I64, {4}}, gpu_index{DType::I64, {4}, kGpu},
        truth{DType::Bool, {}}, gpu_truth{DType::Bool, {4}, kGpu};
    const Case cases[] = {
        {Op::Add, {scalar, scalar}, {}, {}, "f32[] @cpu"},
        {Op::Add, {scalar, gpu_scalar}, {}, {}, "f32[] @cuda:1"},
        {Op::Sub, {cpu, gpu}, {}, {}, "f32[4] @cpu"},
        {Op::Mul, {scalar, gpu}, {}, {}, "f32[4] @cuda:1"},
        {Op::Lt, {scalar, other}, {}, {}, "bool[4] @cuda:2"},
        {Op::Select, {truth, scalar, gpu}, {}, {}, "f32[4] @cuda:1"},
        {Op::Select, {truth, other, gpu}, {}, {}, "f32[4] @cuda:2"},
        {Op::Select, {gpu_truth, scalar, scalar}, {}, {}, "f32[4] @cuda:1"},
        {Op::Cast, {gpu}, {static_cast<int64_t>(DType::I8)}, {}, "i8[4] @cuda:1"},
        {Op::Reshape, {gpu_scalar}, {1, 1}, {}, "f32[1] @cuda:1"},
        {Op::Broadcast, {gpu_scalar}, {1, 4}, {}, "f32[4] @cuda:1"},
        {Op::Pad, {gpu, scalar}, {1, 1, 1, 0}, {}, "f32[5] @cuda:1"},
        {Op::Pad, {scalar, gpu_scalar}, {0, 0}, {}, "f32[] @cuda:1"},
        {Op::Pad, {cpu, gpu_scalar}, {1, 1, 1, 0}, {}, "f32[5] @cpu"},
        {Op::Concat, {gpu, cpu, other}, {0}, {}, "f32[12] @cuda:1"},
        {Op::UpdateSlice, {gpu, other}, {1, 1, 1}, {0}, "f32[4] @cuda:1"},
        {Op::UpdateSlice, {scalar, gpu_scalar}, {0, 0}, {}, "f32[] @cuda:1"},
        {Op::ReduceSum, {gpu}, {1, 0}, {}, "f32[] @cuda:1"},
        {Op::ArgMax, {gpu}, {0}, {}, "i64[] @cuda:1"},
        {Op::CumSum, {gpu}, {0}, {}, "f32[4] @cuda:1"},
        {Op::Dot, {scalar, gpu}, {0, 0, 0, 0, kF32}, {}, "f32[4] @cuda:1"},
        {Op::Dot, {other, gpu}, {0, 0, 1, 0, 1, 0, kF32}, {}, "f32[] @cuda:2"},
        {Op::Gather, {cpu, gpu_index}, {0}, {}, "f32[4] @cpu"},
        {Op::Gather, {gpu, index}, {0}, {}, "f32[4] @cuda:1"},
        {Op::Scatter, {gpu, index, cpu}, {0, 0}, {}, "f32[4] @cuda:1"},
        {Op::Sort, {gpu}, {0, 0}, {}, "f32[4] @cuda:1"},
        {Op::TopK, {{DType::U8, {4, 3}}}, {0, 1, 2}, {}, "u8[2,3] @cpu"},
    };
    for (const Case &c : cases)
        EXPECT_EQ(Bench(c.operands).add(c.op, c.structural, c.runtime), c.result) << name(c.op);
    for (const auto &[op, words] :
         {std::pair{Op::Sort, std::vector<int64_t>{0, 0}}, {Op::CumMax, {0}}, {Op::CumMin, {0}}}) {
        Bench places({gpu});
        places.add(op, words);
        EXPECT_EQ(to_string(places.b.graph().type(2)), "i64[4] @cuda:1") << name(op);
    }
}

TEST(GraphBuilder, ATransferToWhereAValueIsIsTheValue) { // S08
    GraphBuilder b("f");
    const ValueId x = b.param({kF, {4}, kGpu}, "x");
    EXPECT_EQ(b.transfer(x, kGpu), x);
    const ValueId y = b.transfer(x, kCpu);
    EXPECT_NE(y, x);
    EXPECT_EQ(b.transfer(y, kCpu), y);
    EXPECT_EQ(b.graph().nodes().size(), 1u);
}

struct Mistake {
    ErrorKind kind;
    Case what;
};

TEST(Infer, MistakesOfTheUserAreWholeSentencesWithTheValues) {
    const int64_t huge = int64_t{1} << 40;
    const auto f32 = static_cast<int64_t>(kF);
    const std::vector<Mistake> mistakes = {
        {ErrorKind::Shape,
         {Op::Add,
          {{kF, {64, 10}}, {kF, {64, 9}}},
          {},
          {},
          "add: shapes [64,10] and [64,9] do not broadcast (axis 1: 10 against 9)"}},
        {ErrorKind::Shape,
         {Op::Mul,
          {{kF, {5, 1, 4}}, {kF, {3, 2}}},
          {},
          {},
          "mul: shapes [5,1,4] and [3,2] do not broadcast (axis 2: 4 against 2)"}},
        {ErrorKind::Shape,
         {Op::Add,
          {{kF, {huge, 1}}, {kF, {1, huge}}},
          {},
          {},
          "add: a tensor of dtype f32 and shape [1099511627776,1099511627776] has more bytes than fit a "
          "64-bit number"}},
        {ErrorKind::DType,
         {Op::Add,
          {{kF, {2}}, {DType::F64, {2}}},
          {},
          {},
          "add: operands have the dtypes f32 and f64; cast them to one dtype first"}},
        {ErrorKind::DType,
         {Op::Add,
          {{DType::Bool, {2}}, {DType::Bool, {2}}},
          {},
          {},
          "add: takes integers or floats, not bool and bool"}},
        {ErrorKind::DType, {Op::Exp, {{DType::I32, {2}}}, {}, {}, "exp: takes floats, not i32"}},
        {ErrorKind::DType, {Op::Not, {{kF, {2}}}, {}, {}, "not: takes bool or integers, not f32"}},
        {ErrorKind::DType,
         {Op::Select,
          {{kF, {2}}, {kF, {2}}, {kF, {2}}},
          {},
          {},
          "select: the condition has dtype f32; it must be bool"}},
        {ErrorKind::Index,
         {Op::ReduceSum, {{kF, {2, 3}}}, {1, 3}, {}, "sum: axis 3 is out of range for f32[2,3] (rank 2)"}},
        {ErrorKind::Index,
         {Op::ReduceSum, {{kF, {2, 3}}}, {2, 1, 1}, {}, "sum: axis 1 stands twice in [1,1]"}},
        {ErrorKind::DType,
         {Op::ReduceSum, {{DType::Bool, {2}}}, {1, 0}, {}, "sum: takes integers or floats, not bool"}},
        {ErrorKind::Shape,
         {Op::ReduceMax,
          {{kF, {2, 0}}},
          {1, 1},
          {},
          "max: axis 1 of f32[2,0] has no elements, of which there is no extreme"}},
        {ErrorKind::Shape,
         {Op::ArgMax,
          {{kF, {0}}},
          {0},
          {},
          "argmax: axis 0 of f32[0] has no elements, of which there is no extreme"}},
        {ErrorKind::Shape,
         {Op::Reshape, {{kF, {2, 3}}}, {1, 5}, {}, "reshape: shape [2,3] has 6 elements and [5] has 5"}},
        {ErrorKind::Shape,
         {Op::Reshape, {{kF, {2}}}, {1, -2}, {}, "reshape: the shape [-2] has the negative extent -2"}},
        {ErrorKind::Shape,
         {Op::Broadcast,
          {{kF, {3}}},
          {9, 1, 1, 1, 1, 1, 1, 1, 1, 3},
          {},
          "broadcast: the shape [1,1,1,1,1,1,1,1,3] has 9 axes; at most 8 are possible"}},
        {ErrorKind::Shape,
         {Op::Constant,
          {},
          {f32, 2, huge, huge, 0},
          {0},
          "constant: a tensor of dtype f32 and shape [1099511627776,1099511627776] has more bytes than fit a "
          "64-bit number"}},
        {ErrorKind::Shape,
         {Op::Broadcast, {{kF, {3}}}, {1, 4}, {}, "broadcast: shape [3] does not broadcast to [4]"}},
        {ErrorKind::Index,
         {Op::Slice,
          {{kF, {10}}},
          {1, 1, 4, 1, 3},
          {1},
          "slice: the range of 4 elements from 1 in steps of 3 leaves axis 0 of f32[10]"}},
        {ErrorKind::Index,
         {Op::Slice,
          {{kF, {10}}},
          {1, 1, 2, 1, 1},
          {-1},
          "slice: the range of 2 elements from -1 in steps of 1 leaves axis 0 of f32[10]"}},
        {ErrorKind::Index,
         {Op::Slice,
          {{kF, {10}}},
          {1, 1, 2, 1, 0},
          {0},
          "slice: the step on axis 0 is 0; it must be 1 or more"}},
        {ErrorKind::Shape,
         {Op::Slice,
          {{kF, {10}}},
          {1, 1, -2, 1, 1},
          {0},
          "slice: the size on axis 0 is -2; it must not be negative"}},
        {ErrorKind::Shape,
         {Op::Pad,
          {{kF, {2}}, {kF, {}}},
          {1, -1, 1, 0},
          {},
          "pad: the padding of axis 0 is -1 and 0; it must not be negative"}},
        {ErrorKind::Shape,
         {Op::Pad,
          {{kF, {2}}, {kF, {1}}},
          {1, 1, 1, 0},
          {},
          "pad: the fill value has shape [1]; it must have rank 0"}},
        {ErrorKind::Index,
         {Op::Window,
          {{kF, {7}}},
          {0, 0, 4, 3, 2},
          {},
          "window: 4 parts of 3 elements from 0 in steps of 2 leave axis 0 of f32[7]"}},
        {ErrorKind::Index,
         {Op::Window,
          {{kF, {7}}},
          {0, 5, 1, 3, 1},
          {},
          "window: the range of 3 elements from 5 in steps of 1 leaves axis 0 of f32[7]"}},
        {ErrorKind::Index,
         {Op::Window, {{kF, {7}}}, {0, 0, 2, 3, 0}, {}, "window: the step is 0; it must be 1 or more"}},
        {ErrorKind::Shape,
         {Op::Window,
          {{kF, {7}}},
          {0, 0, -1, 3, 1},
          {},
          "window: the number of parts is -1; it must not be negative"}},
        {ErrorKind::Shape,
         {Op::Concat,
          {{kF, {2, 3}}, {kF, {2, 4}}},
          {0},
          {},
          "concat: operand 1 has shape [2,4]; it must equal [2,3] but for axis 0"}},
        {ErrorKind::Shape,
         {Op::Dot,
          {{kF, {2, 3}}, {kF, {4, 5}}},
          {0, 0, 1, 1, 1, 0, kF32},
          {},
          "dot: shapes [2,3] and [4,5] do not match (contracted axis 1 has 3 elements against 4 of axis 0)"}},
        {ErrorKind::DType,
         {Op::Dot,
          {{DType::I8, {3}}, {DType::I8, {3}}},
          {0, 0, 1, 0, 1, 0, kF32},
          {},
          "dot: products of i8 cannot be summed into f32; the result has the operands' dtype, a wider "
          "integer "
          "for integers, or f32 for f16 and bf16"}},
        {ErrorKind::DType,
         {Op::Gather,
          {{kF, {4}}, {kF, {2}}},
          {0},
          {},
          "gather: the index has dtype f32; it must be i32 or i64"}},
        {ErrorKind::Shape,
         {Op::Gather,
          {{kF, {4, 3}}, {DType::I64, {2, 2}}},
          {0},
          {},
          "gather: the index has shape [2,2]; it must equal that of f32[4,3] but for axis 0"}},
        {ErrorKind::Shape,
         {Op::Scatter,
          {{kF, {4}}, {DType::I64, {2}}, {kF, {3}}},
          {0, 0},
          {},
          "scatter: the source has shape [3] and the index [2]; they must be equal"}},
        {ErrorKind::Index,
         {Op::WaitStream,
          {},
          {0, 256, 72},
          {},
          "wait_stream: there is no stream 72; streams are numbered 0 to 71"}},
        {ErrorKind::Index,
         {Op::Sort, {{kF, {}}}, {0, 0}, {}, "sort: axis 0 is out of range for f32[] (rank 0)"}},
        {ErrorKind::Index,
         {Op::TopK, {{kF, {3}}}, {0, 0, 4}, {}, "topk: `count` is 4; axis 0 has 3 elements"}},
    };
    for (const Mistake &m : mistakes) {
        Bench bench(m.what.operands);
        EXPECT_EQ(bench.add(m.what.op, m.what.structural, m.what.runtime), m.what.result);
        EXPECT_EQ(bench.kind, m.kind) << m.what.result;
        EXPECT_TRUE(bench.b.graph().nodes().empty()) << "a node was left behind";
        EXPECT_EQ(bench.b.graph().values().size(), m.what.operands.size()) << "a value was left behind";
    }
}

TEST(Infer, WordsThatDoNotFitTheSchemaAreOurMistake) {
    EXPECT_EQ(Bench({{kF, {2}}}).add(Op::Reshape, {5, 1}).substr(0, 50),
              "reshape: attribute `shape` ends past the node's wo");
    EXPECT_NE(Bench({{kF, {2}}}).add(Op::Cast, {77}).find("no dtype"), std::string::npos);
    EXPECT_NE(Bench({{kF, {2}}}).add(Op::Transfer, {300000}).find("no device"), std::string::npos);
    EXPECT_NE(Bench({{kF, {2}}}).add(Op::Neg, {1}).find("belong to no attribute"), std::string::npos);
    EXPECT_NE(Bench({{kF, {2}}}).add(Op::Add).find("add has 1 operands"), std::string::npos);
}

TEST(DTypes, PromotionIsPyTorchs) {
    // torch.promote_types, rows and columns in the order of dtypes.def.
    const char *table[] = {
        "bool u8 i8 i16 i32 i64 f16 bf16 f32 f64",  "u8 u8 i16 i16 i32 i64 f16 bf16 f32 f64",
        "i8 i16 i8 i16 i32 i64 f16 bf16 f32 f64",   "i16 i16 i16 i16 i32 i64 f16 bf16 f32 f64",
        "i32 i32 i32 i32 i32 i64 f16 bf16 f32 f64", "i64 i64 i64 i64 i64 i64 f16 bf16 f32 f64",
        "f16 f16 f16 f16 f16 f16 f16 f32 f32 f64",  "bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64",
        "f32 f32 f32 f32 f32 f32 f32 f32 f32 f64",  "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64",
    };
    for (int a = 0; a < kNumDTypes; ++a) {
        std::string row;
        for (int b = 0; b < kNumDTypes; ++b)
            row += (b ? " " : "") + std::string(name(promote(static_cast<DType>(a), static_cast<DType>(b))));
        EXPECT_EQ(row, table[a]);
    }
}

TEST(DTypes, HalvesRoundTripAndRoundToNearestEven) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const auto h = static_cast<uint16_t>(bits);
        const float f = half_to_float(h), g = bfloat_to_float(h);
        if (f == f) {
            EXPECT_EQ(float_to_half(f), h);
        } else {
            EXPECT_NE(half_to_float(float_to_half(f)), half_to_float(float_to_half(f)));
        }
        if (g == g) {
            EXPECT_EQ(float_to_bfloat(g), h);
        } else {
            EXPECT_NE(bfloat_to_float(float_to_bfloat(g)), bfloat_to_float(float_to_bfloat(g)));
        }
    }
    // Between two neighbours the nearer one, in the middle the even one: over all positive finite f16.
    for (uint16_t h = 0; h < 0x7bff; ++h) {
        const float low = half_to_float(h), high = half_to_float(static_cast<uint16_t>(h + 1));
        const float middle = low + (high - low) / 2;
        const int even = h % 2 == 0 ? h : h + 1;
        ASSERT_EQ(float_to_half(middle), even);
        ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), h);
        ASSERT_EQ(float_to_half(std::nextafter(middle, high)), h + 1);
        ASSERT_EQ(float_to_half(-middle), even | 0x8000);
    }
    EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
    EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
    EXPECT_EQ(float_to_bfloat(std::numeric_limits<float>::max()), 0x7f80);
}

} // namespace
} // namespace lz::ir
