// Virtual GPUs: whose memory is whose, and what is refused.
#include "runtime/fault_injection.h"
#include "virtual_support.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <numeric>
#include <set>

namespace lz::runtime {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;

void nothing(const ir::KernelFrame *, int64_t, int64_t, void *) {}

class IsolationDeathTest : public testing::Test {
protected:
    void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(IsolationDeathTest, TheHostCannotReadMemoryOfADevice) {
    Gpus gpus(1);
    auto *memory = static_cast<volatile char *>(gpus[0].allocate(4096));
    EXPECT_DEATH({ (void)memory[0]; }, "");
    EXPECT_DEATH({ memory[100] = 1; }, "");
}

TEST_F(IsolationDeathTest, AKernelCannotReachMemoryThatItWasNotGiven) {
    Gpus gpus(2);
    void *foreign = gpus[1].allocate(4096);
    EXPECT_DEATH(
        {
            launch(
                gpus[0], 0,
                [](const ir::KernelFrame *f, int64_t, int64_t, void *) { at_word<volatile char>(f, 0) = 1; },
                {}, {word(static_cast<char *>(foreign))});
            finish(gpus[0], 0);
        },
        "");
}

TEST_F(IsolationDeathTest, AKernelThatRunsOverTheEndOfABlockFaults) {
    Gpus gpus(1);
    void *block = gpus[0].allocate(2 * kMiB), *next = gpus[0].allocate(2 * kMiB);
    ASSERT_NE(block, next);
    EXPECT_DEATH(
        {
            launch(gpus[0], 0,
                   [](const ir::KernelFrame *f, int64_t, int64_t, void *) {
                       static_cast<volatile char *>(f->buffers[0])[2 * kMiB] = 1;
                   },
                   {block});
            finish(gpus[0], 0);
        },
        "");
}

TEST(VirtualGpu, MemoryOfAnotherIsRefusedUnlessThereIsPeerAccess) {
    Gpus gpus(2);
    void *own = gpus[0].allocate(8), *foreign = gpus[1].allocate(8);
    write<int64_t>(gpus[1], foreign, 4);
    for (const ir::Failure &failure : {failure_of([&] { launch(gpus[0], 0, append_digit, {foreign}, {2}); }),
                                       failure_of([&] { gpus[0].copy(own, foreign, 8, 0); }),
                                       failure_of([&] { gpus[0].copy(foreign, own, 8, 0); })}) {
        EXPECT_EQ(failure.kind(), ir::ErrorKind::Cuda);
        EXPECT_THAT(failure.message(),
                    AllOf(HasSubstr("belongs to cuda:1"), HasSubstr("cuda:0 has no peer access to it"),
                          HasSubstr(fmt::format("{}", foreign))));
    }
    EXPECT_EQ(gpus[0].record(0), 0u) << "nothing was put";
    ASSERT_TRUE(gpus[0].can_access_peer(gpus[1]));
    gpus[0].set_peer_access(gpus[1], true);
    launch(gpus[0], 0, append_digit, {foreign}, {2});
    gpus[0].copy(own, foreign, 8, 0);
    EXPECT_EQ(read<int64_t>(gpus[0], own), 42);
    EXPECT_EQ(failure_of([&] { gpus[1].copy(foreign, own, 8, 0); }).kind(), ir::ErrorKind::Cuda)
        << "access is of one to the other";
    gpus[0].set_peer_access(gpus[1], false);
    EXPECT_EQ(failure_of([&] { launch(gpus[0], 0, append_digit, {foreign}, {2}); }).kind(),
              ir::ErrorKind::Cuda);
    gpus[0].free(own, 8);
    gpus[1].free(foreign, 8);
}

TEST(VirtualGpu, WithoutLinksThereIsNoPeerAccess) {
    VirtualOptions options;
    options.peers = false;
    Gpus gpus(2, options);
    EXPECT_FALSE(gpus[0].can_access_peer(gpus[1]));
    EXPECT_FALSE(gpus[0].can_access_peer(gpus[0]));
    EXPECT_EQ(failure_of([&] { gpus[0].set_peer_access(gpus[1], true); }).kind(), ir::ErrorKind::Device);
}

TEST(VirtualGpu, KernelsAndLibraryCallsRefuseMemoryOfTheHost) {
    Gpus gpus(1);
    int64_t pageable = 0;
    void *pinned = gpus[0].allocate_pinned(8);
    EXPECT_THAT(failure_of([&] { launch(gpus[0], 0, append_digit, {&pageable}, {2}); }).message(),
                HasSubstr("is pageable memory of the host, which cuda:0 cannot use"));
    EXPECT_THAT(failure_of([&] { launch(gpus[0], 0, append_digit, {pinned}, {2}); }).message(),
                HasSubstr("is pinned memory of the host"));
    void *buffers[] = {&pageable};
    Backend::Call call{};
    call.function = [](const LibraryArgs &) {};
    call.args.buffers = buffers;
    EXPECT_THAT(failure_of([&] { gpus[0].call(call, 0); }).message(), HasSubstr("library call on cuda:0"));
    launch(gpus[0], 0, nothing, {nullptr}); // an empty buffer
    gpus[0].free_pinned(pinned, 8);
}

TEST(VirtualGpu, AddressesOutsideEveryBlockAreRefused) {
    Gpus gpus(1);
    auto *block = static_cast<char *>(gpus[0].allocate(4096));
    launch(gpus[0], 0, nothing, {block + 100});
    launch(gpus[0], 0, nothing, {block + 4096}); // where an empty array at the end lies
    EXPECT_THAT(failure_of([&] { launch(gpus[0], 0, nothing, {block + 4097}); }).message(),
                HasSubstr("in no memory of it that is allocated"));
    char host[4096];
    EXPECT_THAT(failure_of([&] { gpus[0].copy(host, block + 1, 4096, 0); }).message(),
                HasSubstr("of the 4096 bytes at address"));
    finish(gpus[0], 0);
    gpus[0].free(block, 4096);
    EXPECT_EQ(failure_of([&] { launch(gpus[0], 0, nothing, {block}); }).kind(), ir::ErrorKind::Cuda);
}

TEST(VirtualGpu, MemoryFreedInTheMiddleOfWorkStaysUntilThatIsDone) {
    Gpus gpus(1);
    Door door;
    auto *block = static_cast<char *>(gpus[0].allocate(16 * kMiB));
    launch(gpus[0], 1, wait_for_door, {}, {word(&door)});
    launch(
        gpus[0], 1,
        [](const ir::KernelFrame *f, int64_t, int64_t, void *) { std::memset(f->buffers[0], 1, 16 * kMiB); },
        {block});
    gpus[0].free(block, 16 * kMiB);
    EXPECT_EQ(gpus[0].free_memory(), gpus[0].total_memory()) << "S54: counted at once, and nobody waited";
    door.open();
    finish(gpus[0], 1);
    gpus[0].free(gpus[0].allocate(8), 8);
}

TEST(VirtualGpu, MemoryHasALimit) {
    Gpus gpus(2);
    EXPECT_EQ(gpus[0].total_memory(), 256 * kMiB);
    void *most = gpus[0].allocate(250 * kMiB);
    const ir::Failure failure = failure_of([&] { gpus[0].allocate(10 * kMiB); });
    EXPECT_EQ(failure.kind(), ir::ErrorKind::OutOfMemory);
    EXPECT_THAT(failure.message(), HasSubstr("cuda:0"));
    void *other = gpus[1].allocate(250 * kMiB);
    gpus[0].free(most, 250 * kMiB);
    gpus[0].free(gpus[0].allocate(256 * kMiB), 256 * kMiB);
    gpus[1].free(other, 250 * kMiB);
    for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 2})
        EXPECT_EQ(failure_of([&] { gpus[0].allocate(bytes); }).kind(), ir::ErrorKind::OutOfMemory);
}

TEST(VirtualGpu, AddressesAreUsedAgainAndNeverTouch) {
    Gpus gpus(1);
    std::vector<std::pair<uintptr_t, size_t>> blocks;
    for (int round = 0; round < 2000; ++round) {
        const size_t bytes = 512 * (1 + static_cast<size_t>(round * 7919 % 9000));
        const auto at = reinterpret_cast<uintptr_t>(gpus[0].allocate(bytes));
        EXPECT_EQ(at % 512, 0u);
        for (const auto &[begin, size] : blocks)
            ASSERT_TRUE(at + bytes < begin || begin + size < at);
        blocks.emplace_back(at, bytes);
        while (blocks.size() > 20) {
            const auto [begin, size] = blocks[static_cast<size_t>(round) % 20];
            gpus[0].free(reinterpret_cast<void *>(begin), size);
            blocks.erase(blocks.begin() + round % 20);
        }
    }
    for (const auto &[begin, size] : blocks)
        gpus[0].free(reinterpret_cast<void *>(begin), size);
    EXPECT_EQ(gpus[0].free_memory(), gpus[0].total_memory());
}

TEST(Semantics, S31_pinned_memory_is_the_hosts_and_known_as_pinned) {
    Gpus gpus(2);
    auto *pinned = static_cast<char *>(gpus[0].allocate_pinned(3 * kMiB));
    std::memset(pinned, 1, 3 * kMiB);
    EXPECT_TRUE(gpus[0].is_pinned(pinned));
    EXPECT_TRUE(gpus[1].is_pinned(pinned + 3 * kMiB - 1));
    EXPECT_FALSE(gpus[0].is_pinned(&gpus));
    gpus[0].free_pinned(pinned, 3 * kMiB);
    EXPECT_FALSE(gpus[0].is_pinned(pinned));
}

TEST(VirtualGpu, CopiesGoInEveryDirection) {
    Gpus gpus(2);
    gpus[0].set_peer_access(gpus[1], true);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, (size_t{5} << 20) + 3}) {
        std::vector<uint8_t> from(count), to(count);
        std::iota(from.begin(), from.end(), uint8_t{1});
        void *a = gpus[0].allocate(count), *b = gpus[0].allocate(count), *c = gpus[1].allocate(count),
             *pinned = gpus[0].allocate_pinned(count);
        gpus[0].copy(pinned, from.data(), count, 0);
        gpus[0].copy(a, pinned, count, 0);
        gpus[0].copy(b, a, count, 0);
        gpus[0].copy(c, b, count, 0);
        finish(gpus[0], 0);
        gpus[1].copy(to.data(), c, count, ir::kCopyOutStream);
        finish(gpus[1], ir::kCopyOutStream);
        EXPECT_EQ(from, to);
        gpus[0].free(a, count);
        gpus[0].free(b, count);
        gpus[1].free(c, count);
        gpus[0].free_pinned(pinned, count);
    }
}

TEST(VirtualGpu, WhatALaunchPointsToIsCopiedBeforeTheCallReturns) {
    Gpus gpus(1);
    Door door;
    void *values[2] = {gpus[0].allocate(64), gpus[0].allocate(64)};
    launch(gpus[0], 0, wait_for_door, {}, {word(&door)});
    {
        std::vector<std::vector<void *>> buffers = {{values[0]}, {values[1]}};
        std::vector<std::vector<int64_t>> args = {{10}, {20}};
        std::vector<std::vector<uint64_t>> scalars = {{1}, {2}};
        std::vector<ir::KernelFrame> frames;
        for (size_t s = 0; s < 2; ++s)
            frames.push_back({buffers[s].data(), args[s].data(), scalars[s].data(), nullptr});
        std::vector<int64_t> ends = {3, 5};
        Backend::Launch l{};
        ir::PhaseEntry entry = [](const ir::KernelFrame *f, int64_t begin, int64_t end, void *) {
            for (int64_t i = begin; i < end; ++i)
                static_cast<int64_t *>(f->buffers[0])[i] =
                    f->args[0] + static_cast<int64_t>(f->scalars[0]) + 100 * i;
        };
        l.entry = reinterpret_cast<void *>(entry);
        l.frames = frames.data();
        l.ends = ends.data();
        l.segments = 2;
        l.buffers = l.args = l.scalars = 1;
        gpus[0].launch(l, 0);
        for (auto &b : buffers)
            b[0] = nullptr;
        for (auto &a : args)
            a[0] = -1;
        for (auto &s : scalars)
            s[0] = 77;
        ends.assign(2, -1);
    }
    door.open();
    using Three = std::array<int64_t, 3>;
    using Two = std::array<int64_t, 2>;
    EXPECT_EQ(read<Three>(gpus[0], values[0]), (Three{11, 111, 211}));
    EXPECT_EQ(read<Two>(gpus[0], values[1]), (Two{22, 122}));
    for (void *value : values)
        gpus[0].free(value, 64);
}

/// A device writes its faults where it can: what is not its own memory for them is no more use than on a GPU.
TEST(VirtualGpu, FaultsAreWhereTheDeviceCanWriteThem) {
    Gpus gpus(2);
    ir::Fault *const faults = gpus[0].allocate_faults(3);
    for (int f = 0; f < 3; ++f)
        EXPECT_EQ(faults[f].code.load(), 0);
    void *const scratch = gpus[0].allocate(64);
    Backend::Call call{};
    call.function = [](const LibraryArgs &args) {
        args.fault->value = static_cast<int64_t>(args.scratch.size());
        args.scratch[63] = std::byte{1}; // bytes of the device, not its addresses
        args.fault->code.store(static_cast<int32_t>(ir::FaultCode::IndexOutOfRange));
    };
    call.args.fault = faults + 2;
    call.args.scratch = {static_cast<std::byte *>(scratch), 64};
    gpus[0].call(call, 0);
    gpus[0].synchronize(0, gpus[0].record(0));
    EXPECT_EQ(faults[2].code.load(), static_cast<int32_t>(ir::FaultCode::IndexOutOfRange));
    EXPECT_EQ(faults[2].value, 64);
    EXPECT_EQ(faults[1].code.load(), 0);

    ir::Fault of_the_host;
    call.args.fault = &of_the_host;
    EXPECT_THAT(failure_of([&] { gpus[0].call(call, 0); }).message(),
                HasSubstr("where cuda:0 cannot write them (allocate_faults)"));
    ir::KernelFrame frame{nullptr, nullptr, nullptr, &of_the_host};
    const int64_t items = 1;
    Backend::Launch launch{};
    launch.frames = &frame;
    launch.ends = &items;
    launch.segments = 1;
    EXPECT_THAT(failure_of([&] { gpus[0].launch(launch, 0); }).message(),
                HasSubstr("launch on cuda:0: its faults are at the address"));
    gpus[0].free(scratch, 64);
    gpus[0].free_faults(faults, 3);
}

/// Ten thousand programs with a check each were 640 MiB of pinned memory, and then none was left.
TEST(VirtualGpu, FaultsOfManyProgramsShareMemory) {
    Gpus gpus(1);
    std::vector<std::pair<ir::Fault *, size_t>> blocks;
    std::set<char *> units;
    for (size_t k = 0; k < 10000; ++k) {
        const size_t count = 1 + k % 5;
        blocks.emplace_back(gpus[0].allocate_faults(count), count);
        for (size_t f = 0; f < count; ++f) {
            EXPECT_EQ(blocks.back().first[f].code.exchange(static_cast<int32_t>(k)), 0);
            EXPECT_TRUE(gpus[0].is_pinned(blocks.back().first + f));
        }
        units.insert(reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(blocks.back().first) >> 16));
    }
    EXPECT_LT(units.size(), 50u);
    for (size_t k = 0; k < blocks.size(); ++k)
        for (size_t f = 0; f < blocks[k].second; ++f)
            ASSERT_EQ(blocks[k].first[f].code.load(), static_cast<int32_t>(k));
    ir::Fault *const large = gpus[0].allocate_faults(100000);
    large[99999].value = 1;
    gpus[0].free_faults(large, 100000);
    for (const auto &[faults, count] : blocks)
        gpus[0].free_faults(faults, count);
    ir::Fault *const again = gpus[0].allocate_faults(4);
    EXPECT_EQ(again[3].code.load(), 0) << "what is used again is clear";
    EXPECT_TRUE(units.contains(reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(again) >> 16)));
    gpus[0].free_faults(again, 4);
}

TEST(VirtualGpu, LibraryCallsAreTheCpus) {
    Gpus gpus(1);
    const std::array<float, 4> in = {1, 2, 3, 4};
    void *from = gpus[0].allocate(16), *to = gpus[0].allocate(16);
    write(gpus[0], from, in);
    Backend::Call call{};
    call.function = gpus[0].find_library("cumsum");
    ASSERT_NE(call.function, nullptr);
    ir::Fault *const fault = gpus[0].allocate_faults(1);
    {
        void *buffers[] = {from, to};
        const int64_t ints[] = {static_cast<int64_t>(ir::DType::F32), 1, 4, 1};
        call.args = {buffers, ints, fault};
        gpus[0].call(call, 0);
    }
    EXPECT_EQ((read<std::array<float, 4>>(gpus[0], to)), (std::array<float, 4>{1, 3, 6, 10}));
    gpus[0].free_faults(fault, 1);
    gpus[0].free(from, 16);
    gpus[0].free(to, 16);
}

TEST(Semantics, S09_hidden_devices_are_not_there_and_the_others_are_renumbered) {
    VirtualOptions options;
    options.visible = {2, 0};
    Gpus gpus(3, options);
    ASSERT_EQ(gpus.all.size(), 2u);
    EXPECT_EQ(gpus[0].name(), "cuda:0");
    EXPECT_EQ(gpus[0].properties().name, "Lazuli virtual GPU 2");
    EXPECT_EQ(gpus[0].properties().physical_index, 2);
    EXPECT_EQ(gpus[1].properties().physical_index, 0);
    EXPECT_TRUE(gpus[0].properties().is_virtual);
    EXPECT_EQ(gpus[0].properties().total_memory, static_cast<int64_t>(256 * kMiB));
    options.visible = {3};
    EXPECT_EQ(failure_of([&] { Gpus(3, options); }).kind(), ir::ErrorKind::Device);
    options.visible = {1, 1};
    EXPECT_EQ(failure_of([&] { Gpus(3, options); }).kind(), ir::ErrorKind::Device);
    options.visible = std::vector<int>{};
    EXPECT_TRUE(Gpus(3, options).all.empty());
}

TEST(VirtualGpu, EveryCallMayFailAndNothingIsLost) {
    Gpus gpus(2);
    FaultInjectingBackend gpu(gpus[0]), other(gpus[1]);
    const size_t free_before = gpus[0].free_memory();
    int failed = 0;
    for (int64_t n = 1;; ++n) {
        gpu.fail_at(n);
        void *memory = nullptr, *pinned = nullptr;
        StreamId stream = 0;
        try {
            memory = gpu.allocate(64);
            pinned = gpu.allocate_pinned(64);
            stream = gpu.create_stream(0);
            gpu.set_peer_access(other, true);
            gpu.copy(memory, pinned, 64, stream);
            gpu.wait(stream, other, 0, other.record(0));
            launch(gpu, stream, nothing, {memory});
            Backend::Call call{};
            call.function = [](const LibraryArgs &) {};
            gpu.call(call, stream);
            gpu.call_host(stream, [] {});
            EXPECT_NE(gpu.record_time(stream), nullptr);
            const uint64_t tick = gpu.record(stream);
            gpu.synchronize(stream, tick);
            EXPECT_TRUE(gpu.reached(stream, tick));
        } catch (const ir::Failure &failure) {
            ++failed;
            EXPECT_THAT(failure.message(), HasSubstr("was made to fail"));
            EXPECT_TRUE(failure.kind() == ir::ErrorKind::OutOfMemory ||
                        failure.kind() == ir::ErrorKind::Device);
        }
        const int64_t calls = gpu.calls();
        gpu.fail_at(0);
        if (stream)
            finish(gpu, stream);
        gpu.destroy_stream(stream);
        gpu.free(memory, 64);
        gpu.free_pinned(pinned, 64);
        if (calls < n)
            break;
    }
    EXPECT_EQ(failed, 10);
    EXPECT_EQ(gpus[0].free_memory(), free_before);
}

TEST(VirtualGpu, ADeviceCanBeLostAtEveryCall) {
    Gpus gpus(2);
    FaultInjectingBackend gpu(gpus[0]);
    gpu.lose_at(2);
    void *memory = gpu.allocate(64);
    for (int again = 0; again < 2; ++again)
        for (const ir::Failure &failure :
             {failure_of([&] { gpu.copy(memory, memory, 64, 0); }), failure_of([&] { gpu.reached(0, 0); }),
              failure_of([&] { gpu.synchronize(0, 0); }), failure_of([&] { gpu.load({}); }),
              failure_of([&] { gpu.allocate(1); })}) {
            EXPECT_EQ(failure.kind(), ir::ErrorKind::Cuda);
            EXPECT_THAT(failure.message(), HasSubstr("cuda:0 is lost"));
        }
    gpu.free(memory, 64);
    EXPECT_EQ(gpus[0].free_memory(), gpus[0].total_memory());
}

} // namespace
} // namespace lz::runtime
