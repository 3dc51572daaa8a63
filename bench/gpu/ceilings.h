#pragma once
/// What a GPU gives, measured through the driver without the engine: the ceilings of bench/gpu.cpp.

#include "codegen/cuda/nvrtc.h"
#include "runtime/cuda/driver/driver.h"

#include <cublasLt.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lz::bench {

class GpuCeilings {
public:
    /// On the first device. Throws ir::Failure, or std::runtime_error with what the driver said.
    GpuCeilings();
    ~GpuCeilings();
    GpuCeilings(const GpuCeilings &) = delete;
    GpuCeilings &operator=(const GpuCeilings &) = delete;

    const std::string &device() const { return device_; }
    int multiprocessors() const { return multiprocessors_; }
    codegen::Nvrtc nvrtc() const { return codegen::load_nvrtc(nvrtc_.handle); }
    double clock_hz() const { return clock_hz_; }

    /// Seconds in which the SMs copy so many bytes (as many are read as written) or read them.
    double copy(int64_t bytes);
    double read(int64_t bytes);
    /// Of the product of two n x n matrices by cuBLASLt, the fastest of its first proposals; 0 where there is
    /// no cuBLASLt. Floats are not rounded to TF32.
    enum class Operands { Bfloats, Floats };
    double product(int64_t n, Operands of);
    /// A graph made by hand, of so many additions of two f32 vectors one after the other: seconds of each of
    /// its launches, and until it is done; 0 where the driver captures no streams.
    struct Graph {
        double host = 0, whole = 0;
    };
    std::vector<Graph> additions(int kernels, int64_t elements, int launches);

private:
    using Put = std::function<void(CUstream)>;
    /// Seconds of the device for one `put`, of several in a row.
    double time(const Put &put);
    void check(CUresult result, const char *what) const;
    CUfunction function(const char *name) const;
    /// Memory of at least so many bytes, all of them 0; kept.
    CUdeviceptr memory(size_t which, size_t bytes);
    double pass(const char *name, int64_t bytes);

    runtime::cuda::Library library_, nvrtc_;
    runtime::cuda::Driver driver_;
    std::string device_;
    int multiprocessors_ = 0;
    double clock_hz_ = 0;
    CUcontext context_ = nullptr;
    CUstream stream_ = nullptr;
    CUlibrary code_ = nullptr;
    CUevent begin_ = nullptr, end_ = nullptr;
    std::vector<std::pair<CUdeviceptr, size_t>> memory_;
};

} // namespace lz::bench
