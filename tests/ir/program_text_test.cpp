/// Programs as text, and what their verifier refuses.

#include "ir/diagnostic.h"
#include "ir/kernel/key.h"
#include "ir/program/program.h"
#include "ir/program/verify.h"
#include "ir/text/text.h"
#include "tests/support/samples/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace lz::ir {
namespace {

using testing::HasSubstr;

Program sample() {
    constexpr Device cuda0{DeviceKind::Cuda, 0};
    Program p;
    p.name = "step one";
    p.kernels = {test::softmax(), test::gather()};
    p.num_runtime_words = 4;
    p.num_events = 1;
    p.arenas = {{.bytes = 4096},
                {.device = cuda0, .home = kCopyInStream, .home_device = cuda0, .bytes = 1024},
                {.pinned = true, .home = kCopyOutStream, .home_device = cuda0, .bytes = 512}};
    p.buffers = {
        {.kind = BufferKind::Input, .index = 0, .bytes = 4096, .device = kCpu, .storage = 3, .value = 0},
        {.kind = BufferKind::Arena, .offset = 512, .bytes = 2048, .device = kCpu},
        {.kind = BufferKind::Result, .index = 0, .bytes = 4096, .device = kCpu, .donor = 0, .value = 9},
        {.kind = BufferKind::Arena, .offset = 0, .arena = 1, .bytes = 1024, .device = cuda0},
        {.kind = BufferKind::Arena, .offset = 256, .arena = 2, .bytes = 256, .device = kCpu},
    };
    Step launch;
    launch.kernel = 0;
    launch.worker_bytes = 256;
    launch.cost = 12345;
    launch.bytes = 8192;
    launch.flops = 99;
    launch.node = 7;
    launch.recorded = {2, 3, 5};
    launch.label = "softmax row: \"max\", exp, sum, div";
    Segment s;
    s.buffers = {0, 2, kNone};
    s.args = {{8, {}}, {128, {}}, {128, {{0, 4}, {1, -1}}}, {0, {}}};
    s.items = {8};
    launch.segments = {s, s};
    launch.accesses = {{0, 0, 4096, false}, {2, 0, 4096, true}};
    Step gather;
    gather.kernel = 1;
    s.buffers = {0, 1, 1};
    s.args.assign(7, {1, {}});
    s.scalars = {{3, DType::F16}};
    s.items = {1};
    s.checks = {4};
    gather.segments = {s};
    Step library;
    library.kind = StepKind::Library;
    library.symbol = "cumsum";
    library.operands = {0, 1};
    library.ints = {{8, {}}, {-1, {{2, 1}}}};
    Step copy;
    copy.kind = StepKind::Copy;
    copy.device = cuda0;
    copy.stream = 2;
    copy.operands = {0, 3};
    copy.copy = {128, 256, 512};
    Step record, wait;
    record.kind = StepKind::RecordEvent;
    wait.kind = StepKind::WaitEvent;
    record.event = wait.event = 0;
    Step user_wait, callback;
    user_wait.kind = StepKind::WaitEvent;
    user_wait.device = cuda0;
    user_wait.stream = kFirstUserStream;
    user_wait.effect = {0, {{3, 1}}};
    callback.kind = StepKind::HostCallback;
    callback.effect = {0, {{2, 1}}};
    p.steps = {launch, gather, library, copy, record, wait, user_wait, callback};
    p.results = {2};
    p.notes = {"One kernel: `softmax`.", "a\nsecond line"};
    return p;
}

TEST(ProgramText, ReadsBackWhatItPrints) {
    const Program p = sample();
    verify(p);
    const std::string text = print(p);
    const Program again = parse_program(text);
    EXPECT_EQ(print(again), text);
    EXPECT_EQ(again.steps[0].label, p.steps[0].label);
    EXPECT_EQ(again.steps[0].segments[1].args[2].terms[1].coefficient, -1);
    EXPECT_EQ(again.steps[0].recorded, p.steps[0].recorded);
    EXPECT_EQ(again.buffers[2].donor, 0);
    EXPECT_EQ(again.arenas, p.arenas);
    EXPECT_EQ(again.buffers[3].arena, 1u);
    EXPECT_EQ(again.buffers[0].storage, 3);
    EXPECT_EQ(again.steps[0].bytes, 8192);
    EXPECT_EQ(again.steps[0].flops, 99);
    EXPECT_EQ(again.steps[3].copy.to_begin, 256);
    EXPECT_EQ(again.steps[6].effect.terms[0].word, 3u);
    EXPECT_EQ(again.notes, p.notes);
    EXPECT_EQ(cache_key(again.kernels[1]), cache_key(p.kernels[1]));
    EXPECT_EQ(print(parse_program(print(Program()))), print(Program()));
}

TEST(ProgramText, NoTextCrashesTheParser) {
    std::mt19937 random(2);
    const std::string text = print(sample());
    int refused = 0;
    for (int i = 0; i < 1500; ++i) {
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
        default:
            broken.insert(random() % broken.size(), text.substr(at, 1 + random() % 40));
        }
        try {
            const Program p = parse_program(broken);
            EXPECT_EQ(print(parse_program(print(p))), print(p));
        } catch (const Failure &failure) {
            EXPECT_EQ(failure.kind(), ErrorKind::Parse) << failure.message();
            ++refused;
        }
    }
    EXPECT_GT(refused, 500);
}

TEST(ProgramVerify, NamesWhatIsWrong) {
    const auto error = [](auto change) -> std::string {
        Program p = sample();
        change(p);
        try {
            verify(p);
        } catch (const Failure &failure) {
            EXPECT_EQ(failure.kind(), ErrorKind::Internal);
            EXPECT_THAT(failure.message(), HasSubstr("program @")) << "the message carries the program";
            return failure.message();
        }
        return "no failure";
    };
    EXPECT_THAT(error([](Program &p) { p.steps[0].kernel = 2; }),
                HasSubstr("step 0: it launches kernel k2 of 2"));
    EXPECT_THAT(error([](Program &p) { p.steps[0].segments[1].args.pop_back(); }),
                HasSubstr("a segment has 3 arguments, its kernel @softmax wants 4"));
    EXPECT_THAT(error([](Program &p) { p.steps[0].segments[0].buffers[2] = 1; }), HasSubstr("worker"));
    EXPECT_THAT(error([](Program &p) { p.steps[0].segments[0].args[0].terms = {{4, 1}}; }),
                HasSubstr("runtime word w4 of 4"));
    EXPECT_THAT(error([](Program &p) { p.steps[1].segments[0].checks = {1, 2}; }), HasSubstr("2 checks"));
    EXPECT_THAT(error([](Program &p) { p.steps[1].segments[0].items[0] = -1; }), HasSubstr("-1 work items"));
    EXPECT_THAT(error([](Program &p) { p.steps[0].accesses[1].end = 4097; }),
                HasSubstr("step 0: it touches bytes [0, 4097)"));
    EXPECT_THAT(error([](Program &p) { p.buffers[1].offset = 2049; }), HasSubstr("arena of 4096 bytes"));
    EXPECT_THAT(error([](Program &p) { p.buffers[2].donor = 1; }), HasSubstr("is not an input"));
    EXPECT_THAT(error([](Program &p) { p.buffers[2].bytes = 8192; }), HasSubstr("it needs 8192"));
    EXPECT_THAT(error([](Program &p) { p.steps[2].symbol.clear(); }), HasSubstr("library call"));
    EXPECT_THAT(error([](Program &p) { p.steps[3].operands.pop_back(); }), HasSubstr("a copy has 1 buffers"));
    EXPECT_THAT(error([](Program &p) { p.steps[4].event = 1; }), HasSubstr("event e1 of 1"));
    EXPECT_THAT(error([](Program &p) { p.results = {5}; }), HasSubstr("buffer b5 of 5"));
    EXPECT_THAT(error([](Program &p) { p.arenas[0].device = {DeviceKind::Cuda, 0}; }),
                HasSubstr("arena a0: its home is a stream of cpu, its memory is on cuda:0"));
    EXPECT_THAT(error([](Program &p) { p.arenas[2].device = {DeviceKind::Cuda, 0}; }),
                HasSubstr("arena a2: it is pinned memory of cuda:0"));
    EXPECT_THAT(error([](Program &p) { p.buffers[1].arena = 3; }), HasSubstr("it is in arena a3 of 3"));
    EXPECT_THAT(error([](Program &p) { p.buffers[1].arena = 1; }),
                HasSubstr("it is on cpu, and arena a1 is on cuda:0"));
    EXPECT_THAT(error([](Program &p) { p.steps[3].copy.to_begin = 513; }),
                HasSubstr("it copies bytes [513, 513 + 512) of a buffer that has 1024"));
    EXPECT_THAT(error([](Program &p) { p.steps[3].device = {DeviceKind::Cuda, 1}; }),
                HasSubstr("it copies from cpu to cuda:0 on a stream of cuda:1"));
    EXPECT_THAT(error([](Program &p) { p.steps[3].stream = kMaxStreams; }),
                HasSubstr("cuda:0 has no stream 72 in a program"));
    EXPECT_THAT(error([](Program &p) { p.steps[0].stream = 1; }),
                HasSubstr("cpu has no stream 1 in a program"));
    EXPECT_THAT(error([](Program &p) { p.steps[7].effect.terms[0].word = 4; }),
                HasSubstr("runtime word w4 of 4"));
    Program p = sample();
    p.kernels[0].loops[0].axis = 0;
    EXPECT_THROW(verify(p), Failure) << "its kernels are verified too";
}

} // namespace
} // namespace lz::ir
