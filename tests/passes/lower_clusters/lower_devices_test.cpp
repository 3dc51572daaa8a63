/// What transfers and effects become when they are lowered.

#include "support/run_lowered.h"

#include "ir/text/text.h"
#include "passes/fuse/fuse.h"
#include "passes/lower/products/epilogue.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lz::passes {
namespace {

using namespace ir;

Program lowered(std::string_view text, Graph &fused) {
    const Target target = test_target(3);
    fused = fuse(parse_graph(text), target);
    return lower_clusters(fused, target);
}

TEST(LowerClusters, ATransferIsACopyOnTheGpuThatIsReadElseOnTheOneThatIsWritten) {
    Graph g;
    const Program program =
        lowered("graph @g(%x: f32[64] @cpu, %y: f32[8,4] @cuda:1) {\n"
                "  %0 = transfer %x {to=cuda:0} : f32[64] @cuda:0 stream(9) loc(\"a.cpp\":1)\n"
                "  %1 = transfer %y {to=cpu} : f32[8,4] @cpu\n"
                "  %2 = transfer %y {to=cuda:2} : f32[8,4] @cuda:2\n"
                "  return %0, %1, %2\n}\n",
                g);
    ASSERT_EQ(program.steps.size(), 3u);
    const std::pair<Device, const char *> expected[] = {
        {{DeviceKind::Cuda, 0}, "transfer: cpu to cuda:0"},
        {{DeviceKind::Cuda, 1}, "transfer: cuda:1 to cpu"},
        {{DeviceKind::Cuda, 1}, "transfer: cuda:1 to cuda:2"}};
    for (size_t s = 0; s < program.steps.size(); ++s) {
        const Step &step = program.steps[s];
        const StepDraft &draft = program.draft.steps[s];
        EXPECT_EQ(step.kind, StepKind::Copy);
        EXPECT_EQ(step.device, expected[s].first);
        EXPECT_EQ(step.label, expected[s].second);
        ASSERT_EQ(step.operands.size(), 2u);
        const BufferDesc &from = program.buffers[step.operands[0]], &to = program.buffers[step.operands[1]];
        EXPECT_EQ(from.value, g.operands(g.node(step.node))[0]);
        EXPECT_EQ(to.value, g.result(g.node(step.node)));
        const int64_t bytes = g.type(to.value).bytes();
        EXPECT_EQ(from.bytes, bytes);
        EXPECT_EQ(step.bytes, 2 * bytes);
        EXPECT_EQ(draft.bytes_written, bytes);
        EXPECT_EQ(step.cost, 2 * bytes);
        EXPECT_EQ(step.flops, 0);
    }
    EXPECT_EQ(program.draft.steps[0].user_stream, 9);
    EXPECT_EQ(program.draft.steps[1].user_stream, kNoStream);
}

TEST(LowerClusters, ViewsAreInMemoryBeforeTheyCross) {
    Graph g;
    const Program program = lowered("graph @g(%x: f32[8,4] @cuda:0) {\n"
                                    "  %0 = reshape %x : f32[32] @cuda:0\n"
                                    "  %1 = transfer %0 {to=cpu} : f32[32] @cpu\n"
                                    "  %2 = permute %x {axes=[1,0]} : f32[4,8] @cuda:0\n"
                                    "  %3 = transfer %2 {to=cpu} : f32[4,8] @cpu\n"
                                    "  return %1, %3\n}\n",
                                    g);
    // A reshape of what is in memory is in memory; a transposed matrix is written first, on the GPU.
    ASSERT_EQ(program.steps.size(), 3u);
    EXPECT_EQ(program.steps[0].kind, StepKind::Copy);
    EXPECT_EQ(program.steps[0].operands[0], 0u);
    EXPECT_EQ(program.steps[1].kind, StepKind::Launch);
    EXPECT_EQ(program.steps[1].device, (Device{DeviceKind::Cuda, 0}));
    EXPECT_EQ(program.steps[2].kind, StepKind::Copy);
}

TEST(LowerClusters, OneRunOfWhatIsInMemoryIsCopiedFromThere) {
    Graph g;
    const Program program =
        lowered("graph @g(%x: f32[6,8,4] @cpu) {\n"
                "  %0 = slice %x {starts=[3,2,0], sizes=[1,5,4], steps=[1,1,1]} : f32[1,5,4] @cpu\n"
                "  %1 = reshape %0 : f32[20] @cpu\n"
                "  %2 = slice %1 {starts=[4], sizes=[8], steps=[1]} : f32[8] @cpu\n"
                "  %3 = transfer %2 {to=cuda:0} : f32[8] @cuda:0\n"
                "  %4 = slice %x {starts=[0,2,0], sizes=[2,1,4], steps=[1,1,1]} : f32[2,1,4] @cpu\n"
                "  %5 = transfer %4 {to=cuda:0} : f32[2,1,4] @cuda:0\n"
                "  %6 = slice %x {starts=[1,0,0], sizes=[2,8,4], steps=[3,1,1]} : f32[2,8,4] @cpu\n"
                "  %7 = transfer %6 {to=cuda:0} : f32[2,8,4] @cuda:0\n"
                "  %8 = slice %x {starts=[5,0,0], sizes=[1,8,4], steps=[3,1,1]} : f32[1,8,4] @cpu\n"
                "  %9 = transfer %8 {to=cuda:0} : f32[1,8,4] @cuda:0\n"
                "  return %3, %5, %7, %9\n}\n",
                g);
    // Only what is no run, %4 and %6, is written first, by one launch.
    ASSERT_EQ(std::ranges::count(program.steps, StepKind::Launch, &Step::kind), 1);
    EXPECT_EQ(std::ranges::find(program.steps, StepKind::Launch, &Step::kind)->segments.size(), 2u);
    const auto copy_of = [&](size_t result) -> const Step & {
        return *std::ranges::find_if(program.steps, [&](const Step &s) {
            return s.kind == StepKind::Copy && s.operands[1] == program.results[result];
        });
    };
    const auto begin_of = [&](const Step &s) {
        int64_t begin = s.copy.from_begin;
        for (const ArgSpec::Term &t : s.ints.at(0).terms)
            begin += t.coefficient * g.runtime_words()[t.word];
        return begin;
    };
    EXPECT_EQ(copy_of(0).operands[0], 0u);
    EXPECT_EQ(copy_of(0).copy.bytes, 8 * 4);
    EXPECT_EQ(copy_of(0).bytes, 2 * 8 * 4);
    EXPECT_EQ(begin_of(copy_of(0)), 4 * (3 * 32 + 2 * 4 + 4));
    EXPECT_NE(copy_of(1).operands[0], 0u);
    EXPECT_TRUE(copy_of(1).ints.empty());
    EXPECT_EQ(copy_of(3).operands[0], 0u);
    EXPECT_EQ(begin_of(copy_of(3)), 4 * 5 * 32);
}

TEST(LowerClusters, EffectsKeepTheirDeviceStreamAndWord) {
    Graph g;
    const Program program = lowered("graph @g(%x: f32[4] @cuda:0) {\n"
                                    "  %0 = neg %x : f32[4] @cuda:0\n"
                                    "  !0 = record_event {device=cuda:0, event=7} stream(8)\n"
                                    "  !1 = wait_event {device=cuda:1, event=7} stream(9)\n"
                                    "  !2 = wait_stream {device=cuda:1, of=cuda:0, stream=8} stream(9)\n"
                                    "  !3 = host_callback %0 {device=cuda:0, callback=5}\n"
                                    "  return %0\n}\n",
                                    g);
    ASSERT_EQ(program.steps.size(), 5u);
    struct Expected {
        StepKind kind;
        Device device;
        int32_t stream;
    };
    const Device zero{DeviceKind::Cuda, 0}, one{DeviceKind::Cuda, 1};
    const Expected expected[] = {{StepKind::RecordEvent, zero, 8},
                                 {StepKind::WaitEvent, one, 9},
                                 {StepKind::Library, one, 9},
                                 {StepKind::HostCallback, zero, kNoStream}};
    size_t found = 0;
    for (size_t s = 0; s < program.steps.size(); ++s) {
        const Step &step = program.steps[s];
        const StepDraft &draft = program.draft.steps[s];
        if (step.kind == StepKind::Launch)
            continue;
        const Expected &e = expected[found++];
        EXPECT_EQ(step.kind, e.kind);
        EXPECT_EQ(step.device, e.device);
        EXPECT_EQ(step.stream, kNoStream);
        EXPECT_EQ(draft.user_stream, e.stream);
        if (step.kind == StepKind::Library) {
            EXPECT_EQ(step.symbol, "wait_stream");
            ASSERT_EQ(step.ints.size(), 2u);
            EXPECT_EQ(step.ints[0].constant, device_word(zero));
            EXPECT_EQ(step.ints[1].constant, 8);
        } else {
            ASSERT_EQ(step.effect.terms.size(), 1u);
            const int64_t word = g.runtime_words()[step.effect.terms[0].word];
            EXPECT_EQ(word, step.kind == StepKind::HostCallback ? 5 : 7);
        }
        if (step.kind == StepKind::HostCallback) {
            ASSERT_EQ(step.operands.size(), 1u);
            EXPECT_EQ(draft.modes, std::vector{BufferMode::In});
        }
    }
    EXPECT_EQ(found, 4u);
}

TEST(LowerClusters, AFunctionThatADeviceKindDoesNotHaveIsNamedBeforeAnythingRuns) {
    static constexpr LibraryRule kScan = {
        "cumsum", [](std::span<const int64_t> ints, const DeviceInfo &device) {
            return ints[2] * 8 * device.cuda().multiprocessors; // the extent
        }};
    static constexpr LibraryRules kLibrary = {
        "cuda", [](std::string_view symbol) { return symbol == kScan.symbol ? &kScan : nullptr; }};
    Target target = cuda_test_target();
    target.devices[1].library = &kLibrary;
    const auto lower = [&](const char *line) {
        return lower_clusters(
            fuse(parse_graph(std::string("graph @g(%x: f32[8,5] @cuda:0) {\n") + line + "  return %0\n}\n"),
                 target),
            target);
    };
    const Program program = lower("  %0 = cumsum %x {axis=1} : f32[8,5] @cuda:0\n");
    ASSERT_EQ(program.steps.size(), 1u);
    EXPECT_EQ(program.steps[0].operands.size(), 2u);
    ASSERT_NE(program.steps[0].scratch, kNone);
    EXPECT_EQ(program.buffers[program.steps[0].scratch].kind, BufferKind::Scratch);
    EXPECT_EQ(program.buffers[program.steps[0].scratch].bytes, 5 * 8 * 132);
    try {
        lower("  %0, %1 = sort %x {axis=1, descending=0} : f32[8,5] @cuda:0, i64[8,5] @cuda:0 "
              "loc(\"a.cpp\":7)\n");
        ADD_FAILURE() << "sort was lowered";
    } catch (const Failure &failure) {
        EXPECT_EQ(failure.kind(), ErrorKind::Compile);
        EXPECT_EQ(failure.message(),
                  "`sort` on cuda:0 needs a function of the library that cuda devices do not have; compute "
                  "it on another device (`x.cpu()`).");
        EXPECT_EQ(to_string(failure.loc()), "a.cpp:7");
    }
}

/// A GPU's library multiplies: a product is a call of its own, of operands as they lie.
TEST(LowerClusters, ProductsOnCudaDevicesAreCallsOfTheLibrary) {
    static constexpr LibraryRule kRule = {
        "dot", [](std::span<const int64_t>, const DeviceInfo &) { return int64_t{1} << 20; }};
    static constexpr LibraryRules kLibrary = {
        "cuda", [](std::string_view symbol) { return symbol == kRule.symbol ? &kRule : nullptr; }};
    Target target = cuda_test_target();
    target.devices[1].library = &kLibrary;
    const auto ints_of = [&](const std::string &body) {
        const Program program = lower_clusters(fuse(parse_graph("graph @g(" + body + "}\n"), target), target);
        std::vector<int64_t> ints;
        EXPECT_EQ(program.steps.size(), 1u);
        const Step &step = program.steps[0];
        EXPECT_EQ(step.kind, StepKind::Library);
        EXPECT_EQ(step.symbol, "dot");
        EXPECT_EQ(step.operands.size(), 3u);
        EXPECT_NE(step.scratch, kNone);
        for (const ArgSpec &spec : step.ints)
            ints.push_back(spec.constant);
        return ints;
    };
    const auto f32 = static_cast<int64_t>(DType::F32);
    EXPECT_EQ(ints_of("%x: f32[6,5] @cuda:0, %y: f32[5,7] @cuda:0) {\n"
                      "  %0 = dot %x, %y {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : "
                      "f32[6,7] @cuda:0\n"
                      "  return %0\n"),
              (std::vector<int64_t>{f32, 6, 7, 5, 5, 1, 7, 1, 0, 0, 0, 0, 0}));
    // Transposed and sliced operands are read where they are.
    EXPECT_EQ(ints_of("%x: f32[9,6] @cuda:0, %y: f32[7,5] @cuda:0) {\n"
                      "  %0 = slice %x {starts=[3,0], sizes=[5,6], steps=[1,1]} : f32[5,6] @cuda:0\n"
                      "  %1 = permute %0 {axes=[1,0]} : f32[6,5] @cuda:0\n"
                      "  %2 = permute %y {axes=[1,0]} : f32[5,7] @cuda:0\n"
                      "  %3 = dot %1, %2 {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : "
                      "f32[6,7] @cuda:0\n"
                      "  return %3\n"),
              (std::vector<int64_t>{f32, 6, 7, 5, 1, 6, 1, 5, 0, 0, 0, 0, 0}));
    // Batches, of which one operand has the same for all.
    EXPECT_EQ(ints_of("%x: f32[3,6,5] @cuda:0, %y: f32[3,5,7] @cuda:0) {\n"
                      "  %0 = dot %x, %y {lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1]} "
                      ": f32[3,6,7] @cuda:0\n"
                      "  return %0\n"),
              (std::vector<int64_t>{f32, 6, 7, 5, 5, 1, 7, 1, 0, 0, 1, 3, 30, 35, 0, 0}));
    // A vector is a matrix of one column for it.
    EXPECT_EQ(ints_of("%x: f32[6,5] @cuda:0, %y: f32[5] @cuda:0) {\n"
                      "  %0 = dot %x, %y {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : "
                      "f32[6] @cuda:0\n"
                      "  return %0\n")
                  .size(),
              13u);
    target.modes.float32_matmul = MatmulPrecision::Medium;
    EXPECT_EQ(ints_of("%x: f32[6,5] @cuda:0, %y: f32[5,7] @cuda:0) {\n"
                      "  %0 = dot %x, %y {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : "
                      "f32[6,7] @cuda:0\n"
                      "  return %0\n")
                  .back(),
              2);
}

/// A bias and relu are the call's business where that keeps the bits; what is more is a kernel after it.
TEST(LowerClusters, ProductsOnCudaDevicesTakeTheirEpilogues) {
    static constexpr LibraryRule kRule = {
        "dot", [](std::span<const int64_t>, const DeviceInfo &) { return int64_t{1} << 20; }};
    static constexpr LibraryRules kLibrary = {
        "cuda", [](std::string_view symbol) { return symbol == kRule.symbol ? &kRule : nullptr; }};
    Target target = cuda_test_target();
    target.devices[1].library = &kLibrary;
    const auto product = [](const std::string &dtype, const std::string &rest) {
        std::string text =
            "graph @g(%x: T[6,5] @cuda:0, %y: T[5,7] @cuda:0, %b: T[7] @cuda:0, %c: T[6,1] @cuda:0) {\n"
            "  %p = dot %x, %y {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : "
            "T[6,7] @cuda:0\n"
            "  %zero = literal {value=0} : T[] @cuda:0\n" +
            rest + "}\n";
        for (size_t at = 0; (at = text.find("T[", at)) != std::string::npos;)
            text.replace(at, 1, dtype);
        return text;
    };
    /// Steps, the call's epilogue, its operands.
    using Found = std::array<int64_t, 3>;
    const auto found = [&](const std::string &text) {
        const Program program = lower_clusters(fuse(parse_graph(text), target), target);
        for (const Step &step : program.steps)
            if (step.kind == StepKind::Library)
                return Found{static_cast<int64_t>(program.steps.size()), step.ints.rbegin()[1].constant,
                             static_cast<int64_t>(step.operands.size())};
        return Found{};
    };
    const std::string relu = "  %r = maximum %p, %zero : T[6,7] @cuda:0\n  return %r\n",
                      bias = "  %s = add %b, %p : T[6,7] @cuda:0\n  return %s\n",
                      both = "  %s = add %p, %b : T[6,7] @cuda:0\n"
                             "  %r = maximum %s, %zero : T[6,7] @cuda:0\n  return %r\n";
    EXPECT_EQ(found(product("f32", relu)), (Found{1, kEpilogueRelu, 3}));
    EXPECT_EQ(found(product("f32", bias)), (Found{1, kEpilogueBias, 4}));
    EXPECT_EQ(found(product("f32", both)), (Found{1, kEpilogueBias | kEpilogueRelu, 4}));
    EXPECT_EQ(found(product("bf16", relu)), (Found{1, kEpilogueRelu, 3}));
    // A half type is rounded before the bias is added.
    EXPECT_EQ(found(product("f16", both)), (Found{2, kNoEpilogue, 3}));
    EXPECT_EQ(found(product("f64", relu)), (Found{2, kNoEpilogue, 3}));
    // Not along the columns; the product itself is wanted; another function; two readers; more than that.
    for (const char *rest : {"  %s = add %p, %c : T[6,7] @cuda:0\n  return %s\n",
                             "  %r = maximum %p, %zero : T[6,7] @cuda:0\n  return %r, %p\n",
                             "  %r = minimum %p, %zero : T[6,7] @cuda:0\n  return %r\n",
                             "  %r = maximum %p, %zero : T[6,7] @cuda:0\n  %e = exp %p : T[6,7] @cuda:0\n"
                             "  return %r, %e\n",
                             "  %r = maximum %p, %zero : T[6,7] @cuda:0\n  %e = exp %r : T[6,7] @cuda:0\n"
                             "  return %e\n",
                             "  %s = add %p, %p : T[6,7] @cuda:0\n  return %s\n"})
        EXPECT_EQ(found(product("f32", rest))[1], kNoEpilogue) << rest;
    const std::string gelu = "  %half = literal {value=0.5} : T[] @cuda:0\n"
                             "  %one = literal {value=1} : T[] @cuda:0\n"
                             "  %k = literal {value=0.044715} : T[] @cuda:0\n"
                             "  %q = literal {value=0.7978845608028654} : T[] @cuda:0\n"
                             "  %s = add %p, %b : T[6,7] @cuda:0\n"
                             "  %2 = mul %s, %s : T[6,7] @cuda:0\n"
                             "  %3 = mul %2, %s : T[6,7] @cuda:0\n"
                             "  %4 = mul %3, %k : T[6,7] @cuda:0\n"
                             "  %5 = add %s, %4 : T[6,7] @cuda:0\n"
                             "  %6 = mul %5, %q : T[6,7] @cuda:0\n"
                             "  %7 = tanh %6 : T[6,7] @cuda:0\n"
                             "  %8 = add %7, %one : T[6,7] @cuda:0\n"
                             "  %9 = mul %s, %half : T[6,7] @cuda:0\n"
                             "  %10 = mul %9, %8 : T[6,7] @cuda:0\n"
                             "  return %10\n";
    const std::string by_erf = "  %half = literal {value=0.5} : T[] @cuda:0\n"
                               "  %one = literal {value=1} : T[] @cuda:0\n"
                               "  %q = literal {value=0.7071067811865476} : T[] @cuda:0\n"
                               "  %s = add %p, %b : T[6,7] @cuda:0\n"
                               "  %1 = mul %s, %q : T[6,7] @cuda:0\n"
                               "  %2 = erf %1 : T[6,7] @cuda:0\n"
                               "  %3 = mul %s, %half : T[6,7] @cuda:0\n"
                               "  %4 = add %2, %one : T[6,7] @cuda:0\n"
                               "  %5 = mul %3, %4 : T[6,7] @cuda:0\n"
                               "  return %5\n";
    EXPECT_EQ(found(product("f32", gelu)), (Found{2, kNoEpilogue, 3}));
    EXPECT_EQ(found(product("f32", by_erf)), (Found{2, kNoEpilogue, 3}));
    target.modes.fast_math = true;
    EXPECT_EQ(found(product("f32", gelu)), (Found{1, kEpilogueBias | kEpilogueGelu, 4}));
    EXPECT_EQ(found(product("f32", by_erf)), (Found{1, kEpilogueBias | kEpilogueGelu, 4}));
    EXPECT_EQ(found(product("f16", both)), (Found{1, kEpilogueBias | kEpilogueRelu, 4}));
    EXPECT_EQ(found(product("f64", both)), (Found{2, kNoEpilogue, 3}));
    std::string other = gelu;
    other.replace(other.find("0.044715"), 8, "0.05");
    EXPECT_EQ(found(product("f32", other)), (Found{2, kNoEpilogue, 3}));
    other = by_erf;
    other.replace(other.find("0.7071067811865476"), 18, "0.7");
    EXPECT_EQ(found(product("f32", other)), (Found{2, kNoEpilogue, 3}));
}

} // namespace
} // namespace lz::passes
