// The CUDA backend: memory, copies, streams and launches, on the fake driver.

#include "backend/gpus.h"

#include "runtime/api/unaligned_kernel.h"
#include "runtime/cpu/backend.h"
#include "tests/support/failure_of.h"

#include <gmock/gmock.h>

#include <atomic>
#include <numeric>
#include <thread>

namespace lz::test {
namespace {

using runtime::Backend;
using runtime::StreamId;
using testing::HasSubstr;

template <class T>
std::vector<T> ascending(size_t count, T first = 0) {
    std::vector<T> values(count);
    std::iota(values.begin(), values.end(), first);
    return values;
}

class CudaBackendTest : public CudaGpus {};

TEST_F(CudaBackendTest, SaysWhatTheDeviceIs) {
    const ir::DeviceProperties p = gpu(1).properties();
    EXPECT_FALSE(p.name.empty());
    EXPECT_EQ(p.physical_index, 1);
    EXPECT_FALSE(p.is_virtual);
    EXPECT_EQ(p.total_memory, int64_t{512} << 20);
    ASSERT_TRUE(p.cuda);
    EXPECT_EQ(p.cuda->sm, 10 * p.major + p.minor);
    EXPECT_GT(p.cuda->multiprocessors, 0);
    EXPECT_GE(p.cuda->shared_per_block, 48 << 10);
    EXPECT_GT(p.memory_bandwidth, 0);
    EXPECT_EQ(gpu(1).name(), "cuda:1");
    EXPECT_EQ(gpu(0).module_key(), gpu(1).module_key());
}

TEST_F(CudaBackendTest, ALaunchHasFewParametersWithDriversBefore12_1) {
    for (const auto &[version, bytes] : {std::pair{12000, 4096}, {12010, 32764}, {13000, 32764}}) {
        runtime::cuda::Driver driver = driver_table();
        driver.version = version;
        std::string none;
        gpus_ = runtime::cuda::make_cuda_gpus(driver, {.load_source = load_source}, none);
        ASSERT_FALSE(gpus_.empty()) << none;
        EXPECT_EQ(gpu().properties().cuda->parameter_bytes, bytes) << version;
        gpus_.clear(); // before the table of functions
    }
}

/// A process that uses one of many GPUs takes memory of that one.
TEST_F(CudaBackendTest, ContextsAreMadeByWhatNeedsThem) {
    const auto made = [] { return FAKE(lazuli_fake_cuda_calls)("cuDevicePrimaryCtxRetain"); };
    gpus_.clear();
    const uint64_t before = made();
    make();
    for (const size_t i : {0, 1}) {
        EXPECT_GT(gpu(i).properties().multi_processor_count, 0);
        EXPECT_GT(gpu(i).total_memory(), size_t{0});
        EXPECT_TRUE(gpu(i).can_access_peer(gpu(1 - i)));
        EXPECT_FALSE(gpu(i).module_key().empty());
        EXPECT_TRUE(gpu(i).library().find("sort"));
    }
    EXPECT_EQ(made(), before);
    auto *const memory = allocate<int32_t>(2, 1);
    write(memory, {1, 2}, 1);
    EXPECT_EQ(read(memory, 2, 1), (std::vector<int32_t>{1, 2}));
    const auto span = gpu(1).record_time(0);
    finish(0, 1);
    EXPECT_GT(span->time(), 0);
    EXPECT_EQ(made(), before + 1);
    EXPECT_GT(gpu(0).free_memory(), size_t{0}) << "which needs one";
    EXPECT_EQ(made(), before + 2);
}

/// What could not be made is made by the next one who needs it.
TEST_F(CudaBackendTest, AContextThatCannotBeMadeIsTriedAgain) {
    gpus_.clear();
    make();
    FAKE(lazuli_fake_cuda_fail)("cuDevicePrimaryCtxRetain", 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(failure_of([&] { gpu().allocate(16); }).kind(), ir::ErrorKind::OutOfMemory);
    FAKE(lazuli_fake_cuda_fail)("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(failure_of([&] { gpu().allocate(16); }).kind(), ir::ErrorKind::OutOfMemory);
    auto *const memory = allocate<int32_t>(2);
    write(memory, {1, 2});
    EXPECT_EQ(read(memory, 2), (std::vector<int32_t>{1, 2}));
}

TEST_F(CudaBackendTest, MemoryHasALimitAndSaysSo) {
    const size_t before = gpu().free_memory();
    void *const memory = gpu().allocate(300 << 20);
    EXPECT_LE(gpu().free_memory(), before - (300 << 20));
    const ir::Failure failure = failure_of([&] { gpu().allocate(300 << 20); });
    EXPECT_EQ(failure.kind(), ir::ErrorKind::OutOfMemory);
    EXPECT_THAT(failure.message(), HasSubstr("cuda:0 has no block of 314572800 bytes"));
    gpu().free(memory, 300 << 20);
    EXPECT_EQ(gpu().free_memory(), before);
}

/// Pinned or not, in one piece or many, to the byte.
TEST_F(CudaBackendTest, CopiesGoInEveryDirection) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{4} << 20, (size_t{11} << 20) + 3}) {
        std::vector<uint8_t> in(count), out(count, 0);
        for (size_t i = 0; i < count; ++i)
            in[i] = static_cast<uint8_t>(i * 7 + i / 251);
        auto *const a = static_cast<uint8_t *>(gpu(0).allocate(count));
        auto *const b = static_cast<uint8_t *>(gpu(0).allocate(count));
        auto *const c = static_cast<uint8_t *>(gpu(1).allocate(count));
        auto *const pinned = static_cast<uint8_t *>(gpu(0).allocate_pinned(count));
        gpu(0).copy(a, in.data(), count, 0);
        gpu(0).copy(b, a, count, 0);
        gpu(0).copy(c, b, count, 0); // to the other device
        finish(0, 0);
        gpu(1).copy(pinned, c, count, 0);
        gpu(1).copy(c, pinned, count, 0);
        gpu(1).copy(out.data(), c, count, 0);
        finish(0, 1);
        EXPECT_EQ(in, out) << count;
        gpu(0).free_pinned(pinned, count);
        gpu(1).free(c, count);
        gpu(0).free(b, count);
        gpu(0).free(a, count);
    }
}

TEST_F(CudaBackendTest, ManyCopiesInFlightUseThePiecesInTurns) {
    constexpr size_t kCount = 3 << 20, kCopies = 6;
    auto *const memory = allocate<uint32_t>(kCount);
    std::vector<std::vector<uint32_t>> in, out(kCopies, std::vector<uint32_t>(kCount));
    for (uint32_t k = 0; k < kCopies; ++k)
        in.push_back(ascending<uint32_t>(kCount, k * 1000003));
    for (size_t k = 0; k < kCopies; ++k) {
        gpu().copy(memory, in[k].data(), kCount * 4, 0);
        gpu().copy(out[k].data(), memory, kCount * 4, 0);
    }
    finish();
    for (size_t k = 0; k < kCopies; ++k)
        EXPECT_EQ(in[k], out[k]) << k;
}

/// The caller goes on while a copy of pageable memory waits for its turn.
TEST_F(CudaBackendTest, CopiesOfPageableMemoryDoNotHoldTheCaller) {
    auto *const memory = allocate<uint32_t>(4);
    std::vector<uint32_t> values = {1, 2, 3, 4}, out(4);
    std::atomic<bool> open{false};
    gpu().call_host(0, [&] { open.wait(false); });
    gpu().copy(memory, values.data(), 16, 0);
    gpu().copy(out.data(), memory, 16, 0);
    const uint64_t end = gpu().record(0);
    EXPECT_FALSE(gpu().reached(0, end));
    values[0] = 9; // read when the copy comes to it
    open = true;
    open.notify_all();
    gpu().synchronize(0, end);
    EXPECT_EQ(out, (std::vector<uint32_t>{9, 2, 3, 4}));
}

/// What a stream does after the moment that others wait for may itself wait for them.
TEST_F(CudaBackendTest, AStreamWaitsForTheMomentThatItIsToldAndForNoLaterOne) {
    const StreamId s = gpu().create_stream(0), t = gpu().create_stream(0);
    auto *const memory = allocate<uint32_t>(4);
    std::atomic<bool> first{false}, second{false};
    gpu().call_host(s, [&] { first.wait(false); });
    const uint64_t asked = gpu().record(s);
    gpu().call_host(s, [&] { second.wait(false); });
    for (int k = 0; k < 200; ++k) {
        gpu().copy(memory, memory, 4, s);
        gpu().record(s);
    }
    gpu().wait(t, gpu(), s, asked);
    gpu().call_host(t, [&] {
        second = true;
        second.notify_all();
    });
    std::thread host([&] { gpu().synchronize(s, asked); });
    first = true;
    first.notify_all();
    host.join();
    finish(t);
    finish(s);
    gpu().destroy_stream(s);
    gpu().destroy_stream(t);
}

/// Streams of two devices and of the CPU hand a number round; whoever goes too early breaks the sum.
TEST_F(CudaBackendTest, StreamsWaitForEachOtherAcrossDevicesAndForTheCpu) {
    runtime::CpuBackend cpu({}, 0, {.delay_seed = 3});
    const StreamId user = gpu(0).create_stream(-1);
    auto *const a = allocate<int64_t>(1, 0), *const b = allocate<int64_t>(1, 1);
    auto *const host = static_cast<int64_t *>(gpu(0).allocate_pinned(8));
    *host = 1;
    int64_t expected = 1;
    for (int64_t k = 0; k < 50; ++k) {
        gpu(0).wait(user, cpu, ir::kHostWorkerStream, cpu.record(ir::kHostWorkerStream));
        gpu(0).copy(a, host, 8, user);
        gpu(1).wait(0, gpu(0), user, gpu(0).record(user));
        gpu(1).copy(b, a, 8, 0);
        gpu(0).wait(3, gpu(1), 0, gpu(1).record(0));
        gpu(0).copy(host, b, 8, 3);
        cpu.wait(ir::kHostWorkerStream, gpu(0), 3, gpu(0).record(3));
        cpu.call_host(ir::kHostWorkerStream, [host, k] { *host = (*host * 3 + k) % 1000003; });
        expected = (expected * 3 + k) % 1000003;
    }
    cpu.synchronize(ir::kHostWorkerStream, cpu.record(ir::kHostWorkerStream));
    EXPECT_EQ(*host, expected);
    gpu(0).free_pinned(host, 8);
    gpu(0).destroy_stream(user);
}

TEST_F(CudaBackendTest, CallbacksRunInTheStreamsOrderOnItsThread) {
    std::vector<int> order;
    std::thread::id first, second;
    auto *const memory = allocate<uint32_t>(2);
    std::vector<uint32_t> out(2);
    write(memory, {1, 2});
    gpu().call_host(0, [&] {
        order.push_back(1);
        first = std::this_thread::get_id();
    });
    gpu().copy(out.data(), memory, 8, 0);
    gpu().call_host(0, [&] {
        order.push_back(out[1] == 2 ? 2 : -1);
        second = std::this_thread::get_id();
    });
    finish();
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
    EXPECT_EQ(first, second);
    EXPECT_NE(first, std::this_thread::get_id());
}

TEST_F(CudaBackendTest, TimesAreThoseOfTheProfilersClock) {
    auto *const memory = allocate<uint32_t>(1);
    const auto begin = gpu().record_time(0);
    gpu().call_host(0, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    runtime::TimeSpan span;
    gpu().copy(memory, memory, 4, 0, [&](const runtime::TimeSpan &s) { span = s; });
    const auto end = gpu().record_time(0);
    finish();
    ASSERT_TRUE(begin->reached() && end->reached());
    EXPECT_GE(end->time() - begin->time(), 19'000'000);
    EXPECT_GE(span.begin, begin->time());
    EXPECT_GE(span.end, span.begin);
    EXPECT_LE(span.end, end->time());
}

// --- launches

ir::LaunchParameter parameter(ir::LaunchParameter::Kind kind, uint16_t index, uint8_t bytes = 8,
                              uint32_t at = 0) {
    return {kind, bytes, index, at};
}

const char *const kScale = R"(
struct Fault { int code; unsigned source; long long value, limit; };
extern "C" __global__ void phase0(const float *x, float *y, int n, float by, Fault *fault, long long items) {
    for (long long item = blockIdx.x; item < items; item += gridDim.x) {
        const int i = int(item) * 64 + threadIdx.x;
        if (i < n)
            y[i] = x[i] * by;
        if (i == n && atomicCAS(&fault->code, 0, 1) == 0) {
            fault->value = i;
            fault->limit = n;
        }
    }
}
)";
const char *const kScaleAndAdd = R"(
struct Fault { int code; unsigned source; long long value, limit; };
extern "C" __global__ void phase0(const float *x, float *y, int n, float by, Fault *fault, long long items) {
    for (long long item = blockIdx.x; item < items; item += gridDim.x) {
        const int i = int(item) * 64 + threadIdx.x;
        if (i < n)
            y[i] = x[i] * by + 0.5f;
    }
}
)";

class CudaLaunch : public CudaGpus {
protected:
    void SetUp() override {
        LZ_NEEDS_NVRTC();
        make();
    }
    static ir::CompiledPhase phase() {
        using P = ir::LaunchParameter;
        ir::CompiledPhase p{"phase0"};
        p.parameters = {parameter(P::Buffer, 0),    parameter(P::Buffer, 1), parameter(P::Arg, 0, 4),
                        parameter(P::Scalar, 0, 4), parameter(P::Fault, 0),  parameter(P::Items, 0)};
        p.threads = 64;
        return p;
    }
    void launch(const runtime::Module &module, const float *x, float *y, int64_t n, float by,
                ir::Fault *fault, StreamId stream = 0, size_t i = 0,
                const runtime::UnalignedKernel *unaligned = nullptr) {
        void *const buffers[] = {const_cast<float *>(x), y};
        const int64_t args[] = {n}, ends[] = {(n + 64) / 64};
        const uint64_t scalars[] = {std::bit_cast<uint32_t>(by)};
        const ir::KernelFrame frame{buffers, args, scalars, fault};
        Backend::Launch l{};
        l.entry = module.entry("phase0");
        l.frames = &frame;
        l.ends = ends;
        l.segments = 1;
        l.buffers = 2;
        l.args = l.scalars = 1;
        l.unaligned = unaligned;
        gpu(i).launch(l, stream);
    }
};

TEST_F(CudaLaunch, ParametersAreTheFramesOwnAndFaultsAreSeenByTheHost) {
    const auto module = load(kScale, phase());
    auto *const x = allocate<float>(1000), *const y = allocate<float>(1000);
    write(x, ascending<float>(1000));
    ir::Fault *const faults = gpu().allocate_faults(2);
    launch(*module, x, y, 1000, 3, faults + 1);
    const std::vector<float> out = read(y, 1000);
    for (size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(out[i], 3 * static_cast<float>(i));
    EXPECT_EQ(faults[0].code.load(), 0);
    EXPECT_EQ(faults[1].code.load(), 1);
    EXPECT_EQ(faults[1].value, 1000);
    EXPECT_EQ(faults[1].limit, 1000);
    gpu().free_faults(faults, 2);
}

TEST_F(CudaLaunch, AModuleRunsOnEveryDeviceAndGridsMayBeCutOff) {
    ir::CompiledPhase few = phase();
    few.most_blocks = 3;
    const auto module = load(kScale, few);
    for (size_t i = 0; i < 2; ++i) {
        auto *const x = allocate<float>(1000, i), *const y = allocate<float>(1000, i);
        write(x, ascending<float>(1000), i);
        ir::Fault *const fault = gpu(i).allocate_faults(1);
        launch(*module, x, y, 1000, 2, fault, 0, i);
        const std::vector<float> out = read(y, 1000, i);
        EXPECT_EQ(out[999], 1998);
        EXPECT_EQ(out[63], 126);
        gpu(i).free_faults(fault, 1);
    }
}

/// It is made when the first launch needs it; a failure is that launch's, and the next one asks again.
TEST_F(CudaLaunch, CodeForUnalignedAddressesIsMadeByTheFirstLaunchThatNeedsIt) {
    ir::CompiledPhase aligned = phase();
    aligned.alignments = {{ir::LaunchAlignment::Buffer, 1, 0}, {ir::LaunchAlignment::Buffer, 1, 1}};
    const auto module = load(kScaleAndAdd, aligned);
    auto *const x = allocate<float>(104), *const y = allocate<float>(104);
    write(x, ascending<float>(104));
    write(y, std::vector<float>(104, -1));
    ir::Fault *const fault = gpu().allocate_faults(1);
    int made = 0, refused = 0;
    const runtime::UnalignedKernel unaligned([&]() -> runtime::LoadedKernel {
        if (refused++ < 2)
            throw ir::Failure(refused == 1 ? ir::ErrorKind::Compile : ir::ErrorKind::OutOfMemory, "No.");
        ++made;
        return {load(kScale, phase()), {phase()}};
    });
    const auto run = [&](const float *from) { launch(*module, from, y, 100, 1, fault, 0, 0, &unaligned); };
    run(x);
    EXPECT_EQ(read(y, 104)[1], 1.5f);
    EXPECT_EQ(refused, 0) << "nobody needs it";
    const ir::Failure failure = failure_of([&] { run(x + 1); });
    EXPECT_EQ(failure.kind(), ir::ErrorKind::Compile);
    EXPECT_EQ(failure.message(),
              "the kernel for addresses that are no multiples of 16 bytes could not be made: No.");
    EXPECT_EQ(failure_of([&] { run(x + 1); }).kind(), ir::ErrorKind::OutOfMemory);
    EXPECT_EQ(read(y, 104)[1], 1.5f) << "nothing was launched";
    for (const size_t by : {size_t{1}, size_t{2}, size_t{0}}) {
        run(x + by);
        EXPECT_EQ(read(y, 104)[1], by == 0 ? 1.5f : static_cast<float>(1 + by));
    }
    EXPECT_EQ(made, 1);
    gpu().free_faults(fault, 1);
}

/// On both devices at once, and on two streams of each.
TEST_F(CudaLaunch, ThreadsThatNeedCodeForUnalignedAddressesWaitForOneOfThem) {
    ir::CompiledPhase aligned = phase();
    aligned.alignments = {{ir::LaunchAlignment::Buffer, 1, 0}};
    const auto module = load(kScaleAndAdd, aligned);
    std::atomic<int> made = 0;
    const runtime::UnalignedKernel unaligned([&]() -> runtime::LoadedKernel {
        ++made;
        return {load(kScale, phase()), {phase()}};
    });
    std::vector<float *> x, y;
    std::vector<ir::Fault *> faults;
    for (size_t t = 0; t < 4; ++t) {
        x.push_back(allocate<float>(104, t / 2));
        y.push_back(allocate<float>(104, t / 2));
        write(x[t], ascending<float>(104), t / 2);
        faults.push_back(gpu(t / 2).allocate_faults(1));
    }
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            const auto stream = static_cast<StreamId>(t % 2);
            launch(*module, x[t] + 1, y[t], 100, 1, faults[t], stream, t / 2, &unaligned);
            finish(stream, t / 2);
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(made, 1);
    for (size_t t = 0; t < 4; ++t) {
        EXPECT_EQ(read(y[t], 104, t / 2)[1], 2.0f);
        gpu(t / 2).free_faults(faults[t], 1);
    }
}

/// Several segments in a table, by value and in memory, more of them than it takes at once.
TEST_F(CudaLaunch, SegmentsComeInTables) {
    for (const uint32_t table_bytes : {4000u, 0u, 96u}) {
        const std::string source =
            std::string(R"(
struct Segment { float *y; long long n; long long end; };
)") +
            (table_bytes
                 ? "struct Table { Segment s[" + std::to_string(table_bytes / 24) + R"(]; char rest[)" +
                       std::to_string(table_bytes % 24 + 8 - (table_bytes % 24 + 8) % 8) + R"(]; };
)"
                 : "") +
            (table_bytes ? "extern \"C\" __global__ void phase0(const __grid_constant__ "
                           "Table table, unsigned segments) {\n const Segment *s = table.s;"
                         : "extern \"C\" __global__ void phase0(const Segment *s, "
                           "unsigned segments) {\n") +
            R"(
    for (long long item = blockIdx.x; item < s[segments - 1].end; item += gridDim.x) {
        unsigned k = 0;
        while (s[k].end <= item)
            ++k;
        const long long i = (item - (k ? s[k - 1].end : 0)) * 32 + threadIdx.x;
        if (i < s[k].n)
            s[k].y[i] += float(i);
    }
})";
        using P = ir::LaunchParameter;
        ir::CompiledPhase p{"phase0"};
        p.parameters = {parameter(P::Buffer, 0, 8, 0), parameter(P::Arg, 0, 8, 8),
                        parameter(P::Items, 0, 8, 16)};
        p.record_bytes = 24;
        // The struct is a multiple of 8 bytes.
        p.table_bytes =
            table_bytes ? table_bytes / 24 * 24 + (table_bytes % 24 + 8 - (table_bytes % 24 + 8) % 8) : 0;
        p.threads = 32;
        const auto module = load(source, p);
        constexpr size_t kSegments = 37;
        std::vector<float *> y;
        std::vector<std::vector<void *>> buffers;
        std::vector<std::vector<int64_t>> args;
        std::vector<ir::KernelFrame> frames;
        std::vector<int64_t> ends;
        int64_t items = 0;
        for (size_t s = 0; s < kSegments; ++s) {
            const auto n = static_cast<int64_t>(s * 13 % 100); // some have no element
            y.push_back(allocate<float>(100));
            write(y[s], std::vector<float>(100, static_cast<float>(s) * 1000));
            buffers.push_back({y[s]});
            args.push_back({n});
            ends.push_back(items += (n + 31) / 32);
        }
        for (size_t s = 0; s < kSegments; ++s)
            frames.push_back({buffers[s].data(), args[s].data(), nullptr, nullptr});
        Backend::Launch l{};
        l.entry = module->entry("phase0");
        l.frames = frames.data();
        l.ends = ends.data();
        l.segments = kSegments;
        l.buffers = l.args = 1;
        gpu().launch(l, 0);
        gpu().launch(l, 0); // a table in memory is not written before it was read
        for (size_t s = 0; s < kSegments; ++s) {
            const std::vector<float> out = read(y[s], 100);
            for (size_t i = 0; i < 100; ++i)
                ASSERT_EQ(out[i], static_cast<float>(s * 1000 + (i < s * 13 % 100 ? 2 * i : 0)))
                    << table_bytes << " segment " << s << " element " << i;
        }
    }
}

TEST_F(CudaLaunch, CodeThatIsDamagedIsACompileError) {
    ir::CompiledKernel kernel;
    kernel.name = "softmax";
    kernel.phases.push_back(phase());
    kernel.format = ir::CodeFormat::Ptx;
    const std::string text = "this is no PTX";
    for (const char c : text)
        kernel.object.push_back(static_cast<std::byte>(c));
    const ir::Failure failure = failure_of([&] { gpu().load(kernel); });
    EXPECT_EQ(failure.kind(), ir::ErrorKind::Compile);
    EXPECT_THAT(failure.message(), HasSubstr("cuda:0 cannot load the code of kernel softmax"));
    kernel.format = ir::CodeFormat::Object;
    EXPECT_THAT(failure_of([&] { gpu().load(kernel); }).message(), HasSubstr("is not a GPU's"));
    EXPECT_THAT(failure_of([&] {
                    ir::CompiledPhase other = phase();
                    other.symbol = "phase7";
                    load(kScale, other);
                }).message(),
                HasSubstr("has no entry phase7"));
}

/// A kernel that writes where nothing is: the device is lost, says why, and the other goes on.
TEST_F(CudaLaunch, AnAddressThatIsNobodysLosesTheDevice) {
    const auto module = load(kScale, phase());
    ir::Fault *const fault = gpu().allocate_faults(1);
    launch(*module, nullptr, nullptr, 100, 1, fault);
    const uint64_t end = gpu().record(0);
    const ir::Failure failure = failure_of([&] { gpu().synchronize(0, end); });
    EXPECT_EQ(failure.kind(), ir::ErrorKind::Cuda);
    EXPECT_THAT(failure.message(), HasSubstr("cuda:0 is lost: "));
    EXPECT_THAT(failure.message(), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
    EXPECT_THAT(failure_of([&] { gpu().allocate(64); }).message(), HasSubstr("cuda:0 is lost"));
    EXPECT_NO_THROW(gpu().record(0));
    void *const other = gpu(1).allocate(64);
    gpu(1).free(other, 64);
    gpu().free_faults(fault, 1);
}

} // namespace
} // namespace lz::test
