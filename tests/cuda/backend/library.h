#pragma once
/// Calls of the library's functions on a GPU, beside the same on the host.

#include "backend/gpus.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace lz::test {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T> &values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
}

/// Elements that meet, and the extremes: zeros of both signs, infinities and NaN of floats.
Bytes random_elements(ir::DType dtype, int64_t count, std::mt19937_64 &engine, int64_t spread = 6);

/// NaNs of either sign among them.
void put_nans(ir::DType dtype, Bytes &bytes, std::mt19937_64 &engine);

struct LibraryBuffer {
    Bytes bytes;
    ir::DType dtype;
    bool is_result = false;

    static LibraryBuffer result(ir::DType dtype, int64_t count) {
        return {Bytes(static_cast<size_t>(count * ir::size_of(dtype)), std::byte{0x5A}), dtype, true};
    }
};

/// What is wrong with a result: up to four elements; empty where nothing is. Which NaN it is is not promised.
std::string library_difference(const LibraryBuffer &expected, const Bytes &found);

/// Calls the host's function. Results are put into the buffers.
std::unique_ptr<ir::Fault> call_on_host(const char *symbol, const std::vector<int64_t> &ints,
                                        std::vector<LibraryBuffer> &buffers);

using Folded = std::array<int64_t, 3>;

/// dtype, dtype of the index, axis, reduce, node, strides of the index, rank, extents of x, of the index.
std::vector<int64_t> scatter_ints(ir::DType dtype, ir::DType index, bool reduce, Folded x, int64_t count,
                                  Folded strides);

class CudaLibrary : public CudaGpus {
protected:
    void SetUp() override {
        if (!why_no_nvrtc().empty())
            GTEST_SKIP() << why_no_nvrtc();
        CudaGpus::SetUp();
    }
    void TearDown() override {
        if (why_no_nvrtc().empty())
            CudaGpus::TearDown();
    }

    /// Its results, and the fault behind them. Buffers begin `past` bytes behind where an allocation does.
    /// `function`: put on the first GPU; empty: the backend's.
    std::vector<Bytes> call_on_gpu(const char *symbol, const std::vector<int64_t> &ints,
                                   const std::vector<LibraryBuffer> &buffers, size_t past = 0,
                                   const runtime::LibraryFn &function = {});

    /// Calls a function on the host and on the GPU, and compares their results.
    void compare(const char *symbol, const std::vector<int64_t> &ints, std::vector<LibraryBuffer> buffers,
                 const std::string &what, size_t past = 0);

    static int64_t number(ir::DType dtype) { return static_cast<int64_t>(dtype); }

    std::mt19937_64 engine_{11};
};

} // namespace lz::test
