// Each barrier of the library's kernels is needed, and the interpreter of PTX sees that it is missing.

#include "backend/library.h"
#include "barriers.h"

#include "ir/diagnostic.h"
#include "runtime/cuda/library/kernels.h"

#include <cstring>
#include <numeric>

namespace lz::test {
namespace {

using ir::DType;

/// A call whose blocks have several parts of the work each, where a launch has two of them.
struct Called {
    const char *symbol;
    std::vector<int64_t> ints;
    std::vector<LibraryBuffer> buffers;
};

class LibraryBarriers : public CudaLibrary {
protected:
    static constexpr int64_t kMostBlocks = 2;

    LibraryBuffer random(DType dtype, int64_t count, int64_t spread) {
        return {random_elements(dtype, count, engine_, spread), dtype};
    }
    Called scan(int64_t outer, int64_t extent) {
        const int64_t count = outer * extent;
        return {"cumsum",
                {number(DType::F32), outer, extent, 1},
                {random(DType::F32, count, 6), LibraryBuffer::result(DType::F32, count)}};
    }
    Called sort(DType dtype, int64_t rows, int64_t extent) {
        return {"sort",
                {number(dtype), rows, extent, 1, false},
                {random(dtype, rows * extent, 100), LibraryBuffer::result(dtype, rows * extent),
                 LibraryBuffer::result(DType::I64, rows * extent)}};
    }
    Called first(int64_t rows, int64_t extent, int64_t kept) {
        return {"topk",
                {number(DType::F32), rows, extent, 1, true, kept},
                {random(DType::F32, rows * extent, 100), LibraryBuffer::result(DType::F32, rows * kept),
                 LibraryBuffer::result(DType::I64, rows * kept)}};
    }
    Called scatter_sum(int64_t extent, int64_t count) {
        std::vector<int64_t> places(static_cast<size_t>(count));
        for (int64_t &place : places)
            place = static_cast<int64_t>(engine_() % static_cast<uint64_t>(extent));
        return {"scatter",
                scatter_ints(DType::F32, DType::I64, true, {1, extent, 1}, count, {0, 1, 0}),
                {random(DType::F32, extent, 6),
                 {bytes_of(places), DType::I64},
                 random(DType::F32, count, 6),
                 LibraryBuffer::result(DType::F32, extent)}};
    }

    /// What a run shows to be wrong, and empty when nothing is. `change`: of the PTX.
    std::string what_is_wrong(const Called &c, const std::vector<LibraryBuffer> &expected,
                              const std::function<void(std::string &)> &change) {
        std::string found;
        try {
            const runtime::cuda::CudaDevice device(driver_table(), 0, 0);
            const auto load = [&](const runtime::KernelSource &source, runtime::Backend &backend) {
                ir::CompiledKernel kernel = compiled_source(source);
                std::string text(reinterpret_cast<const char *>(kernel.object.data()), kernel.object.size());
                text = text.c_str();
                change(text);
                kernel.object.resize(text.size() + 1);
                std::memcpy(kernel.object.data(), text.c_str(), text.size() + 1);
                return std::shared_ptr<const runtime::Module>(backend.load(kernel));
            };
            const runtime::cuda::LibraryKernels kernels(device, gpu(), load, kMostBlocks);
            const auto results = call_on_gpu(c.symbol, c.ints, c.buffers, 0,
                                             runtime::cuda::find_cuda_function(c.symbol)->bind(kernels));
            for (size_t b = 0; b < expected.size() && found.empty(); ++b)
                found = library_difference(expected[b], results[b]);
        } catch (const ir::Failure &failure) {
            found = failure.message();
        }
        if (!found.empty())
            make_again();
        return found;
    }
};

TEST_F(LibraryBarriers, EachThatIsDeletedIsMissed) {
    for (const Called &c : {scan(40, 2500), sort(DType::F32, 9, 700), sort(DType::I16, 2, 5000),
                            sort(DType::F64, 2, 5000), first(40, 2100, 100), scatter_sum(300, 5000)}) {
        SCOPED_TRACE(std::string(c.symbol) + " of " + std::to_string(c.ints[1]) + ", " +
                     std::to_string(c.ints[2]));
        std::vector<LibraryBuffer> expected = c.buffers;
        call_on_host(c.symbol, c.ints, expected);
        std::string text;
        EXPECT_EQ(what_is_wrong(c, expected, [&](std::string &ptx) { text = ptx; }), "")
            << "nothing is deleted";
        const std::vector<std::string> all = without_each_barrier(text);
        EXPECT_GE(all.size(), 2U);
        for (size_t b = 0; b < all.size(); ++b)
            EXPECT_NE(what_is_wrong(c, expected, [&](std::string &ptx) { ptx = all[b]; }), "")
                << "nobody misses barrier " << b << " of " << all.size() << "\n"
                << all[b];
    }
}

} // namespace
} // namespace lz::test
