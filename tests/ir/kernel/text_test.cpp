/// Kernels as text: what is printed reads back as the same kernel, and nothing that is read can crash.

#include "ir/diagnostic.h"
#include "ir/kernel/key.h"
#include "ir/kernel/verify.h"
#include "ir/math/expand.h"
#include "ir/text/text.h"
#include "tests/support/samples/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace lz::ir {
namespace {

using testing::HasSubstr;

std::vector<Kernel> samples() {
    std::vector<Kernel> all = {test::softmax(), test::gather(),      test::arg_max(),
                               test::product(), test::convolution(), test::constants()};
    Kernel expanded = test::softmax();
    expand_math(expanded);
    all.push_back(expanded);
    for (Kernel &kernel : test::cuda_samples())
        all.push_back(std::move(kernel));
    return all;
}

TEST(KernelText, ReadsBackWhatItPrints) {
    for (const Kernel &kernel : samples()) {
        verify(kernel);
        const std::string text = print(kernel);
        const Kernel again = parse_kernel(text);
        EXPECT_EQ(print(again), text);
        EXPECT_EQ(cache_key(again), cache_key(kernel)) << text;
        EXPECT_EQ(again.name, kernel.name);
    }
}

TEST(KernelText, SaysWhatAKernelDoes) {
    EXPECT_EQ(print(test::arg_max()), R"(lazuli 1
kernel @argmax {
  args a0: extent, a1: extent, a2: stride
  buffers b0: in f32, b1: out i64, b2: out f32
  axes i0: a0, i1: a1
  phase [i0] scalar {
    loop l0 i1 lanes {
      %0 = load b0[i0 * a2 + i1] : f32
      %1 = axis i1 : i64
      reduce argmax %0 at %1 : f32
    }
    %2 = loop_result l0, 0, index : i64
    store %2, b1[i0] : i64
    %4 = loop_result l0, 0 : f32
    store %4, b2[i0] : f32
  }
}
)");
}

TEST(KernelText, SaysHowAnAccessMovesAlongAnAxis) {
    const std::string text = R"(lazuli 1
kernel @flip {
  args a0: extent, a1: extent, a2: stride, a3: stride, a4: offset
  buffers b0: in f32, b1: out f32
  axes i0: a0, i1: a1
  phase [i0, i1] vector {
    %0 = load b0[a4 + i0 * a2 + i1 * reversed a3] : f32
    store %0, b1[i0 * a2 + i1] : f32
  }
}
)";
    const Kernel kernel = parse_kernel(text);
    verify(kernel);
    EXPECT_EQ(print(kernel), text);
    ASSERT_EQ(kernel.accesses.size(), 2u);
    std::vector<StrideClass> classes;
    for (const Access &access : kernel.accesses)
        for (const AxisStride &s : access.strides)
            classes.push_back(s.cls);
    EXPECT_THAT(classes, testing::ElementsAre(StrideClass::Strided, StrideClass::Reversed,
                                              StrideClass::Strided, StrideClass::Contiguous));
}

TEST(KernelText, SaysWhichRowsAreReadWholeAndWhichLoopsShareLanes) {
    const std::string text = test::columns_text();
    const Kernel kernel = parse_kernel(text);
    verify(kernel);
    EXPECT_EQ(print(kernel), text);
    EXPECT_EQ(kernel.loops[0].step, 2);
    EXPECT_EQ(kernel.phases[0].cpu().whole_rows, 1);
    EXPECT_EQ(kernel.phases[0].cpu().scratch, 2);
    for (const auto &[part, other] :
         {std::pair{"step 2", "step 4"}, {"whole-rows 1", "whole-rows 2"}, {"whole-rows 1 in b2 ", ""}}) {
        std::string changed = text;
        changed.replace(changed.find(part), std::string_view(part).size(), other);
        EXPECT_NE(cache_key(parse_kernel(changed)), cache_key(kernel)) << changed;
    }
}

TEST(KernelText, ValuesAreNumberedAsTheKernelHasThem) {
    const std::string text = R"(lazuli 1
kernel @k {
  args a0: extent
  buffers b0: out f32
  axes i0: a0
  phase [i0] vector {
    %2 = const 1 : f32
    %0 = neg %2 : f32 !5
    %1 = store %0, b0[i0] : f32 !6
  }
}
)";
    EXPECT_THAT(print(parse_kernel(text)), HasSubstr("%0 = neg %2 : f32 !5\n    store %0, b0[i0] : f32 !6"));
}

TEST(KernelText, NamesLineAndColumnOfAMistake) {
    const auto error = [](std::string_view text) -> std::string {
        try {
            parse_kernel(text);
        } catch (const Failure &failure) {
            EXPECT_EQ(failure.kind(), ErrorKind::Parse);
            return failure.message();
        }
        return "no failure";
    };
    EXPECT_THAT(error("kernel @k {\n  args a1: extent }"),
                HasSubstr("2:8: the args are not numbered in order"));
    EXPECT_THAT(error("kernel @k { args a0: size }"), HasSubstr("1:22: `size` is not an argument's role"));
    EXPECT_THAT(error("kernel @k { phase [] scalar { %0 = sine %1 : f32 } }"),
                HasSubstr("`sine` is no operation of a kernel"));
    EXPECT_THAT(error("kernel @k { phase [] scalar { %0 = const 300 : u8 } }"),
                HasSubstr("`300` is not a constant of dtype u8"));
    EXPECT_THAT(error("kernel @k { phase [] scalar { %1 = const 3 : u8 } }"),
                HasSubstr("values are not numbered from 0 to 0, each once"));
    EXPECT_THAT(error("kernel @k { phase [] scalar { %0 = neg %0 : f32 } }"),
                HasSubstr("is %0, which is not defined before it"));
    EXPECT_THAT(error("kernel @k {} kernel"), HasSubstr("expected the end of the text"));
    EXPECT_THAT(error("lazuli 2 kernel @k {}"), HasSubstr("the version"));
}

TEST(KernelText, NoTextCrashesTheParser) {
    std::mt19937 random(1);
    int parsed = 0, refused = 0;
    const auto feed = [&](const std::string &text) {
        try {
            const Kernel kernel = parse_kernel(text);
            EXPECT_EQ(print(parse_kernel(print(kernel))), print(kernel));
            ++parsed;
        } catch (const Failure &failure) {
            EXPECT_EQ(failure.kind(), ErrorKind::Parse) << failure.message();
            ++refused;
        }
    };
    for (const Kernel &kernel : samples()) {
        const std::string text = print(kernel);
        for (int i = 0; i < 300; ++i) {
            std::string broken = text;
            const size_t at = random() % broken.size();
            switch (random() % 4) {
            case 0:
                broken.resize(at);
                break;
            case 1:
                broken.erase(at, 1 + random() % 8);
                break;
            case 2:
                broken[at] = static_cast<char>(random());
                break;
            default: // a piece of it in another place
                broken.insert(random() % broken.size(), text.substr(at, 1 + random() % 40));
            }
            feed(broken);
        }
    }
    EXPECT_GT(parsed, 0);
    EXPECT_GT(refused, 0);
    std::string deep = "kernel @k { args a0: extent axes i0: a0 phase [] scalar {";
    for (int i = 0; i < 100000; ++i)
        deep += " loop l0 i0 lanes {";
    feed(deep);
}

TEST(KernelText, SaysWhereOperandsWithDigitsStand) {
    const std::string text = print(test::convolution());
    EXPECT_THAT(text,
                HasSubstr("lhs b0[a14] digits [i0 of a15 * a16, i0 of a17 * a18, i2 of a19 * a20, i2 of a21 "
                          "* a22, i2 of a23 * a24], rhs b1[i1] digits [i2 of a25 * a26, i2 of a27 * a28]\n"));
}

TEST(KernelKey, EveryDigitCounts) {
    const auto differs = [](auto change) {
        Kernel kernel = test::convolution();
        change(*kernel.phases[0].contraction);
        EXPECT_NE(cache_key(kernel), cache_key(test::convolution())) << print(kernel);
    };
    differs([](Contraction &c) { c.lhs_digits[1].axis = c.k; });
    differs([](Contraction &c) { c.lhs_digits[4].extent = 0; });
    differs([](Contraction &c) { c.rhs_digits[0].stride = 0; });
    differs([](Contraction &c) { c.rhs_digits.pop_back(); });
    differs([](Contraction &c) { std::swap(c.lhs_digits[0], c.lhs_digits[1]); });
}

TEST(KernelKey, NamesAndSourcesDoNotCount) {
    Kernel a = test::softmax(), b = test::softmax();
    b.name = "another";
    for (Instr &instr : b.instrs)
        instr.source = 7;
    EXPECT_EQ(cache_key(a), cache_key(b));
}

TEST(KernelKey, EveryPartOfABodyCounts) {
    const std::string key = cache_key(test::softmax());
    const auto differs = [&](auto change) {
        Kernel kernel = test::softmax();
        change(kernel);
        EXPECT_NE(cache_key(kernel), key) << print(kernel);
    };
    differs([](Kernel &k) { k.loops[0].chunk = 0; });
    differs([](Kernel &k) { k.loops[0].order = LoopOrder::Sequential; });
    differs([](Kernel &k) { k.loops[1].reductions[0].op = ReduceOp::Mul; });
    differs([](Kernel &k) { k.accesses[0].strides[0].stride = 1; });
    differs([](Kernel &k) { k.accesses[0].offset = 0; });
    differs([](Kernel &k) { k.buffers[0].dtype = DType::F64; });
    differs([](Kernel &k) { k.buffers[1].mode = BufferMode::InOut; });
    differs([](Kernel &k) { k.phases[0].on_cpu().inner = InnerTier::Tiny; });
    differs([](Kernel &k) { k.phases[0].on_cpu().stores = StoreTier::Streaming; });
    differs([](Kernel &k) { k.instrs[3].operands[0] = k.instrs[3].operands[1]; });
}

TEST(KernelKey, EveryPartOfAScheduleForCudaCounts) {
    const auto differs = [](size_t sample, auto change) {
        Kernel kernel = test::cuda_samples()[sample];
        const std::string key = cache_key(kernel), text = print(kernel);
        change(std::get<CudaSchedule>(kernel.phases[0].schedule));
        EXPECT_NE(cache_key(kernel), key) << text;
        EXPECT_NE(print(kernel), text);
    };
    differs(0, [](CudaSchedule &s) { s.segments = SegmentTier::Memory; });
    differs(0, [](CudaSchedule &s) { s.stores = StoreTier::Cached; });
    differs(0, [](CudaSchedule &s) { s.index32 = true; });
    differs(0, [](CudaSchedule &s) { s.threads = 128; });
    differs(0, [](CudaSchedule &s) { s.vector = 8; });
    differs(0, [](CudaSchedule &s) { s.unroll = 1; });
    differs(1, [](CudaSchedule &s) { s.tier = RowTier::Shared; });
    differs(1, [](CudaSchedule &s) { s.row_threads = 32; });
    differs(1, [](CudaSchedule &s) { s.row_elements = 2048; });
    differs(1, [](CudaSchedule &s) { s.cluster_blocks = 2; });
    differs(2, [](CudaSchedule &s) { s.most_blocks = 1; });
    differs(2, [](CudaSchedule &s) { s.scratch = 0; });
    differs(2, [](CudaSchedule &s) { s.scratch_bytes = 0; });
    differs(3, [](CudaSchedule &s) { s.tile_m = 32; });
    differs(3, [](CudaSchedule &s) { s.tile_n = 64; });
    differs(4, [](CudaSchedule &s) { s.tile_axis = 1; });
    differs(4, [](CudaSchedule &s) { s.tile_m = 64; });
}

TEST(KernelWork, ABlockOfACudaDeviceIsAWorkItem) {
    const auto items = [](const Kernel &k, std::vector<int64_t> args) {
        args.resize(k.args.size(), 1);
        return work_items(k, k.phases[0], args);
    };
    const std::vector<Kernel> samples = test::cuda_samples();
    // 7 rows of ceil(1001 / 4) packets, 512 of them a block
    EXPECT_EQ(items(samples[0], {7, 1001}), (7 * 251 + 511) / 512);
    EXPECT_EQ(items(samples[0], {0, 1001}), 0);
    EXPECT_EQ(items(samples[1], {9, 1000}), 3) << "four rows a block";
    EXPECT_EQ(items(samples[2], {9, 1000}), 9) << "a row a block";
    EXPECT_EQ(items(samples[3], {65, 100, 8}), 2 * 4) << "tiles of 64 x 32";
    EXPECT_EQ(items(samples[4], {33, 64}), 2 * 2) << "square tiles";
}

TEST(KernelVerify, NamesWhatIsWrongWithAScheduleForCuda) {
    const auto error = [](size_t sample, auto change) -> std::string {
        Kernel kernel = test::cuda_samples()[sample];
        change(std::get<CudaSchedule>(kernel.phases[0].schedule));
        try {
            verify(kernel);
        } catch (const Failure &failure) {
            return failure.message();
        }
        return "no failure";
    };
    EXPECT_THAT(error(0, [](CudaSchedule &s) { s.threads = 100; }), HasSubstr("block of 100 threads"));
    EXPECT_THAT(error(0, [](CudaSchedule &s) { s.vector = 3; }), HasSubstr("2 packets of 3"));
    EXPECT_THAT(error(0, [](CudaSchedule &s) { s.shape = CudaShape::Rows; }), HasSubstr("vector axis"));
    EXPECT_THAT(error(0, [](CudaSchedule &s) { s.shape = CudaShape::Product; }), HasSubstr("as a product"));
    EXPECT_THAT(error(1, [](CudaSchedule &s) { s.row_threads = 48; }), HasSubstr("48 threads of a block"));
    EXPECT_THAT(error(1, [](CudaSchedule &s) { s.row_elements = 0; }), HasSubstr("any length"));
    EXPECT_THAT(error(1, [](CudaSchedule &s) { s.shape = CudaShape::Points; }), HasSubstr("grid of rows"));
    EXPECT_THAT(error(1, [](CudaSchedule &s) { s.cluster_blocks = 2; }), HasSubstr("a cluster of 2 blocks"));
    EXPECT_THAT(error(2, [](CudaSchedule &s) { s.scratch = 0; }), HasSubstr("no temporary"));
    EXPECT_THAT(error(2, [](CudaSchedule &s) { s.most_blocks = 0; }), HasSubstr("no temporary"));
    EXPECT_THAT(error(3, [](CudaSchedule &s) { s.tile_m = 0; }), HasSubstr("is 0 x 32"));
    EXPECT_THAT(error(4, [](CudaSchedule &s) { s.tile_axis = 1; }), HasSubstr("before the last"));
    EXPECT_THAT(error(4, [](CudaSchedule &s) { s.tile_n = 64; }), HasSubstr("is 32 x 64"));
    EXPECT_THAT(error(1, [](CudaSchedule &s) { s.tile_m = 32; }), HasSubstr("is 32 x 0"));
}

TEST(KernelVerify, NamesWhatIsWrong) {
    const auto error = [](Kernel kernel, auto change) -> std::string {
        change(kernel);
        try {
            verify(kernel);
        } catch (const Failure &failure) {
            EXPECT_EQ(failure.kind(), ErrorKind::Internal);
            EXPECT_THAT(failure.message(), HasSubstr("kernel @")) << "the message carries the kernel";
            return failure.message();
        }
        return "no failure";
    };
    const Kernel s = test::softmax(), g = test::gather(), p = test::product();
    EXPECT_THAT(error(s, [](Kernel &k) { k.instrs[3].operands[0] = 400; }),
                HasSubstr("is %400, which is not defined"));
    EXPECT_THAT(error(s, [](Kernel &k) { k.loops[1].axis = 0; }), HasSubstr("walked already"));
    EXPECT_THAT(error(s, [](Kernel &k) { k.loops[0].reductions[0].dtype = DType::F64; }),
                HasSubstr("of dtype f32, not f64"));
    EXPECT_THAT(error(s, [](Kernel &k) { k.phases[0].body.push_back(k.phases[0].body[0]); }),
                HasSubstr("or there twice"));
    EXPECT_THAT(error(s, [](Kernel &k) { k.phases[0].body.pop_back(); }), HasSubstr("stands in no region"));
    EXPECT_THAT(error(s, [](Kernel &k) { k.buffers[2].worker_offset = kNoArg; }),
                HasSubstr("worker's scratch"));
    EXPECT_THAT(error(s, [](Kernel &k) { k.buffers[1].mode = BufferMode::In; }), HasSubstr("read only"));
    EXPECT_THAT(error(s, [](Kernel &k) { k.accesses[0].buffer = 9; }), HasSubstr("is of buffer b9 of 3"));
    EXPECT_THAT(error(s, [](Kernel &k) { k.accesses[0].strides[0].stride = kNoArg; }),
                HasSubstr("exactly when it is not contiguous"));
    EXPECT_THAT(error(s, [](Kernel &k) { k.phases[0].grid = {0, 0}; }), HasSubstr("there twice"));
    EXPECT_THAT(error(s, [](Kernel &k) { k.phases[0].grid = {}; }),
                HasSubstr("which no grid or loop around it walks"));
    EXPECT_THAT(error(g, [](Kernel &k) { k.accesses[1].predicate = 0; }), HasSubstr("not bool"));
    EXPECT_THAT(error(g, [](Kernel &k) { k.phases[0].on_cpu().tile_axis = 1; }), HasSubstr("tile axis"));
    EXPECT_THAT(error(p,
                      [](Kernel &k) {
                          k.phases[0].contraction.reset();
                          k.phases[0].schedule = {};
                      }),
                HasSubstr("without contraction"));
    EXPECT_THAT(error(p, [](Kernel &k) { k.phases[0].contraction.reset(); }),
                HasSubstr("a microkernel of 8 x 32"));
    EXPECT_THAT(error(p, [](Kernel &k) { k.phases[0].on_cpu().mr = 0; }), HasSubstr("microkernel is 0 x 32"));
    EXPECT_THAT(error(p, [](Kernel &k) { k.phases[0].on_cpu().blocks = 8; }), HasSubstr("block arguments"));
    const auto of_digits = [&](auto change) {
        return error(test::convolution(), [&](Kernel &k) { change(k, *k.phases[0].contraction); });
    };
    EXPECT_THAT(of_digits([](Kernel &, Contraction &c) { c.lhs_digits[1].axis = c.n; }),
                HasSubstr("digit 1 is of axis i1, not of i0 or i2"));
    EXPECT_THAT(of_digits([](Kernel &, Contraction &c) { std::swap(c.lhs_digits[0], c.lhs_digits[4]); }),
                HasSubstr("digit 1 of axis i0 stands behind those of k"));
    EXPECT_THAT(of_digits([](Kernel &, Contraction &c) { c.lhs.strides = {test::contiguous(c.m)}; }),
                HasSubstr("a stride along axis i0, and digits of it"));
    EXPECT_THAT(of_digits([](Kernel &, Contraction &c) { c.rhs_digits[0].extent = 77; }),
                HasSubstr("the extent of a digit is argument a77"));
    EXPECT_THAT(of_digits([](Kernel &, Contraction &c) { c.rhs_digits[0].stride = kNoArg; }),
                HasSubstr("the stride of a digit is argument a"));
    EXPECT_THAT(of_digits([](Kernel &k, Contraction &c) {
                    c.dtype = k.buffers[0].dtype = k.buffers[1].dtype = DType::BF16;
                }),
                HasSubstr("of bf16, which is converted to f32, has digits"));
    EXPECT_THAT(of_digits([](Kernel &k, Contraction &) {
                    k.phases[0].schedule = test::cuda_samples()[3].phases[0].schedule;
                }),
                HasSubstr("it has to be copied before"));
    // A region that holds itself ends.
    EXPECT_THAT(error(s, [](Kernel &k) { k.loops[0].body.push_back({Stmt::Loop, 0}); }),
                HasSubstr("or there twice"));
}

} // namespace
} // namespace lz::ir
