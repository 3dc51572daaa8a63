// The virtual clock against closed forms.
#include "runtime/cpu/backend.h"
#include "virtual_support.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <random>

namespace lz::runtime {
namespace {

using namespace test;
using testing::HasSubstr;

/// Round numbers: a byte of memory takes 1 ns, a byte over a link 10, over a peer link 2, pageable 20.
VirtualModel simple_model() {
    VirtualModel model;
    model.memory_bandwidth = 1e9;
    model.flops = 1e9;
    model.link_bandwidth = 1e8;
    model.pageable_bandwidth = 5e7;
    model.peer_bandwidth = 5e8;
    model.host_bandwidth = 1e9;
    model.host_flops = 1e9;
    model.submit_seconds = 100e-9;
    model.launch_seconds = 1000e-9;
    model.copy_seconds = 2000e-9;
    model.wave_seconds = 0;
    return model;
}
/// The same, where no kernel is shorter than 10 us.
VirtualModel model_with_waves() {
    VirtualModel model = simple_model();
    model.wave_seconds = 10'000e-9;
    return model;
}

struct Machine : Gpus {
    explicit Machine(int count, VirtualModel model = simple_model()) : Gpus(count, with(std::move(model))) {}
    static VirtualOptions with(VirtualModel model) {
        VirtualOptions options;
        options.model = std::move(model);
        return options;
    }
    int64_t host() {
        const auto lock = (*this)[0].clock()->lock();
        return (*this)[0].clock()->host();
    }
};

/// A kernel of so many bytes and operations; what the clock says is in `span` when it has run.
void kernel(Backend &backend, StreamId stream, int64_t bytes, int64_t flops, TimeSpan &span) {
    const ir::KernelFrame frame{nullptr, nullptr, nullptr, nullptr};
    const int64_t end = 1;
    ir::PhaseEntry entry = [](const ir::KernelFrame *, int64_t, int64_t, void *) {};
    Backend::Launch l{};
    l.entry = reinterpret_cast<void *>(entry);
    l.frames = &frame;
    l.ends = &end;
    l.segments = 1;
    l.bytes = bytes;
    l.flops = flops;
    backend.launch(l, stream, [&span](const TimeSpan &s) { span = s; });
}

#define EXPECT_SPAN(span, b, e)                                                                              \
    EXPECT_EQ((span).begin, (b));                                                                            \
    EXPECT_EQ((span).end, (e))

TEST(VirtualClock, AKernelTakesTheLongerOfItsBytesAndItsOperations) {
    Machine gpus(1);
    TimeSpan a, b, c;
    kernel(gpus[0], 0, 5000, 10, a);
    kernel(gpus[0], 0, 10, 7000, b);
    finish(gpus[0], 0);
    EXPECT_SPAN(a, 1100, 6100); // 100 to submit, 1000 to start
    EXPECT_SPAN(b, 6100, 13100);
    EXPECT_EQ(gpus.host(), 13100) << "waiting takes the host along";
    kernel(gpus[0], 0, 100, 0, c);
    finish(gpus[0], 0);
    EXPECT_SPAN(c, 13100 + 1100, 13100 + 1200);
}

TEST(VirtualClock, LaunchLatenciesOverlapAndKernelsOfOneDeviceShareIt) {
    Machine gpus(1);
    TimeSpan spans[3];
    for (StreamId s = 0; s < 3; ++s)
        kernel(gpus[0], s, 1000, 0, spans[s]);
    for (StreamId s = 0; s < 3; ++s)
        finish(gpus[0], s);
    EXPECT_SPAN(spans[0], 1100, 2100);
    EXPECT_SPAN(spans[1], 2100, 3100);
    EXPECT_SPAN(spans[2], 3100, 4100);
}

TEST(VirtualClock, SmallKernelsRunSideBySideAsFarAsTheyFillTheDevice) {
    Machine gpus(1, model_with_waves());
    TimeSpan spans[4];
    for (StreamId s = 0; s < 4; ++s) // each a part of 0.4
        kernel(gpus[0], s, 4000, 0, spans[s]);
    for (StreamId s = 0; s < 4; ++s)
        finish(gpus[0], s);
    EXPECT_SPAN(spans[0], 1100, 11'100);
    EXPECT_SPAN(spans[1], 1200, 11'200);
    EXPECT_SPAN(spans[2], 11'100, 21'100); // two at a time
    EXPECT_SPAN(spans[3], 11'200, 21'200);
}

TEST(VirtualClock, AKernelThatFillsTheDeviceRunsAlone) {
    Machine gpus(1, model_with_waves());
    TimeSpan small, large, after;
    kernel(gpus[0], 0, 1000, 0, small);
    kernel(gpus[0], 1, 10, 20'000, large);
    kernel(gpus[0], 2, 1000, 0, after);
    for (StreamId s = 0; s < 3; ++s)
        finish(gpus[0], s);
    EXPECT_SPAN(small, 1100, 11'100);
    EXPECT_SPAN(large, 11'100, 31'100);
    EXPECT_SPAN(after, 31'100, 41'100); // beside the first it would not be over before the large one begins
}

/// Looked at moment by moment.
TEST(VirtualClock, PartsOfADeviceNeverAddUpToMoreThanOne) {
    std::mt19937 random(7);
    for (int round = 0; round < 20; ++round) {
        Machine gpus(1, model_with_waves());
        constexpr size_t kKernels = 60;
        constexpr int64_t kStep = 100;
        TimeSpan spans[kKernels];
        double parts[kKernels];
        for (size_t k = 0; k < kKernels; ++k) {
            const auto bytes = static_cast<int64_t>(random() % 14 * 1000);
            parts[k] = std::min(1.0, static_cast<double>(bytes) / 10'000);
            kernel(gpus[0], static_cast<StreamId>(random() % 4), bytes, 0, spans[k]);
        }
        for (StreamId s = 0; s < 4; ++s)
            finish(gpus[0], s);
        int64_t end = 0;
        for (const TimeSpan &span : spans)
            end = std::max(end, span.end);
        double most = 0;
        for (int64_t at = 0; at < end; at += kStep) {
            double used = 0;
            for (size_t k = 0; k < kKernels; ++k)
                used += spans[k].begin <= at && at < spans[k].end ? parts[k] : 0;
            EXPECT_LE(used, 1 + 1e-4) << "round " << round << " at " << at;
            most = std::max(most, used);
        }
        EXPECT_GT(most, 0.5);
        double work = 0;
        for (size_t k = 0; k < kKernels; ++k)
            work += parts[k] * static_cast<double>(spans[k].end - spans[k].begin);
        EXPECT_GT(work, 0.4 * static_cast<double>(end)) << "the device is not left idle";
    }
}

TEST(VirtualClock, TwoDevicesRunSideBySide) {
    const auto chains = [](size_t devices) {
        Machine gpus(2);
        TimeSpan spans[2][20];
        for (size_t i = 0; i < 20; ++i)
            for (size_t chain = 0; chain < 2; ++chain)
                kernel(gpus[chain % devices], static_cast<StreamId>(chain), 50'000, 0, spans[chain][i]);
        for (size_t d = 0; d < devices; ++d)
            for (StreamId s = 0; s < 2; ++s)
                finish(gpus[d], s);
        return gpus.host();
    };
    // 40 kernels one after the other, or 20 beside 20.
    EXPECT_EQ(chains(1), 1100 + 40 * 50'000);
    EXPECT_EQ(chains(2), 1200 + 20 * 50'000);
    EXPECT_GT(static_cast<double>(chains(1)) / static_cast<double>(chains(2)), 1.9);
}

TEST(VirtualClock, AGapOnAnEngineIsUsedByWhatComesLater) {
    Machine gpus(2);
    TimeSpan slow, waits, early;
    kernel(gpus[1], 0, 100'000, 0, slow); // ends at 101100
    gpus[0].wait(0, gpus[1], 0, gpus[1].record(0));
    kernel(gpus[0], 0, 1000, 0, waits);
    kernel(gpus[0], 1, 1000, 0, early);
    finish(gpus[0], 0);
    finish(gpus[0], 1);
    EXPECT_SPAN(waits, 101'100, 102'100);
    EXPECT_SPAN(early, 1300, 2300);
}

TEST(VirtualClock, CopiesInAndOutHaveEnginesOfTheirOwn) {
    Machine gpus(1);
    void *device = gpus[0].allocate(8192), *pinned = gpus[0].allocate_pinned(8192);
    TimeSpan in, out, work, again;
    gpus[0].copy(device, pinned, 1000, ir::kCopyInStream, [&](const TimeSpan &s) { in = s; });
    gpus[0].copy(static_cast<char *>(pinned) + 4096, static_cast<char *>(device) + 4096, 1000,
                 ir::kCopyOutStream, [&](const TimeSpan &s) { out = s; });
    kernel(gpus[0], 0, 10'000, 0, work);
    gpus[0].copy(static_cast<char *>(device) + 1000, pinned, 500, 1, [&](const TimeSpan &s) { again = s; });
    for (const StreamId s : {ir::kCopyInStream, ir::kCopyOutStream, 0, 1})
        finish(gpus[0], s);
    EXPECT_SPAN(in, 2100, 12'100);
    EXPECT_SPAN(out, 2200, 12'200);
    EXPECT_SPAN(work, 1300, 11'300);
    EXPECT_SPAN(again, 12'100, 17'100); // behind `in`, whose engine it needs
    gpus[0].free(device, 8192);
    gpus[0].free_pinned(pinned, 8192);
}

TEST(VirtualClock, PageableMemoryKeepsTheHost) {
    Machine gpus(1);
    void *device = gpus[0].allocate(1000);
    std::vector<char> host(1000);
    TimeSpan span;
    gpus[0].copy(device, host.data(), 1000, 0, [&](const TimeSpan &s) { span = s; });
    EXPECT_EQ(gpus.host(), 2100 + 20'000);
    finish(gpus[0], 0);
    EXPECT_SPAN(span, 2100, 22'100);
    gpus[0].free(device, 1000);
}

TEST(VirtualClock, PeerCopiesTakeBothEndsOfTheLink) {
    Machine gpus(3);
    for (size_t d = 0; d < 3; ++d)
        for (size_t o = 0; o < 3; ++o)
            if (d != o)
                gpus[d].set_peer_access(gpus[o], true);
    char *memory[3];
    for (size_t d = 0; d < 3; ++d)
        memory[d] = static_cast<char *>(gpus[d].allocate(4096));
    TimeSpan a, b, c;
    gpus[0].copy(memory[2], memory[0], 1000, 6, [&](const TimeSpan &s) { a = s; });
    gpus[1].copy(memory[2] + 1024, memory[1], 1000, 6, [&](const TimeSpan &s) { b = s; });
    gpus[2].copy(memory[0] + 1024, memory[2] + 2048, 1000, 6, [&](const TimeSpan &s) { c = s; });
    for (size_t d = 0; d < 3; ++d)
        finish(gpus[d], 6);
    EXPECT_SPAN(a, 2100, 4100);
    EXPECT_SPAN(b, 4100, 6100); // cuda:2 receives one after the other
    EXPECT_SPAN(c, 2300, 4300); // and sends meanwhile
    for (size_t d = 0; d < 3; ++d)
        gpus[d].free(memory[d], 4096);
}

/// Batches that are copied in and computed; with one buffer each copy waits for the compute of the last
/// batch.
int64_t prefetch_loop(int buffers) {
    Machine gpus(1);
    constexpr int kBatches = 40;
    void *pinned = gpus[0].allocate_pinned(10'000);
    std::vector<void *> device;
    for (int b = 0; b < buffers; ++b)
        device.push_back(gpus[0].allocate(10'000));
    std::vector<TimeSpan> spans(kBatches);
    std::vector<uint64_t> computed(static_cast<size_t>(buffers), 0);
    for (size_t batch = 0; batch < kBatches; ++batch) {
        const size_t b = batch % static_cast<size_t>(buffers);
        gpus[0].wait(ir::kCopyInStream, gpus[0], 0, computed[b]);
        gpus[0].copy(device[b], pinned, 10'000, ir::kCopyInStream); // 100 us
        gpus[0].wait(0, gpus[0], ir::kCopyInStream, gpus[0].record(ir::kCopyInStream));
        kernel(gpus[0], 0, 100'000, 0, spans[batch]); // 100 us
        computed[b] = gpus[0].record(0);
    }
    finish(gpus[0], 0);
    for (void *memory : device)
        gpus[0].free(memory, 10'000);
    gpus[0].free_pinned(pinned, 10'000);
    return gpus.host();
}

TEST(VirtualClock, PrefetchingHidesCopiesBehindWork) {
    const int64_t serial = prefetch_loop(1), overlapped = prefetch_loop(2);
    EXPECT_EQ(serial, 2100 + 40 * 200'000 + 0);
    EXPECT_EQ(overlapped, 2100 + 100'000 + 40 * 100'000);
    EXPECT_GT(static_cast<double>(serial) / static_cast<double>(overlapped), 1.8);
}

TEST(VirtualClock, TimestampsAreVirtualAndReachedInRealTime) {
    Machine gpus(1);
    Door door;
    TimeSpan span;
    const auto begin = gpus[0].record_time(0);
    launch(gpus[0], 0, wait_for_door, {}, {word(&door)});
    kernel(gpus[0], 0, 1'000'000, 0, span);
    const auto end = gpus[0].record_time(0);
    EXPECT_TRUE(begin->reached());
    EXPECT_FALSE(end->reached());
    door.open();
    finish(gpus[0], 0);
    EXPECT_TRUE(end->reached());
    EXPECT_EQ(begin->time(), 0);
    EXPECT_EQ(end->time(), 1'001'200);
}

TEST(VirtualClock, TheSameProgramHasTheSameTimeline) {
    EXPECT_EQ(prefetch_loop(3), prefetch_loop(3));
}

TEST(VirtualClock, TheCpuIsPartOfItWhenItIsGivenTheClock) {
    Machine gpus(1);
    CpuBackend cpu;
    cpu.set_clock(gpus[0].clock());
    TimeSpan gpu, worker, again, here;
    kernel(gpus[0], 0, 10'000, 0, gpu);
    cpu.wait(ir::kHostWorkerStream, gpus[0], 0, gpus[0].record(0));
    kernel(cpu, ir::kHostWorkerStream, 3000, 0, worker);
    gpus[0].wait(0, cpu, ir::kHostWorkerStream, cpu.record(ir::kHostWorkerStream));
    kernel(gpus[0], 0, 500, 0, again);
    kernel(cpu, ir::kHostStream, 400, 0, here);
    EXPECT_EQ(gpus.host(), 200 + 400);
    finish(gpus[0], 0);
    finish(cpu, ir::kHostWorkerStream);
    EXPECT_SPAN(gpu, 1100, 11'100);
    EXPECT_SPAN(worker, 11'100, 14'100);
    EXPECT_SPAN(again, 14'100, 14'600);
    EXPECT_SPAN(here, 200, 600);
}

// --- models

TEST(VirtualModel, PresetsAreKnownByName) {
    const VirtualModel h200 = VirtualModel::parse("h200x4");
    EXPECT_EQ(h200.name, "h200");
    EXPECT_EQ(h200.devices, 4);
    EXPECT_EQ(h200.memory_bandwidth, 4.8e12);
    EXPECT_TRUE(h200.peers);
    EXPECT_EQ(h200.major, 9);
    EXPECT_EQ(VirtualModel::parse("a100").devices, 0);
    EXPECT_FALSE(VirtualModel::parse("pciex2").peers);
    EXPECT_FALSE(VirtualModel::parse("rtx4090").peers);
}

TEST(VirtualModel, FilesChangeWhatTheyName) {
    const std::string path = testing::TempDir() + "lazuli_model.json";
    const auto parse = [&](const char *text) {
        std::ofstream(path) << text;
        return VirtualModel::parse(path);
    };
    const VirtualModel model = parse(
        R"({"base": "h100x2", "name": "half", "link_bandwidth": 1e10, "peers": false, "compute_capability": [9, 1]})");
    EXPECT_EQ(model.name, "half");
    EXPECT_EQ(model.devices, 2);
    EXPECT_EQ(model.link_bandwidth, 1e10);
    EXPECT_EQ(model.memory_bandwidth, 3.35e12);
    EXPECT_FALSE(model.peers);
    EXPECT_EQ(model.minor, 1);
    for (const auto &[text, words] : {std::pair("{\"bandwidth\": 1}", "has no `bandwidth`"),
                                      {"{\"flops\": 0}", "a number, 1000 or more"},
                                      {"{\"flops\": 1e-320}", "a number, 1000 or more"},
                                      {"{\"copy_seconds\": 1e25}", "a number from 0 to 3600"},
                                      {"{\"flops\": \"many\"}", "a number, 1000 or more"},
                                      {"{\"peers\": 1}", "true or false"},
                                      {"{\"devices\": 0}", "1 or more"},
                                      {"{\"compute_capability\": 9}", "a pair"},
                                      {"{\"base\": \"h300\"}", "no virtual model `h300`"},
                                      {"[]", "not a JSON object"},
                                      {"{", "is not JSON"}}) {
        const ir::Failure failure = failure_of([&] { parse(text); });
        EXPECT_EQ(failure.kind(), ir::ErrorKind::State);
        EXPECT_THAT(failure.message(), HasSubstr(words));
    }
    std::remove(path.c_str());
    EXPECT_EQ(failure_of([&] { VirtualModel::parse(path); }).kind(), ir::ErrorKind::Io);
    EXPECT_EQ(failure_of([&] { VirtualModel::parse(testing::TempDir()); }).kind(), ir::ErrorKind::Io)
        << "a directory";
}

TEST(VirtualModel, UnknownNamesAreAnsweredWithTheKnownOnes) {
    for (const char *text : {"h201x4", "", "x4", "h200x", "h200x0", "4"}) {
        const ir::Failure failure = failure_of([&] { VirtualModel::parse(text); });
        EXPECT_EQ(failure.kind(), ir::ErrorKind::State) << text;
    }
    EXPECT_THAT(failure_of([] { VirtualModel::parse("h201"); }).message(),
                testing::AllOf(HasSubstr("`h201`"), HasSubstr("h200"), HasSubstr("JSON")));
}

TEST(VirtualModel, ItsPropertiesAreTheDevices) {
    Machine gpus(1, VirtualModel::parse("h200"));
    const DeviceProperties properties = gpus[0].properties();
    EXPECT_EQ(properties.name, "Lazuli virtual GPU 0 (h200)");
    EXPECT_EQ(properties.major, 9);
    EXPECT_EQ(properties.memory_bandwidth, 4.8e12);
}

} // namespace
} // namespace lz::runtime
