/// How many events and waits the schedules of well-known graphs need, exactly.

#include "support/slow_target.h"

#include "ir/text/text.h"
#include "passes/devices/stage_copies.h"
#include "passes/pipeline.h"
#include "passes/verify/verify_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <set>

namespace lz::passes {
namespace {

using namespace ir;

struct Pairs {
    size_t records = 0, waits = 0;
    friend bool operator==(const Pairs &, const Pairs &) = default;
    friend void PrintTo(const Pairs &p, std::ostream *out) {
        *out << p.records << " records, " << p.waits << " waits";
    }
};

Pairs pairs(const Program &program) {
    Pairs found;
    for (const Step &step : program.steps) {
        found.records += step.kind == StepKind::RecordEvent && step.event != kNone;
        found.waits += step.kind == StepKind::WaitEvent && step.event != kNone;
    }
    return found;
}

/// Every operation a kernel of its own. `%x` and `%y` are f32[64,64] on cuda:0.
Program compile_body(const std::string &body, bool peers = true) {
    Target target = slow_target(2, peers);
    target.modes.fuse = false;
    Program program =
        compile(parse_graph("lazuli 1\ngraph @g(%x: f32[64,64] @cuda:0, %y: f32[64,64] @cuda:0) {\n" + body +
                            "}\n"),
                target)
            .program;
    verify_schedule(program);
    return program;
}

bool says(const Program &program, const std::string &what) {
    return std::ranges::any_of(program.notes,
                               [&](const std::string &note) { return note.find(what) != std::string::npos; });
}

std::string unary(const std::string &to, const std::string &op, const std::string &from, int stream = -1) {
    return "  %" + to + " = " + op + " %" + from + " : f32[64,64] @cuda:0" +
           (stream < 0 ? "" : " stream(" + std::to_string(stream) + ")") + "\n";
}
std::string add(const std::string &to, const std::string &a, const std::string &b, int stream = -1) {
    return "  %" + to + " = add %" + a + ", %" + b + " : f32[64,64] @cuda:0" +
           (stream < 0 ? "" : " stream(" + std::to_string(stream) + ")") + "\n";
}

TEST(InsertSyncs, AChainNeedsNone) {
    EXPECT_EQ(pairs(compile_body(unary("0", "exp", "x") + unary("1", "tanh", "0") + unary("2", "sin", "1") +
                                 "  return %2\n")),
              (Pairs{0, 0}));
}

TEST(InsertSyncs, ADiamondNeedsTwo) {
    EXPECT_EQ(pairs(compile_body(unary("0", "exp", "x") + unary("1", "tanh", "0") + unary("2", "sin", "0") +
                                 add("3", "1", "2") + "  return %3\n")),
              (Pairs{2, 2}));
}

TEST(InsertSyncs, AFanOutOfEightNeedsOneEventAndAWaitForEachOtherStream) {
    std::string body = unary("0", "exp", "x"), results;
    for (int i = 0; i < 8; ++i) {
        body +=
            "  %c" + std::to_string(i) + " = constant {value=" + std::to_string(i) + "} : f32[] @cuda:0\n";
        body +=
            "  %b" + std::to_string(i) + " = broadcast %c" + std::to_string(i) + " : f32[64,64] @cuda:0\n";
        body += add("r" + std::to_string(i), "0", "b" + std::to_string(i));
        results += (i ? ", %r" : " %r") + std::to_string(i);
    }
    EXPECT_EQ(pairs(compile_body(body + "  return" + results + "\n")), (Pairs{1, 3}));
}

TEST(InsertSyncs, AChainOfCopiesNeedsOneBetweenTwo) {
    const std::string chain =
        "  %0 = transfer %x {to=cuda:1} : f32[64,64] @cuda:1\n"
        "  %1 = transfer %0 {to=cpu} : f32[64,64] @cpu\n"
        "  %2 = transfer %1 {to=cuda:0} : f32[64,64] @cuda:0\n"
        "  %3 = transfer %2 {to=cuda:1} : f32[64,64] @cuda:1\n  return %0, %1, %2, %3\n";
    Target target = slow_target(2);
    // `simplify` would see through the round trip, so the second half begins at the lowering.
    const Graph graph =
        fuse(parse_graph("lazuli 1\ngraph @g(%x: f32[64,64] @cuda:0) {\n" + chain + "}\n"), target);
    const Program program = lower(graph, target);
    verify_schedule(program);
    // And one says to cuda:1, which does not use the last copy, that it is there.
    EXPECT_EQ(pairs(program), (Pairs{4, 4}));
}

TEST(InsertSyncs, AnUnnamedCopyBetweenGpusIsWorkOfBoth) {
    const auto waits_of_peer = [](const std::string &body) {
        const Target target = slow_target(2);
        const Graph graph =
            fuse(parse_graph("lazuli 1\ngraph @g(%x: f32[64,64] @cuda:0) {\n" + body + "}\n"), target);
        const Program program = lower(graph, target);
        verify_schedule(program);
        return std::ranges::count_if(program.steps, [](const Step &step) {
            return step.kind == StepKind::WaitEvent &&
                   StreamRef{step.device, step.stream} ==
                       StreamRef{Device{DeviceKind::Cuda, 1}, kPeersCopyStream};
        });
    };
    const std::string copy = "  %0 = transfer %x {to=cuda:1} : f32[64,64] @cuda:1\n";
    EXPECT_EQ(waits_of_peer(copy + "  return %0\n"), 1);
    // Unnamed work that uses the copy waits for it by itself.
    EXPECT_EQ(waits_of_peer(copy + "  %1 = exp %0 : f32[64,64] @cuda:1\n  return %1\n"), 0);
    EXPECT_EQ(waits_of_peer(copy + "  %1 = exp %0 : f32[64,64] @cuda:1 stream(8)\n  return %1\n"), 1);
    // The last of several says it for all.
    EXPECT_EQ(waits_of_peer("  %0 = exp %x : f32[64,64] @cuda:0\n"
                            "  %1 = transfer %x {to=cuda:1} : f32[64,64] @cuda:1\n"
                            "  %2 = transfer %0 {to=cuda:1} : f32[64,64] @cuda:1\n  return %1, %2\n"),
              1);
}

TEST(InsertSyncs, TwoUserStreamsThatCrossNeedTwo) {
    EXPECT_EQ(pairs(compile_body(unary("0", "exp", "x", 8) + unary("1", "tanh", "y", 9) +
                                 add("2", "0", "1", 8) + add("3", "1", "0", 9) + "  return %2, %3\n")),
              (Pairs{2, 2}));
}

TEST(InsertSyncs, WhatAStreamHasWaitedForIsNotAwaitedAgain) {
    EXPECT_EQ(
        pairs(compile_body(unary("0", "exp", "x", 8) + unary("1", "tanh", "0", 8) + add("2", "1", "y", 9) +
                           add("3", "0", "2", 9) + add("4", "0", "3", 9) + "  return %4\n")),
        (Pairs{1, 1}));
}

/// %0 and %5 are dead before the result of their stream is there, and as large as each other.
std::string two_users(const std::string &late) {
    return "  %0 = permute %x {axes=[1,0]} : f32[64,64] @cuda:0 stream(8)\n" + add("1", "0", "x", 8) +
           "  %2 = permute %1 {axes=[1,0]} : f32[64,64] @cuda:0 stream(8)\n" + add("3", "2", "x", 8) + late +
           "  %5 = permute %4 {axes=[1,0]} : f32[64,64] @cuda:0 stream(9)\n" + add("6", "5", "y", 9) +
           "  %7 = permute %6 {axes=[1,0]} : f32[64,64] @cuda:0 stream(9)\n" + add("8", "7", "y", 9) +
           "  return %3, %8\n";
}

TEST(InsertSyncs, StreamsThatOverlapShareNoMemory) {
    const Program program =
        compile_body(two_users("  %4 = permute %y {axes=[1,0]} : f32[64,64] @cuda:0 stream(9)\n"));
    EXPECT_EQ(pairs(program), (Pairs{0, 0}));
    EXPECT_EQ(program.arenas.at(0).bytes, 2 * 64 * 64 * 4);
}

TEST(InsertSyncs, MemoryIsUsedAgainWhereTheDataOrdersItAnyway) {
    const Program program = compile_body(two_users(add("4", "3", "y", 9)));
    EXPECT_EQ(pairs(program), (Pairs{1, 1}));
    EXPECT_FALSE(says(program, "used the same bytes"));
}

/// The other stream has more to do before it comes to its intermediates.
std::string two_users_one_late() {
    return two_users("  %m = dot %y, %y {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : "
                     "f32[64,64] @cuda:0 stream(9)\n" +
                     add("4", "m", "y", 9));
}

TEST(InsertSyncs, MemoryIsUsedAgainAcrossStreamsWhereAWaitCostsNothing) {
    std::string unnamed = two_users_one_late();
    for (const std::string stream : {" stream(8)", " stream(9)"})
        for (size_t at; (at = unnamed.find(stream)) != std::string::npos;)
            unnamed.erase(at, stream.size());
    const Program program = compile_body(unnamed);
    EXPECT_EQ(pairs(program), (Pairs{1, 1}));
    EXPECT_TRUE(says(program, "1 of the waits is there only because another stream used the same bytes"));
}

/// What the user has put on a stream before may take any time, so that a wait may cost any (S42).
TEST(InsertSyncs, StreamsOfTheUsersDoNotWaitForEachOthersMemory) {
    const Program program = compile_body(two_users_one_late());
    EXPECT_EQ(pairs(program), (Pairs{0, 0}));
}

TEST(InsertSyncs, TheUsersWaitStreamIsOnePair) {
    const Program program = compile_body(
        unary("0", "exp", "x", 8) + "  !0 = wait_stream {device=cuda:0, of=cuda:0, stream=8} stream(9)\n" +
        unary("1", "tanh", "y", 9) + "  return %0, %1\n");
    EXPECT_EQ(pairs(program), (Pairs{1, 1}));
    EXPECT_EQ(program.steps.size(), 4u);
}

TEST(InsertSyncs, WaitStreamWaitsForEarlierRunsToo) {
    const Program program =
        compile_body("  !0 = wait_stream {device=cuda:0, of=cuda:1, stream=8} stream(9)\n" +
                     unary("1", "tanh", "y", 9) + "  return %1\n");
    ASSERT_EQ(program.steps.size(), 3u);
    EXPECT_EQ(program.steps[0].kind, StepKind::RecordEvent);
    EXPECT_EQ(program.steps[0].device, (Device{DeviceKind::Cuda, 1}));
    EXPECT_EQ(program.steps[0].stream, 8);
    EXPECT_EQ(program.steps[1].kind, StepKind::WaitEvent);
    EXPECT_EQ(program.steps[1].stream, 9);
}

TEST(InsertSyncs, WaitingForTheDefaultStreamWaitsForAllUnnamedWorkOfEarlierRuns) {
    const std::string wait = " = wait_stream {device=cuda:0, of=cuda:0, stream=0} stream(";
    const Program program =
        compile_body("  !0" + wait + "9)\n" + unary("1", "tanh", "x", 9) + "  !1" + wait + "9)\n  !2" + wait +
                     "10)\n" + unary("2", "exp", "y", 10) + "  return %1, %2\n");
    std::vector<int32_t> recorded;
    std::vector<uint32_t> first, second;
    for (const Step &step : program.steps) {
        if (step.kind == StepKind::RecordEvent)
            recorded.push_back(step.stream);
        else if (step.kind == StepKind::WaitEvent)
            (step.stream == 9 ? first : second).push_back(step.event);
    }
    EXPECT_EQ(recorded, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7})) << "where unnamed work may be";
    EXPECT_EQ(first, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7})) << "once, though it is asked for twice";
    EXPECT_EQ(second, first) << "of the same events";
}

/// The streams of cuda:0 that unnamed work may be on, but for the default stream.
const std::vector<int32_t> kOtherUnnamed = {1, 2, 3, 4, 5, 6, 7};

/// What stands before and behind the one effect of the user's in a program: streams that are recorded and
/// that wait.
struct Around {
    std::vector<int32_t> recorded_before, waits_before, recorded_behind, wait_behind;
};
Around around_the_effect(const Program &program) {
    Around found;
    bool behind = false;
    for (const Step &step : program.steps) {
        behind = behind || has_effect(step);
        if (step.kind == StepKind::RecordEvent && step.event != kNone)
            (behind ? found.recorded_behind : found.recorded_before).push_back(step.stream);
        if (step.kind == StepKind::WaitEvent && step.event != kNone)
            (behind ? found.wait_behind : found.waits_before).push_back(step.stream);
    }
    EXPECT_TRUE(behind) << print(program);
    return found;
}

TEST(InsertSyncs, AllUnnamedWorkOfLaterRunsComesAfterAWaitOfTheDefaultStream) {
    const Around event =
        around_the_effect(compile_body("  !0 = wait_event {device=cuda:0, event=0}\n  return\n"));
    EXPECT_EQ(event.waits_before, std::vector<int32_t>());
    EXPECT_EQ(event.recorded_behind, std::vector<int32_t>{0});
    EXPECT_EQ(event.wait_behind, kOtherUnnamed);

    const Program stream =
        compile_body("  !0 = wait_stream {device=cuda:0, of=cuda:0, stream=8}\n  return\n");
    std::vector<int32_t> recorded, waiting;
    for (const Step &step : stream.steps)
        (step.kind == StepKind::RecordEvent ? recorded : waiting).push_back(step.stream);
    EXPECT_EQ(recorded, (std::vector<int32_t>{8, 0}));
    EXPECT_EQ(waiting, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(stream.steps.at(1).event, stream.steps[0].event);
    EXPECT_EQ(stream.steps.at(3).event, stream.steps[2].event);
}

TEST(InsertSyncs, ACallbackOnTheDefaultStreamStandsBetweenAllUnnamedWork) {
    const Around callback =
        around_the_effect(compile_body("  !0 = host_callback {device=cuda:0, callback=0}\n  return\n"));
    EXPECT_EQ(callback.recorded_before, kOtherUnnamed);
    EXPECT_EQ(callback.waits_before, std::vector<int32_t>(7, 0));
    EXPECT_EQ(callback.recorded_behind, std::vector<int32_t>{0});
    EXPECT_EQ(callback.wait_behind, kOtherUnnamed);
}

TEST(InsertSyncs, ARecordOnTheDefaultStreamComesAfterAllUnnamedWorkAndHoldsNothingBack) {
    const Around record =
        around_the_effect(compile_body("  !0 = record_event {device=cuda:0, event=0}\n  return\n"));
    EXPECT_EQ(record.recorded_before, kOtherUnnamed);
    EXPECT_EQ(record.waits_before, std::vector<int32_t>(7, 0));
    EXPECT_EQ(record.wait_behind, std::vector<int32_t>());
}

TEST(InsertSyncs, EffectsOnUserStreamsConcernNoOther) {
    for (const char *effect : {"wait_event {device=cuda:0, event=0}", "record_event {device=cuda:0, event=0}",
                               "host_callback {device=cuda:0, callback=0}"})
        EXPECT_EQ(pairs(compile_body(std::string("  !0 = ") + effect + " stream(8)\n  return\n")),
                  (Pairs{0, 0}));
}

TEST(StageCopies, PiecesTakeTurnsInTwoBlocksOfPinnedMemory) {
    Target target = test_target(2);
    const Program program =
        compile(parse_graph("lazuli 1\ngraph @g(%x: f32[4096,1024] @cuda:0) {\n"
                            "  %0 = transfer %x {to=cuda:1} : f32[4096,1024] @cuda:1\n  return %0\n}\n"),
                target)
            .program;
    ASSERT_EQ(program.arenas.size(), 1u);
    EXPECT_TRUE(program.arenas[0].pinned);
    EXPECT_EQ(program.arenas[0].bytes, 2 * kStagedPiece);
    EXPECT_EQ(program.arenas[0].home, kCopyOutStream);
    size_t out = 0, in = 0;
    int64_t moved = 0;
    for (const Step &step : program.steps)
        if (step.kind == StepKind::Copy) {
            out += step.device.index == 0 && step.stream == kCopyOutStream;
            in += step.device.index == 1 && step.stream == kCopyInStream;
            moved += step.copy.bytes;
        }
    EXPECT_EQ(out, 4u);
    EXPECT_EQ(in, 4u);
    EXPECT_EQ(moved, 2 * 4096 * 1024 * 4);
    // Each piece in waits for its piece out; the third and fourth pieces out wait for their block.
    EXPECT_EQ(pairs(program), (Pairs{6, 6}));
}

TEST(AssignStreams, SmallWorkStaysOnOneStream) {
    Target target = test_target(1);
    target.modes.fuse = false;
    const Program program =
        compile(parse_graph("lazuli 1\ngraph @g(%x: f32[64] @cuda:0) {\n"
                            "  %0 = exp %x : f32[64] @cuda:0\n  %1 = tanh %x : f32[64] @cuda:0\n"
                            "  %2 = sin %x : f32[64] @cuda:0\n  return %0, %1, %2\n}\n"),
                target)
            .program;
    for (const Step &step : program.steps)
        EXPECT_EQ(step.stream, kDefaultStream);
    EXPECT_EQ(pairs(program), (Pairs{0, 0}));
}

TEST(AssignStreams, TheLongestChainIsNotHeldUp) {
    // Four short steps are recorded before a long chain; with four streams nothing is before the chain.
    std::string body, results;
    for (int i = 0; i < 4; ++i) {
        const std::string n = std::to_string(i);
        body += "  %c" + n + " = constant {value=" + n + "} : f32[] @cuda:0\n  %b" + n + " = broadcast %c" +
                n + " : f32[64,64] @cuda:0\n" + add("s" + n, "x", "b" + n);
        results += "%s" + n + ", ";
    }
    body += "  %l0 = dot %y, %y {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : "
            "f32[64,64] @cuda:0\n"
            "  %l1 = dot %l0, %y {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : "
            "f32[64,64] @cuda:0\n";
    const Program program = compile_body(body + "  return " + results + "%l1\n");
    std::optional<int32_t> chain;
    for (const Step &step : program.steps)
        if (step.label.find("dot") != std::string::npos) {
            EXPECT_EQ(chain.value_or(step.stream), step.stream);
            chain = step.stream;
        }
    for (const Step &step : program.steps) {
        if (step.label.find("add") != std::string::npos) {
            EXPECT_NE(step.stream, chain) << print(program);
        }
    }
    EXPECT_EQ(pairs(program), (Pairs{0, 0}));
}

/// `chains` chains of `length` steps, none of which can work in place, and their sum.
std::string chains(int chains, int length) {
    constexpr const char *kOps[] = {"exp", "sin", "tanh", "cos"};
    std::string body, sum;
    for (int c = 0; c < chains; ++c) {
        std::string before = c % 2 ? "x" : "y";
        for (int k = 0; k < length; ++k) {
            const std::string id = std::to_string(c) + "_" + std::to_string(k);
            body += "  %p" + id + " = permute %" + before + " {axes=[1,0]} : f32[64,64] @cuda:0\n";
            body += unary("a" + id, kOps[c], "p" + id);
            before = "a" + id;
        }
        if (!sum.empty())
            body += add("s" + std::to_string(c), sum, before);
        sum = sum.empty() ? before : "s" + std::to_string(c);
    }
    return body + "  return %" + sum + "\n";
}

TEST(AssignStreams, AChainKeepsToOneStream) {
    const Program program = compile_body(chains(4, 6));
    std::set<int32_t> used;
    for (size_t s = 0; s < program.steps.size(); ++s)
        used.insert(program.steps[s].stream);
    EXPECT_EQ(used.size(), 4u);
    EXPECT_EQ(pairs(program), (Pairs{3, 3}));
}

TEST(AssignStreams, OverlapThatWouldNotFitIsGivenUp) {
    const std::string body = chains(4, 6);
    const auto compile_with = [&](int64_t memory) {
        Target target = slow_target(1);
        target.modes.fuse = false;
        target.devices[1].memory_bytes = memory;
        return compile(parse_graph("lazuli 1\ngraph @g(%x: f32[64,64] @cuda:0, %y: f32[64,64] @cuda:0) {\n" +
                                   body + "}\n"),
                       target)
            .program;
    };
    const Program wide = compile_with(int64_t{1} << 30), narrow = compile_with(200 << 10);
    EXPECT_GT(wide.arenas.at(0).bytes, narrow.arenas.at(0).bytes);
    EXPECT_EQ(pairs(narrow), (Pairs{0, 0}));
    EXPECT_TRUE(says(narrow, "Unnamed work stays on one stream of each GPU: overlapped it would need"));
    EXPECT_FALSE(says(wide, "Unnamed work stays"));
}

TEST(Pipeline, WhatDoesNotFitFusedIsOneKernelAnOperationWhereThatFits) {
    std::string body, sum = "x";
    for (int i = 0; i < 8; ++i) {
        const std::string id = std::to_string(i);
        body += unary("a" + id, i % 2 ? "sin" : "exp", sum == "x" ? "y" : "c" + std::to_string(i - 1));
        body += "  %c" + id + " = cumsum %a" + id + " {axis=0} : f32[64,64] @cuda:0\n";
        body += add("s" + id, sum, "c" + id);
        sum = "s" + id;
    }
    const std::string text =
        "lazuli 1\ngraph @g(%x: f32[64,64] @cuda:0, %y: f32[64,64] @cuda:0) {\n" + body + "  return %s7\n}\n";
    const auto compile_with = [&](int64_t memory) {
        Target target = test_target(1);
        target.devices[1].memory_bytes = memory;
        return compile(parse_graph(text), target).program;
    };
    // Fused, one kernel adds them all at the end.
    const Program wide = compile_with(int64_t{1} << 30), narrow = compile_with(7 * (16 << 10));
    EXPECT_GE(wide.arenas.at(0).bytes, 8 * (16 << 10));
    EXPECT_LE(narrow.arenas.at(0).bytes, 4 * (16 << 10));
    EXPECT_TRUE(says(narrow, "Every operation is its own kernel, because fused they would need"));
    EXPECT_FALSE(says(wide, "its own kernel"));
    const Program hopeless = compile_with(16 << 10);
    EXPECT_LE(hopeless.arenas.at(0).bytes, narrow.arenas.at(0).bytes) << "as little as can be";
}

TEST(Pipeline, CopiesWaitForMemoryWhereTheyWouldNotFitAtOnce) {
    std::string params = "%x: f32[64,64] @cuda:0", body, sum = "x";
    for (int i = 0; i < 8; ++i) {
        const std::string id = std::to_string(i);
        params += ", %h" + id + ": f32[64,64] @cpu";
        body += "  %t" + id + " = transfer %h" + id + " {to=cuda:0} : f32[64,64] @cuda:0\n";
        body += "  %c" + id + " = cumsum %t" + id + " {axis=0} : f32[64,64] @cuda:0\n";
        body += "  %d" + id + " = cumsum %t" + id + " {axis=1} : f32[64,64] @cuda:0\n";
        body += add("e" + id, "c" + id, "d" + id) + add("s" + id, sum, "e" + id);
        sum = "s" + id;
    }
    const auto needed = [&](int64_t memory) {
        Target target = slow_target(1);
        target.devices[1].memory_bytes = memory;
        const Program program =
            compile(parse_graph("lazuli 1\ngraph @g(" + params + ") {\n" + body + "  return %s7\n}\n"),
                    target)
                .program;
        verify_schedule(program);
        int64_t bytes = 0;
        for (const ArenaDesc &arena : program.arenas)
            bytes += arena.bytes;
        return bytes;
    };
    EXPECT_GE(needed(int64_t{1} << 30), 8 * (16 << 10));
    EXPECT_LE(needed(8 * (16 << 10)), 6 * (16 << 10));
}

} // namespace
} // namespace lz::passes
