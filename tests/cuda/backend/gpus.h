#pragma once
/// The CUDA backend on the fake driver.

#include "driver/driver.h"

#include "runtime/cuda/backend.h"

#include <string>
#include <vector>

namespace lz::test {

/// The functions of the fake driver, found once.
const runtime::cuda::Driver &driver_table();

/// PTX of a source of kernels, made by NVRTC once a process.
const ir::CompiledKernel &compiled_source(const runtime::KernelSource &source);
/// Loads that.
std::shared_ptr<const runtime::Module> load_source(const runtime::KernelSource &source,
                                                   runtime::Backend &backend);

/// Two GPUs; at the end everything that they had of the driver is given back.
class CudaGpus : public testing::Test {
protected:
    void SetUp() override { make(); }
    void TearDown() override;

    void make();
    /// GPUs as new, after a kernel that did something wrong. What was allocated is gone.
    void make_again() {
        TearDown();
        make();
    }
    runtime::Backend &gpu(size_t i = 0) { return *gpus_[i]; }
    void finish(runtime::StreamId stream = 0, size_t i = 0) {
        gpu(i).synchronize(stream, gpu(i).record(stream));
    }

    /// The memory is given back at the end.
    template <class T>
    T *allocate(size_t count, size_t i = 0) {
        void *memory = gpu(i).allocate(count * sizeof(T));
        memory_.push_back({i, memory});
        return static_cast<T *>(memory);
    }
    /// Before the end.
    void give_back(const void *memory);
    template <class T>
    void write(T *to, const std::vector<T> &values, size_t i = 0) {
        gpu(i).copy(to, values.data(), values.size() * sizeof(T), 0);
        finish(0, i);
    }
    template <class T>
    std::vector<T> read(const T *from, size_t count, size_t i = 0) {
        std::vector<T> values(count);
        gpu(i).copy(values.data(), from, count * sizeof(T), 0);
        finish(0, i);
        return values;
    }

    /// Code of CUDA C++ by NVRTC: one phase, launched as `phase` says.
    std::shared_ptr<runtime::Module> load(const std::string &source, ir::CompiledPhase phase, size_t i = 0);

    std::vector<std::unique_ptr<runtime::Backend>> gpus_;

private:
    std::vector<std::pair<size_t, void *>> memory_;
};

#define LZ_NEEDS_NVRTC()                                                                                     \
    if (!why_no_nvrtc().empty())                                                                             \
    GTEST_SKIP() << why_no_nvrtc()

} // namespace lz::test
