// DLPack on memory of a CUDA device, on the driver without a GPU (faults_test.cpp sets it up): another
// library is played by calls of the driver, on streams of its own.
#include "tests/support/cuda/nvrtc.h"

#include <lazuli/io/dlpack.h>
#include <lazuli/lazuli.h>

#include <cuda.h>
#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

namespace {

using namespace lz;
using testing::HasSubstr;
using Numbers = std::vector<float>;

void *driver_function(const char *name) {
    static void *const library = ::dlopen(LAZULI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    return ::dlsym(library, name);
}
// The headers' names are macros of the symbols' names.
#define LZ_TEXT_OF(name) #name
#define LZ_SYMBOL(name) LZ_TEXT_OF(name)
#define DRIVER(name) reinterpret_cast<decltype(&::name)>(driver_function(LZ_SYMBOL(name)))

void succeed(CUresult result, const char *what) {
    ASSERT_EQ(result, CUDA_SUCCESS) << what;
}
#define SUCCEED_IN(name, ...) succeed(DRIVER(name)(__VA_ARGS__), #name)

/// Holds streams until it is told to let them go on.
class Gate {
public:
    Gate() {
        void *memory = nullptr;
        SUCCEED_IN(cuMemHostAlloc, &memory, sizeof(uint64_t), CU_MEMHOSTALLOC_DEVICEMAP);
        word_ = static_cast<uint64_t *>(memory);
        *word_ = 0;
    }
    ~Gate() { open(); } // the word goes with the process: a stream may be about to read it
    Gate(const Gate &) = delete;
    Gate &operator=(const Gate &) = delete;
    void hold(CUstream stream) {
        SUCCEED_IN(cuStreamWaitValue64, stream, reinterpret_cast<CUdeviceptr>(word_), 1,
                   CU_STREAM_WAIT_VALUE_GEQ);
    }
    void open() { std::atomic_ref(*word_).store(1); }
    bool is_open() const { return std::atomic_ref(*word_).load() == 1; }

private:
    uint64_t *word_ = nullptr;
};

/// Another library with memory and a stream on cuda:0.
class Foreign {
public:
    Foreign() {
        (void)lz::ones({1}, {.device = "cuda:0"}).eval(); // makes the context
        CUcontext context = nullptr;
        SUCCEED_IN(cuDevicePrimaryCtxRetain, &context, 0);
        SUCCEED_IN(cuCtxSetCurrent, context);
        SUCCEED_IN(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
    }
    ~Foreign() {
        DRIVER(cuStreamSynchronize)(stream_);
        for (const CUdeviceptr memory : memory_)
            DRIVER(cuMemFree)(memory);
        DRIVER(cuStreamDestroy)(stream_);
        DRIVER(cuDevicePrimaryCtxRelease)(0);
    }
    Foreign(const Foreign &) = delete;
    Foreign &operator=(const Foreign &) = delete;

    CUstream stream() const { return stream_; }
    DlpackStream dlpack_stream() const { return DlpackStream::of(stream_); }
    CUdeviceptr allocate(size_t floats) {
        memory_.push_back(0);
        SUCCEED_IN(cuMemAlloc, &memory_.back(), floats * sizeof(float));
        return memory_.back();
    }
    void hold(Gate &gate) { gate.hold(stream_); }
    /// The numbers stay where they are until the copy is done.
    void write(CUdeviceptr to, const Numbers &numbers) {
        SUCCEED_IN(cuMemcpyHtoDAsync, to, numbers.data(), numbers.size() * sizeof(float), stream_);
    }
    /// A copy of so many numbers, in pinned memory: into any other the host would wait for it.
    std::span<const float> read(size_t count, const void *from) {
        void *to = nullptr;
        SUCCEED_IN(cuMemHostAlloc, &to, count * sizeof(float), 0);
        std::fill_n(static_cast<float *>(to), count, -1.0f);
        SUCCEED_IN(cuMemcpyDtoHAsync, to, reinterpret_cast<CUdeviceptr>(from), count * sizeof(float),
                   stream_);
        return {static_cast<const float *>(to), count};
    }
    bool idle() const { return DRIVER(cuStreamQuery)(stream_) == CUDA_SUCCESS; }
    void synchronize() { SUCCEED_IN(cuStreamSynchronize, stream_); }

private:
    CUstream stream_ = nullptr;
    std::vector<CUdeviceptr> memory_;
};

/// Its tensor. Counts calls of the deleter.
struct ForeignTensor {
    std::vector<int64_t> shape, strides;
    DLManagedTensor managed{};
    int deleted = 0;

    ForeignTensor(CUdeviceptr data, std::vector<int64_t> sizes, std::vector<int64_t> steps = {})
        : shape(std::move(sizes)), strides(std::move(steps)) {
        managed.dl_tensor.data = reinterpret_cast<void *>(data);
        managed.dl_tensor.device = {kDLCUDA, 0};
        managed.dl_tensor.ndim = static_cast<int>(shape.size());
        managed.dl_tensor.dtype = {kDLFloat, 32, 1};
        managed.dl_tensor.shape = shape.data();
        managed.dl_tensor.strides = strides.empty() ? nullptr : strides.data();
        managed.manager_ctx = this;
        managed.deleter = [](DLManagedTensor *self) {
            ++static_cast<ForeignTensor *>(self->manager_ctx)->deleted;
        };
    }
    ForeignTensor(const ForeignTensor &) = delete;
    ForeignTensor &operator=(const ForeignTensor &) = delete;
};

Numbers counted(size_t n, float first = 0) {
    Numbers out(n);
    std::iota(out.begin(), out.end(), first);
    return out;
}

class DlpackOnCuda : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string &why = test::why_no_nvrtc(); !why.empty())
            GTEST_SKIP() << why;
    }
};

TEST_F(DlpackOnCuda, WhatAnotherLibraryIsStillWritingIsTakenWithoutACopyAndWithoutWaiting) {
    Foreign foreign;
    const CUdeviceptr memory = foreign.allocate(12);
    const Numbers numbers = counted(12);
    ForeignTensor theirs(memory, {3, 4});
    {
        Gate gate;
        foreign.hold(gate);
        foreign.write(memory, numbers);
        const Tensor x = from_dlpack(&theirs.managed, foreign.dlpack_stream());
        EXPECT_EQ(x.device(), Device::cuda(0));
        EXPECT_EQ(x.sizes(), (Sizes{3, 4}));
        const Tensor y = x * 2 + 1;
        y.eval();
        EXPECT_FALSE(foreign.idle()) << "and neither taking it nor launching work on it waited";
        gate.open();
        EXPECT_EQ(y.flatten().to_vector<float>()[11], 23);
        EXPECT_EQ(y.flatten().to_vector<float>()[0], 1);
        DLManagedTensor *const back = to_dlpack(x);
        EXPECT_EQ(back->dl_tensor.data, reinterpret_cast<void *>(memory));
        back->deleter(back);
        EXPECT_EQ(theirs.deleted, 0);
    }
    lz::cuda::synchronize();
    EXPECT_EQ(theirs.deleted, 1);
}

TEST_F(DlpackOnCuda, TheDeleterIsCalledWhenWorkThatReadsTheMemoryIsOver) {
    Foreign foreign;
    const CUdeviceptr memory = foreign.allocate(4);
    const Numbers numbers = counted(4, 1);
    foreign.write(memory, numbers);
    ForeignTensor theirs(memory, {4});
    Tensor y;
    {
        const lz::Stream stream(Device::cuda(0));
        const lz::StreamGuard guard(stream);
        y = from_dlpack(&theirs.managed, foreign.dlpack_stream()).cumsum(0);
        y.eval();
    }
    lz::cuda::synchronize();
    EXPECT_EQ(theirs.deleted, 1);
    const Numbers others(4, -1);
    foreign.write(memory, others);
    foreign.synchronize();
    EXPECT_EQ(y.to_vector<float>(), (Numbers{1, 3, 6, 10}));
}

TEST_F(DlpackOnCuda, AConsumersStreamWaitsForWhatItIsGivenAndTheHostDoesNot) {
    Foreign foreign;
    Gate gate;
    const lz::Stream stream(Device::cuda(0));
    stream.add_callback([&] {
        while (!gate.is_open())
            std::this_thread::yield();
    });
    Tensor y;
    {
        const lz::StreamGuard guard(stream);
        y = arange(6, {.device = "cuda:0"}).to(f32) * 3;
    }
    DLManagedTensor *const given = to_dlpack(y, foreign.dlpack_stream());
    EXPECT_EQ(given->dl_tensor.device.device_type, kDLCUDA);
    const std::span<const float> seen = foreign.read(6, given->dl_tensor.data);
    EXPECT_FALSE(foreign.idle());
    EXPECT_THAT(seen, testing::Each(-1));
    gate.open();
    foreign.synchronize();
    EXPECT_THAT(seen, testing::ElementsAre(0, 3, 6, 9, 12, 15));
    given->deleter(given);
}

TEST_F(DlpackOnCuda, MemoryThatWasGivenAwayIsUsedAgainAfterWhatTheConsumerHasPutOnItsStream) {
    Foreign foreign;
    for (const bool other_size : {false, true}) {
        Gate gate;
        foreign.hold(gate);
        const Numbers right = counted(1000);
        const void *memory = nullptr;
        std::span<const float> seen;
        {
            Tensor y = tensor(right, {.device = "cuda:0"}) + 0.0f;
            y.eval();
            DLManagedTensor *const given = to_dlpack(y, foreign.dlpack_stream());
            memory = given->dl_tensor.data;
            seen = foreign.read(1000, memory); // later
            y = Tensor();
            given->deleter(given);
        }
        std::vector<Tensor> others; // that would like to have it
        for (int i = 0; i < 4; ++i)
            others.push_back((tensor(Numbers(other_size ? 900 : 1000, -7), {.device = "cuda:0"}) + 1).eval());
        lz::sync();
        EXPECT_FALSE(foreign.idle());
        gate.open();
        foreign.synchronize();
        EXPECT_THAT(seen, testing::ElementsAreArray(right));
    }
}

TEST_F(DlpackOnCuda, AxesInAnotherOrderAreNotCopiedAndOtherStridesAreGathered) {
    Foreign foreign;
    const CUdeviceptr memory = foreign.allocate(24);
    const Numbers numbers = counted(24);
    foreign.write(memory, numbers);
    const auto at = [&](size_t offset) { return memory + offset * sizeof(float); };
    const struct {
        CUdeviceptr data;
        std::vector<int64_t> shape, strides;
        bool copied;
    } cases[] = {
        {at(0), {2, 3, 4}, {12, 4, 1}, false}, {at(0), {4, 3, 2}, {1, 4, 12}, false},
        {at(4), {3, 1, 4}, {4, 77, 1}, false}, {at(0), {3, 2}, {8, 2}, true},
        {at(0), {3, 4}, {0, 1}, true},         {at(23), {4, 6}, {-6, -1}, true},
        {at(18), {4, 6}, {-6, 1}, true},       {at(3), {}, {}, false},
    };
    for (const auto &c : cases) {
        ForeignTensor theirs(c.data, c.shape, c.strides);
        {
            const Tensor x = from_dlpack(&theirs.managed, foreign.dlpack_stream());
            EXPECT_EQ(x.sizes(), Sizes(std::span<const int64_t>(c.shape)));
            Numbers right;
            std::vector<int64_t> place(c.shape.size(), 0);
            for (;;) {
                int64_t offset = static_cast<int64_t>((c.data - memory) / sizeof(float));
                for (size_t i = 0; i < place.size(); ++i)
                    offset += place[i] * c.strides[i];
                right.push_back(numbers[static_cast<size_t>(offset)]);
                size_t axis = place.size();
                while (axis > 0 && ++place[axis - 1] == c.shape[axis - 1])
                    place[--axis] = 0;
                if (axis == 0)
                    break;
            }
            EXPECT_EQ(x.flatten().to_vector<float>(), right) << testing::PrintToString(c.strides);
        }
        lz::cuda::synchronize();
        EXPECT_EQ(theirs.deleted, 1);
    }
}

TEST_F(DlpackOnCuda, TheLegacyStreamIsWaitedForUnlessAnotherIsNamed) {
    Foreign foreign;
    const CUdeviceptr memory = foreign.allocate(3);
    const Numbers numbers = counted(3, 5);
    Gate gate;
    gate.hold(CU_STREAM_LEGACY);
    SUCCEED_IN(cuMemcpyHtoDAsync, memory, numbers.data(), 3 * sizeof(float), CU_STREAM_LEGACY);
    ForeignTensor theirs(memory, {3});
    const Tensor taken = from_dlpack(&theirs.managed);
    const Tensor y = taken + 1;
    y.eval();
    gate.open();
    EXPECT_EQ(y.to_vector<float>(), (Numbers{6, 7, 8}));
    ForeignTensor ready(memory, {3});
    EXPECT_EQ(from_dlpack(&ready.managed, DlpackStream(-1)).to_vector<float>(), numbers);
    DLManagedTensor *const given = to_dlpack(y); // complete: any stream may read it
    const std::span<const float> seen = foreign.read(3, given->dl_tensor.data);
    foreign.synchronize();
    given->deleter(given);
    EXPECT_THAT(seen, testing::ElementsAre(6, 7, 8));
}

TEST_F(DlpackOnCuda, WhatCannotBeTakenStaysTheCallers) {
    Foreign foreign;
    const CUdeviceptr memory = foreign.allocate(8);
    const auto refused = [&]<class E>(std::type_identity<E>, const char *words, auto &&change,
                                      DlpackStream stream = DlpackStream::legacy()) {
        ForeignTensor theirs(memory, {2, 4});
        change(theirs.managed.dl_tensor);
        try {
            (void)from_dlpack(&theirs.managed, stream);
            ADD_FAILURE() << words;
        } catch (const E &error) {
            EXPECT_THAT(error.what(), HasSubstr(words));
        }
        EXPECT_EQ(theirs.deleted, 0);
    };
    const std::type_identity<DeviceError> device;
    const std::type_identity<StateError> state;
    refused(device, "cuda:99", [](DLTensor &t) { t.device.device_id = 99; });
    refused(device, "type 4", [](DLTensor &t) { t.device.device_type = kDLOpenCL; });
    refused(state, "no multiple of their 4 bytes", [](DLTensor &t) { t.byte_offset = 2; });
    refused(state, "0 is the number of no stream", [](DLTensor &) {}, DlpackStream(0));
    refused(state, "null pointer", [](DLTensor &t) { t.data = nullptr; });
    const Tensor x = ones({2}, {.device = "cuda:0"});
    EXPECT_THROW((void)to_dlpack(x, DlpackStream(0)), StateError);
    ForeignTensor none(0, {0, 3});
    EXPECT_EQ(from_dlpack(&none.managed).sizes(), (Sizes{0, 3}));
    EXPECT_EQ(none.deleted, 1);
}

TEST_F(DlpackOnCuda, GradientsFlowToWhatIsComputedFromTakenMemory) {
    Foreign foreign;
    const CUdeviceptr memory = foreign.allocate(3);
    const Numbers numbers = counted(3, 1);
    foreign.write(memory, numbers);
    ForeignTensor theirs(memory, {3});
    const Tensor weight = ones({3}, {.device = "cuda:0"}).requires_grad_();
    (weight * from_dlpack(&theirs.managed, foreign.dlpack_stream())).sum().backward();
    EXPECT_EQ(weight.grad().to_vector<float>(), numbers);
}

} // namespace
