#include "runtime/profiler/profiler.h"
#include "runtime/profiler/svg.h"

#include "ir/stream.h"
#include "virtual_support.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace lz::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

ProfileEvent on(uint8_t gpu, int32_t stream, const char *name, const char *category, int64_t begin,
                int64_t end) {
    ProfileEvent event;
    event.name = name;
    event.category = category;
    event.device = {ir::DeviceKind::Cuda, gpu};
    event.track = stream;
    event.begin = begin;
    event.end = end;
    return event;
}

/// A copy to cuda:1, from which two kernels start, and a kernel on cuda:0 beside it.
std::vector<ProfileEvent> two_gpus() {
    std::vector<ProfileEvent> events = {
        on(1, ir::kCopyInStream, "x to <cuda:1>", "copy", 1000, 51'000),
        on(0, 0, "dot", "kernel", 11'000, 101'000),
        on(1, 0, "exp", "kernel", 51'000, 71'000),
        on(1, 1, "sum", "kernel", 51'000, 81'000),
    };
    events[0].arrows_out = {7, 8};
    events[2].arrows_in = {7};
    events[3].arrows_in = {8};
    return events;
}

TEST(Profiler, EveryDeviceAndStreamIsARowWithAName) {
    const std::string svg = trace_svg(two_gpus());
    for (const char *row : {"cuda:0 stream 0", "cuda:1 stream 0", "cuda:1 stream 1", "cuda:1 copies in"})
        EXPECT_THAT(svg, HasSubstr(row));
    EXPECT_THAT(svg, HasSubstr("x to &lt;cuda:1&gt;: 50.0 us"));
    const auto trace = nlohmann::json::parse(trace_json(two_gpus()));
    std::vector<std::string> processes, threads;
    for (const auto &event : trace["traceEvents"])
        if (event["ph"] == "M")
            (event["name"] == "process_name" ? processes : threads).push_back(event["args"]["name"]);
    EXPECT_THAT(processes, testing::ElementsAre("cuda:1", "cuda:0"));
    EXPECT_THAT(threads, testing::ElementsAre("copies in", "stream 0", "stream 0", "stream 1"));
}

TEST(Profiler, ArrowsLeaveTheEndOfOneEventAndEnterTheBeginOfOthers) {
    const auto trace = nlohmann::json::parse(trace_json(two_gpus()));
    std::map<std::pair<int, std::string>, double> at;
    for (const auto &event : trace["traceEvents"])
        if (event["ph"] == "s" || event["ph"] == "f")
            at[{event["id"], event["ph"]}] = event["ts"];
    EXPECT_EQ(at.size(), 4u);
    for (const int arrow : {7, 8}) {
        EXPECT_EQ((at[{arrow, "s"}]), 50) << "microseconds from the first event on";
        EXPECT_EQ((at[{arrow, "f"}]), 50);
    }
    const std::string svg = trace_svg(two_gpus());
    size_t lines = 0;
    for (size_t found = svg.find("marker-end"); found != std::string::npos;
         found = svg.find("marker-end", found + 1))
        ++lines;
    EXPECT_EQ(lines, 2u);
}

TEST(Profiler, AnArrowFromNowhereAndAnEmptyProfileAreNotDrawn) {
    std::vector<ProfileEvent> events = {on(0, 0, "dot", "kernel", 5, 5)};
    events[0].arrows_in = {99};
    EXPECT_THAT(trace_svg(events), Not(HasSubstr("marker-end")));
    EXPECT_THAT(trace_svg({}), testing::AllOf(testing::StartsWith("<svg"), testing::EndsWith("</svg>\n")));
    EXPECT_EQ(nlohmann::json::parse(trace_json({}))["traceEvents"].size(), 0u);
}

TEST(Profiler, BesideAVirtualClockTheHostsOwnTimesAreLeftOut) {
    ProfileEvent host;
    host.host = true;
    const auto collected = [&] {
        start_profile();
        record_event(host);
        record_event(on(0, 0, "dot", "kernel", 1, 2));
        return stop_profile().size();
    };
    EXPECT_EQ(collected(), 2u);
    VirtualOptions options;
    options.model = VirtualModel::parse("h200");
    {
        const test::Gpus gpus(1, options);
        EXPECT_EQ(collected(), 1u);
    }
    EXPECT_EQ(collected(), 2u);
}

} // namespace
} // namespace lz::runtime
