#include "passes/verify/verify_schedule.h"

#include "ir/diagnostic.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

namespace lz::passes {
namespace {

using namespace ir;

Step copy_step(uint32_t from, uint32_t to, int32_t stream = 0) {
    Step step;
    step.kind = StepKind::Copy;
    step.stream = stream;
    step.operands = {from, to};
    step.copy.bytes = 64;
    step.accesses = {{from, 0, 64, false}, {to, 0, 64, true}};
    step.label = "copy";
    return step;
}
Step event_step(StepKind kind, uint32_t event, int32_t stream) {
    Step step;
    step.kind = kind;
    step.stream = stream;
    step.event = event;
    step.label = kind == StepKind::RecordEvent ? "record" : "wait";
    return step;
}
BufferDesc arena(int64_t offset) {
    return {.kind = BufferKind::Arena, .offset = offset, .bytes = 64, .device = kCpu};
}

/// input 0 -> arena 1 -> arena 2 -> result 3
Program chain() {
    Program program;
    program.buffers = {{.kind = BufferKind::Input, .bytes = 64, .device = kCpu},
                       arena(0),
                       arena(256),
                       {.kind = BufferKind::Result, .bytes = 64, .device = kCpu}};
    program.arenas = {{.bytes = 512}};
    program.results = {3};
    program.steps = {copy_step(0, 1), copy_step(1, 2), copy_step(2, 3)};
    return program;
}

std::string complaint(const Program &program) {
    try {
        verify_schedule(program);
    } catch (const Failure &f) {
        EXPECT_EQ(f.kind(), ErrorKind::Internal);
        return f.message();
    }
    return "";
}

TEST(VerifySchedule, OneStreamInOrderIsRight) {
    EXPECT_EQ(complaint(chain()), "");
}

TEST(VerifySchedule, AReadBeforeTheWriteIsFound) {
    Program program = chain();
    std::swap(program.steps[0], program.steps[1]);
    EXPECT_EQ(complaint(program),
              "verify-schedule: step 0 (copy) reads bytes [0, 64) of buffer 1, which nothing has "
              "written.");
}

TEST(VerifySchedule, ReuseOfBytesThatAreStillWantedIsFound) {
    Program program = chain();
    program.buffers[2].offset = 32;
    program.buffers.push_back({.kind = BufferKind::Result, .index = 1, .bytes = 64, .device = kCpu});
    program.results.push_back(4);
    program.steps.push_back(copy_step(1, 4));
    EXPECT_EQ(complaint(program),
              "verify-schedule: step 3 (copy) reads bytes [32, 64) of buffer 1, which step 1 has "
              "overwritten with buffer 2.");
}

TEST(VerifySchedule, AResultThatIsOverwrittenIsFound) {
    Program program = chain();
    program.buffers[3] = arena(256);
    program.steps.push_back(copy_step(0, 2));
    EXPECT_EQ(complaint(program),
              "verify-schedule: bytes [0, 64) of result buffer 3 hold buffer 2 at the end.");
}

TEST(VerifySchedule, TwoStreamsNeedAnEvent) {
    Program program = chain();
    program.num_events = 1;
    program.steps[1].stream = program.steps[2].stream = 1;
    EXPECT_EQ(complaint(program),
              "verify-schedule: step 1 (copy) reads bytes [0, 64) of buffer 1, and nothing orders "
              "it after step 0 (copy), which writes them as buffer 1.");
    program.steps.insert(program.steps.begin() + 1,
                         {event_step(StepKind::RecordEvent, 0, 0), event_step(StepKind::WaitEvent, 0, 1)});
    EXPECT_EQ(complaint(program), "");
}

TEST(VerifySchedule, BothStepsAreToldWithTheUsersLines) {
    Program program = chain();
    program.steps[1].stream = 1;
    program.steps[0].recorded = {0};
    program.steps[1].recorded = {1, 2};
    const Location lines[] = {{"train.cpp", 30}, {}, {"train.cpp", 32}};
    try {
        verify_schedule(program, lines);
        FAIL() << "no complaint";
    } catch (const Failure &f) {
        EXPECT_EQ(
            f.message(),
            "verify-schedule: step 1 (copy) at train.cpp:32 reads bytes [0, 64) of buffer 1, and nothing "
            "orders it after step 0 (copy) at train.cpp:30, which writes them as buffer 1.");
    }
}

TEST(VerifySchedule, ACopyThatMovesMoreThanItSaysIsFound) {
    Program program = chain();
    program.steps[1].copy.bytes = 32;
    EXPECT_EQ(complaint(program), "") << "less is fine";
    program.steps[1].copy.bytes = 64;
    program.steps[1].accesses[0].end = 32;
    EXPECT_EQ(complaint(program),
              "verify-schedule: step 1 (copy) reads bytes [0, 64) of buffer 1 without saying so.");
}

TEST(VerifySchedule, ACopyFromWhereverTheRunSaysReadsAnyPart) {
    Program program = chain();
    program.num_runtime_words = 1;
    program.steps[1].copy.bytes = 32;
    program.steps[1].ints = {{0, {{0, 1}}}};
    EXPECT_EQ(complaint(program), "");
    program.steps[1].accesses[0].end = 32;
    EXPECT_EQ(complaint(program),
              "verify-schedule: step 1 (copy) reads bytes [0, 64) of buffer 1 without saying so.");
}

TEST(VerifySchedule, ATouchOfNoBytesIsNone) {
    Program program = chain();
    program.buffers.push_back(arena(0)); // in the place of buffer 1, which is still wanted
    Step nothing = copy_step(0, 4);
    nothing.copy.bytes = 0;
    nothing.accesses = {{0, 64, 64, false}, {4, 0, 0, true}};
    program.steps.insert(program.steps.begin() + 1, nothing);
    EXPECT_EQ(complaint(program), "");
}

TEST(VerifySchedule, AnOperandThatIsNotDeclaredIsFound) {
    Program program = chain();
    Step call = copy_step(2, 3);
    call.kind = StepKind::Library;
    call.symbol = call.label = "call";
    call.operands = {1, 2, 3};
    program.steps.push_back(call);
    EXPECT_EQ(complaint(program),
              "verify-schedule: step 3 (call) has buffer 1 as an operand and does not say "
              "that it touches it.");
}

TEST(VerifySchedule, InputsThatShareMemoryAreOne) {
    Program program = chain();
    program.buffers[0].storage = 5;
    program.buffers.push_back(
        {.kind = BufferKind::Input, .index = 1, .bytes = 64, .device = kCpu, .storage = 5});
    program.buffers.push_back(
        {.kind = BufferKind::Result, .index = 1, .bytes = 64, .device = kCpu, .donor = 4});
    program.results.push_back(5);
    program.steps.push_back(copy_step(2, 5));
    EXPECT_EQ(complaint(program), "");
    program.steps = {copy_step(0, 1), copy_step(1, 2), copy_step(2, 5), copy_step(0, 3)};
    EXPECT_EQ(complaint(program),
              "verify-schedule: step 3 (copy) reads bytes [0, 64) of buffer 0, which step 2 "
              "has overwritten with buffer 5.");
}

TEST(VerifySchedule, UserEventsProveNothing) {
    Program program = chain();
    program.steps[1].stream = program.steps[2].stream = 1;
    program.steps.insert(program.steps.begin() + 1, {event_step(StepKind::RecordEvent, kNone, 0),
                                                     event_step(StepKind::WaitEvent, kNone, 1)});
    EXPECT_NE(complaint(program).find("nothing orders it after"), std::string::npos);
}

TEST(VerifySchedule, AWriteOverAReadOnAnotherStreamNeedsAnEvent) {
    Program program = chain();
    program.num_events = 2;
    program.steps.insert(program.steps.begin() + 1,
                         {event_step(StepKind::RecordEvent, 0, 0), event_step(StepKind::WaitEvent, 0, 1)});
    for (size_t s = 3; s < program.steps.size(); ++s)
        program.steps[s].stream = 1;
    program.buffers.push_back(arena(0)); // has the bytes of buffer 1, on the first stream
    program.steps.push_back(copy_step(0, 4));
    EXPECT_EQ(complaint(program),
              "verify-schedule: step 5 (copy) writes bytes [0, 64) of buffer 4, and nothing orders "
              "it after step 3 (copy), which reads them as buffer 1.");
    program.steps.insert(program.steps.end() - 1,
                         {event_step(StepKind::RecordEvent, 1, 1), event_step(StepKind::WaitEvent, 1, 0)});
    EXPECT_EQ(complaint(program), "");
}

TEST(VerifySchedule, AWaitBeforeTheRecordIsFound) {
    Program program = chain();
    program.num_events = 1;
    program.steps.insert(program.steps.begin(), event_step(StepKind::WaitEvent, 0, 1));
    EXPECT_EQ(complaint(program),
              "verify-schedule: step 0 (wait) waits for event 0, which nothing before it records.");
}

TEST(VerifySchedule, AKernelThatTouchesMoreThanItsStepSaysIsFound) {
    Program program =
        compile(parse_graph("lazuli 1\ngraph @g(%x: f32[64] @cpu) {\n  %0 = neg %x : f32[64] @cpu\n"
                            "  return %0\n}\n"),
                test_target())
            .program;
    EXPECT_EQ(complaint(program), "");
    for (ByteRange &a : program.steps[0].accesses)
        if (a.write)
            a.end -= 4;
    EXPECT_NE(complaint(program).find("without saying so"), std::string::npos) << complaint(program);
}

/// Every arena buffer of random programs moved onto another that lives at the same time.
TEST(VerifySchedule, MovedBuffersAreFound) {
    int moved = 0;
    for (uint64_t seed = 0; seed < 400; ++seed) {
        test::RandomGraphOptions options;
        options.max_nodes = 24;
        options.zero_size = false;
        Target target = test_target();
        target.modes.fuse = false;
        const Program program = compile(test::random_graph(seed, options).graph, target).program;
        for (size_t s = 0; s < program.steps.size(); ++s) {
            // A step's input put where its output goes, if the input is read again later: its readers must
            // notice.
            for (const ByteRange &in : program.steps[s].accesses)
                for (const ByteRange &out : program.steps[s].accesses) {
                    const auto read_later = [&] {
                        for (size_t t = s + 1; t < program.steps.size(); ++t)
                            for (const ByteRange &a : program.steps[t].accesses)
                                if (a.buffer == in.buffer && !a.write)
                                    return true;
                        return false;
                    };
                    if (in.write || !out.write || in.buffer == out.buffer ||
                        program.buffers[in.buffer].kind != BufferKind::Arena ||
                        program.buffers[out.buffer].kind != BufferKind::Arena || !read_later())
                        continue;
                    Program broken = program;
                    broken.buffers[out.buffer].offset = broken.buffers[in.buffer].offset;
                    EXPECT_NE(complaint(broken), "") << "seed " << seed << ", step " << s;
                    ++moved;
                }
        }
    }
    EXPECT_GT(moved, 20);
}

} // namespace
} // namespace lz::passes
