/// Random programs on several devices and streams, each with one of its syncs taken away: verify_schedule
/// objects exactly when brute force over all pairs of accesses says that the sync mattered.

#include "support/slow_target.h"

#include "ir/diagnostic.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "passes/verify/verify_schedule.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <tuple>

namespace lz::passes {
namespace {

using namespace ir;

constexpr uint64_t kSeeds = 500;

/// One memory: kind, number.
std::pair<int, int64_t> memory_of(const Program &program, uint32_t buffer) {
    const BufferDesc &b = program.buffers[buffer];
    if (b.kind == BufferKind::Arena)
        return {0, b.arena};
    if (b.kind == BufferKind::Result && b.donor < 0)
        return {1, b.index};
    const BufferDesc &input = b.kind == BufferKind::Input ? b : program.buffers[static_cast<size_t>(b.donor)];
    return input.storage >= 0 ? std::pair{2, int64_t{input.storage}} : std::pair{3, int64_t{input.index}};
}

bool conflict(const Program &program, const ByteRange &a, const ByteRange &b) {
    if ((!a.write && !b.write) || memory_of(program, a.buffer) != memory_of(program, b.buffer))
        return false;
    const auto begin = [&](const ByteRange &r) { return program.buffers[r.buffer].offset + r.begin; };
    const auto end = [&](const ByteRange &r) { return program.buffers[r.buffer].offset + r.end; };
    return begin(a) < end(b) && begin(b) < end(a);
}

/// Two steps with conflicting accesses that no path through streams and events joins.
std::optional<std::pair<size_t, size_t>> find_race(const Program &program) {
    const size_t n = program.steps.size();
    std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
    std::map<std::tuple<DeviceKind, uint8_t, int32_t>, size_t> latest;
    std::vector<size_t> recorded(program.num_events, SIZE_MAX);
    for (size_t s = 0; s < n; ++s) {
        const Step &step = program.steps[s];
        const auto after = [&](size_t other) {
            before[s][other] = true;
            for (size_t k = 0; k < other; ++k)
                if (before[other][k])
                    before[s][k] = true;
        };
        const auto stream = std::tuple(step.device.kind, step.device.index, step.stream);
        if (const auto found = latest.find(stream); found != latest.end())
            after(found->second);
        latest[stream] = s;
        if (step.event != kNone && step.kind == StepKind::WaitEvent)
            after(recorded[step.event]);
        if (step.event != kNone && step.kind == StepKind::RecordEvent)
            recorded[step.event] = s;
    }
    for (size_t s = 0; s < n; ++s)
        for (size_t t = 0; t < s; ++t)
            if (!before[s][t])
                for (const ByteRange &a : program.steps[s].accesses)
                    for (const ByteRange &b : program.steps[t].accesses)
                        if (conflict(program, a, b))
                            return std::pair{t, s};
    return std::nullopt;
}

bool objects(const Program &program) {
    try {
        verify_schedule(program);
        return false;
    } catch (const Failure &) {
        return true;
    }
}

Program random_program(uint64_t seed, bool effects) {
    test::RandomGraphOptions options;
    options.max_nodes = 40;
    for (uint8_t i = 0; i < 1 + seed % 3; ++i)
        options.devices.push_back({DeviceKind::Cuda, i});
    options.streams = seed % 2 == 0 ? 3 : 0;
    options.first_stream = kFirstUserStream;
    options.effects = effects ? 15 : 0;
    options.updates = seed % 5 == 1 ? 10 : 0;
    Graph graph = test::random_graph(seed, options).graph;
    test::Random draw(seed + 7);
    for (Param &p : graph.params)
        p.donated = draw.chance(40);
    Target target = slow_target(3, seed % 4 != 1);
    target.modes.fuse = seed % 5 != 0;
    return compile(std::move(graph), target).program;
}

TEST(VerifyScheduleMutation, EverySyncThatMatteredIsMissed) {
    size_t mattered = 0, idle = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
        const bool effects = seed % 4 == 3;
        const Program program = random_program(seed, effects);
        ASSERT_FALSE(objects(program)) << "seed " << seed;
        ASSERT_FALSE(find_race(program)) << "seed " << seed << "\n" << print(program);
        // A wait for an event of the user's finds what was recorded before it.
        uint32_t last = 0;
        for (const Step &step : program.steps)
            if (step.kind != StepKind::HostCallback && has_effect(step)) {
                EXPECT_LE(last, step.effect.terms.at(0).word) << "seed " << seed;
                last = step.effect.terms[0].word;
            }
        for (size_t s = 0; s < program.steps.size(); ++s) {
            if (program.steps[s].kind != StepKind::WaitEvent || program.steps[s].event == kNone)
                continue;
            Program broken = program;
            broken.steps.erase(broken.steps.begin() + static_cast<std::ptrdiff_t>(s));
            const bool race = find_race(broken).has_value();
            EXPECT_EQ(objects(broken), race) << "seed " << seed << " without step " << s << "\n"
                                             << print(program);
            // Only what the user ordered may be there without a conflict, and what the user may yet wait for.
            const bool peers = program.steps[s].stream == kPeersCopyStream;
            EXPECT_TRUE(race || effects || peers)
                << "seed " << seed << ": step " << s << " is a wait too many\n"
                << print(program);
            (race ? mattered : idle) += 1;
        }
    }
    EXPECT_GT(mattered, 1000u);
    EXPECT_GT(idle, 10u);
}

} // namespace
} // namespace lz::passes
