// Products by cuBLASLt (the fake one), against plain loops.

#include "backend/gpus.h"

#include "ir/types/dtype.h"
#include "runtime/cuda/library/matmul.h"

#include <cmath>
#include <cstring>
#include <numbers>
#include <random>

namespace lz::test {
namespace {

using ir::DType;

class CudaMatmul : public CudaGpus {
protected:
    void SetUp() override {
        driver_library();
        runtime::cuda::Search search;
        search.driver = LAZULI_FAKE_CUDA;
        search.cublaslt = LAZULI_FAKE_CUBLASLT;
        const runtime::cuda::Library driver = runtime::cuda::open_driver(search);
        runtime::cuda::Library nvrtc; // of the same version: no product needs more of it
        nvrtc.version = driver.version;
        runtime::cuda::prepare_cublaslt(search, driver, nvrtc);
        make();
    }
    void TearDown() override {
        ::unsetenv("LAZULI_FAKE_CUBLASLT_ALGORITHMS");
        CudaGpus::TearDown();
    }
    /// Small whole numbers: every order of the sum gives the same.
    void expect_products();
};

double value_at(DType dtype, const std::byte *at) {
    const auto as = [&]<class T>(T value) {
        std::memcpy(&value, at, sizeof(value));
        return value;
    };
    switch (dtype) {
    case DType::F64:
        return as(double{});
    case DType::F32:
        return static_cast<double>(as(float{}));
    case DType::F16:
        return static_cast<double>(ir::half_to_float(as(uint16_t{})));
    default:
        return static_cast<double>(ir::bfloat_to_float(as(uint16_t{})));
    }
}
void round_to(DType dtype, std::byte *at, double value) {
    const auto as = [&](auto v) { std::memcpy(at, &v, sizeof(v)); };
    switch (dtype) {
    case DType::F64:
        return as(value);
    case DType::F32:
        return as(static_cast<float>(value));
    case DType::F16:
        return as(ir::float_to_half(static_cast<float>(value)));
    default:
        return as(ir::float_to_bfloat(static_cast<float>(value)));
    }
}

struct Case {
    DType dtype;
    int64_t m, n, k;
    bool lhs_by_columns, rhs_by_columns;
    int64_t pad, offset;
    std::vector<int64_t> batches;
    bool shared_rhs; ///< every batch has the same
    int64_t epilogue;
};

void CudaMatmul::expect_products() {
    std::mt19937 random(1);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random()) % n; };
    for (int round = 0; round < 120; ++round) {
        Case c;
        c.dtype = std::array{DType::F32, DType::F64, DType::F16, DType::BF16}[random() % 4];
        c.m = 1 + below(round % 3 ? 12 : 2);
        c.n = 1 + below(round % 4 ? 12 : 2);
        c.k = round % 17 == 0 ? 600 : 1 + below(round % 5 ? 20 : 2);
        c.lhs_by_columns = random() % 2;
        c.rhs_by_columns = random() % 2;
        c.pad = below(3);
        c.offset = below(4);
        for (int64_t b = below(4); b-- > 0;)
            c.batches.push_back(1 + below(3));
        c.shared_rhs = random() % 3 == 0;
        constexpr int64_t kRelu = runtime::cuda::kProductRelu, kBias = runtime::cuda::kProductBias,
                          kGelu = runtime::cuda::kProductGelu;
        c.epilogue =
            c.dtype == DType::F64 ? 0 : std::array{int64_t{0},    kRelu, kBias,
                                                   kBias | kRelu, kGelu, kBias | kGelu}[random() % 6];
        const int64_t lhs_ld = (c.lhs_by_columns ? c.m : c.k) + c.pad,
                      rhs_ld = (c.rhs_by_columns ? c.k : c.n) + c.pad;
        const int64_t lhs_size = lhs_ld * (c.lhs_by_columns ? c.k : c.m),
                      rhs_size = rhs_ld * (c.rhs_by_columns ? c.n : c.k);
        int64_t count = 1;
        std::vector<int64_t> ints = {static_cast<int64_t>(c.dtype),
                                     c.m,
                                     c.n,
                                     c.k,
                                     c.lhs_by_columns ? 1 : lhs_ld,
                                     c.lhs_by_columns ? lhs_ld : 1,
                                     c.rhs_by_columns ? 1 : rhs_ld,
                                     c.rhs_by_columns ? rhs_ld : 1,
                                     c.offset,
                                     c.offset,
                                     static_cast<int64_t>(c.batches.size())};
        std::vector<int64_t> strides(c.batches.size());
        for (size_t a = c.batches.size(); a-- > 0;) {
            strides[a] = count;
            count *= c.batches[a];
        }
        for (size_t a = 0; a < c.batches.size(); ++a)
            for (const int64_t word :
                 {c.batches[a], strides[a] * lhs_size, c.shared_rhs ? 0 : strides[a] * rhs_size})
                ints.push_back(word);
        ints.push_back(c.epilogue);
        ints.push_back(static_cast<int64_t>(random() % 3)); // small whole numbers are exact in bf16, too
        const auto size = static_cast<size_t>(ir::size_of(c.dtype));
        const auto bytes_of = [&](int64_t elements) { return static_cast<size_t>(elements) * size; };
        std::vector<std::byte> lhs(bytes_of(c.offset + count * lhs_size)),
            rhs(bytes_of(c.offset + count * rhs_size)), out(bytes_of(count * c.m * c.n)), bias(bytes_of(c.n));
        for (std::vector<std::byte> *operand : {&lhs, &rhs, &bias})
            for (size_t i = 0; i < operand->size(); i += size)
                round_to(c.dtype, operand->data() + i,
                         static_cast<double>(static_cast<int>(random() % 5) - 2));
        auto *const x = allocate<std::byte>(lhs.size()), *const y = allocate<std::byte>(rhs.size()),
                    *const z = allocate<std::byte>(out.size()), *const w = allocate<std::byte>(bias.size());
        write(x, lhs);
        write(y, rhs);
        write(w, bias);
        ir::DeviceInfo info;
        info.limits = *gpu().properties().cuda;
        const auto scratch_bytes =
            static_cast<size_t>(gpu().library().find("dot")->scratch_bytes(ints, info));
        auto *const scratch = allocate<std::byte>(scratch_bytes + 64);
        void *const buffers[] = {x, y, z, w};
        runtime::Backend::Call call{};
        call.function = gpu().find_library("dot");
        ASSERT_TRUE(static_cast<bool>(call.function));
        call.args.buffers = {buffers, c.epilogue & kBias ? 4u : 3u};
        call.args.ints = ints;
        call.args.scratch = {scratch + 64 * (round % 2), scratch_bytes};
        call.args.stream = {gpu().device(), 0};
        gpu().call(call, 0);
        out = read(z, out.size());
        for (int64_t b = 0; b < count; ++b)
            for (int64_t i = 0; i < c.m; ++i)
                for (int64_t j = 0; j < c.n; ++j) {
                    double sum = 0;
                    for (int64_t k = 0; k < c.k; ++k) {
                        const int64_t at = c.offset + b * lhs_size + i * ints[4] + k * ints[5];
                        const int64_t of =
                            c.offset + (c.shared_rhs ? 0 : b * rhs_size) + k * ints[6] + j * ints[7];
                        sum += value_at(c.dtype, lhs.data() + bytes_of(at)) *
                               value_at(c.dtype, rhs.data() + bytes_of(of));
                    }
                    if (c.epilogue & kBias)
                        sum += value_at(c.dtype, bias.data() + bytes_of(j));
                    if (c.epilogue & kRelu)
                        sum = std::max(sum, 0.0);
                    if (c.epilogue & kGelu) {
                        const double inner = std::numbers::sqrt2 * std::numbers::inv_sqrtpi *
                                             (sum + 0.044715 * sum * sum * sum);
                        sum = sum / 2 * (1 + std::tanh(inner));
                        // A function that is rounded once: half a step of a bf16, f16, f32.
                        const double step = c.dtype == DType::BF16  ? 0x1p-8
                                            : c.dtype == DType::F16 ? 0x1p-11
                                                                    : 0x1p-22;
                        ASSERT_NEAR(value_at(c.dtype, out.data() + bytes_of((b * c.m + i) * c.n + j)), sum,
                                    std::abs(sum) * step + 1e-7)
                            << "round " << round;
                        continue;
                    }
                    std::array<std::byte, 8> rounded{};
                    round_to(c.dtype, rounded.data(), sum);
                    ASSERT_EQ(value_at(c.dtype, out.data() + bytes_of((b * c.m + i) * c.n + j)),
                              value_at(c.dtype, rounded.data()))
                        << "round " << round << ": " << c.m << " x " << c.n << " x " << c.k << ", batch " << b
                        << ", element " << i << ", " << j;
                }
        for (std::byte *memory : {x, y, z, w, scratch})
            give_back(memory);
    }
}

TEST_F(CudaMatmul, LayoutsBatchesAndOffsets) {
    expect_products();
}

TEST_F(CudaMatmul, WhereTheLibraryHasNoAlgorithmAKernelMakesTheProduct) {
    LZ_NEEDS_NVRTC();
    ::setenv("LAZULI_FAKE_CUBLASLT_ALGORITHMS", "0", 1);
    FAKE(lazuli_fake_cuda_fail)("cublasLtMatmul", 1, 14); // the library makes none of them
    expect_products();
    FAKE(lazuli_fake_cuda_fail)("cublasLtMatmul", 0, 0);
}

class KeptInMemory final : public runtime::PersistentStore {
public:
    std::optional<std::vector<std::byte>> find(std::string_view key) override {
        const auto at = kept.find(key);
        return at == kept.end() ? std::nullopt : std::optional(at->second);
    }
    void keep(std::string_view key, std::span<const std::byte> content) override {
        kept[std::string(key)].assign(content.begin(), content.end());
    }
    std::map<std::string, std::vector<std::byte>, std::less<>> kept;
};

/// An algorithm that was chosen once is not searched again by another process; one that the library does not
/// take is.
TEST_F(CudaMatmul, ChoicesAreKept) {
    KeptInMemory store;
    for (const char *const turn : {"nothing is kept", "it is kept", "another problem's is kept", "damaged"}) {
        const std::string_view what = turn;
        std::string none;
        gpus_ = runtime::cuda::make_cuda_gpus(driver_table(), {.store = &store}, none);
        ASSERT_FALSE(gpus_.empty()) << none;
        if (what == "damaged")
            for (auto &[key, content] : store.kept)
                content.pop_back();
        else if (what == "another problem's is kept")
            for (auto &[key, content] : store.kept)
                std::ranges::fill(content, std::byte{7});
        const bool searches = what != "it is kept";
        auto *const x = allocate<float>(64), *const out = allocate<float>(64);
        write(x, std::vector<float>(64, 2));
        auto *const scratch = allocate<std::byte>(40 << 20);
        void *const buffers[] = {x, x, out};
        const int64_t ints[] = {static_cast<int64_t>(DType::F32), 8, 8, 8, 8, 1, 8, 1, 0, 0, 0, 0, 0};
        runtime::Backend::Call call{};
        call.function = gpu().find_library("dot");
        call.args.buffers = buffers;
        call.args.ints = ints;
        call.args.scratch = {scratch, size_t{33} << 20};
        call.args.stream = {gpu().device(), 0};
        FAKE(lazuli_fake_cuda_fail)("cublasLtMatmulAlgoGetHeuristic", 1, 14);
        if (searches) {
            EXPECT_THROW(gpu().call(call, 0), ir::Failure) << turn;
        }
        gpu().call(call, 0);
        EXPECT_EQ(read(out, 64), std::vector<float>(64, 32)) << turn;
        EXPECT_EQ(store.kept.size(), 1u) << turn;
        if (!searches) { // the failure that was asked for is still to come
            const int64_t other[] = {static_cast<int64_t>(DType::F32), 4, 8, 8, 8, 1, 8, 1, 0, 0, 0, 0, 0};
            call.args.ints = other;
            EXPECT_THROW(gpu().call(call, 0), ir::Failure) << turn;
        }
        for (std::byte *memory :
             {reinterpret_cast<std::byte *>(x), reinterpret_cast<std::byte *>(out), scratch})
            give_back(memory);
    }
}

/// A product that the library refuses is an error of its call, and the device goes on.
TEST_F(CudaMatmul, FailuresAreErrors) {
    auto *const x = allocate<float>(64), *const out = allocate<float>(64);
    write(x, std::vector<float>(64, 2));
    const int64_t ints[] = {static_cast<int64_t>(DType::F32), 8, 8, 8, 8, 1, 8, 1, 0, 0, 0, 0, 0};
    auto *const scratch = allocate<std::byte>(40 << 20);
    void *const buffers[] = {x, x, out};
    runtime::Backend::Call call{};
    call.function = gpu().find_library("dot");
    call.args.buffers = buffers;
    call.args.ints = ints;
    call.args.scratch = {scratch, size_t{33} << 20};
    call.args.stream = {gpu().device(), 0};
    for (const char *function : {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatrixLayoutCreate",
                                 "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"}) {
        FAKE(lazuli_fake_cuda_fail)(function, 1, 14);
        EXPECT_THROW(gpu().call(call, 0), ir::Failure) << function;
    }
    gpu().call(call, 0);
    EXPECT_EQ(read(out, 64), std::vector<float>(64, 32));
}

/// The library says in two ways that it has no algorithm: none is found, and the problem is not supported.
TEST_F(CudaMatmul, WithoutAnAlgorithmAndACompilerTheErrorSaysWhatIsMissing) {
    for (const bool refused : {false, true}) {
        std::string none;
        gpus_ = runtime::cuda::make_cuda_gpus(driver_table(), {}, none);
        ASSERT_FALSE(gpus_.empty()) << none;
        auto *const x = allocate<float>(64);
        auto *const scratch = allocate<std::byte>(40 << 20);
        void *const buffers[] = {x, x, x};
        const int64_t ints[] = {static_cast<int64_t>(DType::F32), 8, 8, 8, 8, 1, 8, 1, 0, 0, 0, 0, 0};
        runtime::Backend::Call call{};
        call.function = gpu().find_library("dot");
        call.args.buffers = buffers;
        call.args.ints = ints;
        call.args.scratch = {scratch, size_t{33} << 20};
        call.args.stream = {gpu().device(), 0};
        if (refused)
            FAKE(lazuli_fake_cuda_fail)("cublasLtMatmulAlgoGetHeuristic", 1, 15); // NOT_SUPPORTED
        else
            ::setenv("LAZULI_FAKE_CUBLASLT_ALGORITHMS", "0", 1);
        try {
            gpu().call(call, 0);
            ADD_FAILURE() << "nothing was thrown";
        } catch (const ir::Failure &failure) {
            EXPECT_EQ(failure.kind(), ir::ErrorKind::Compile);
            EXPECT_STREQ(failure.what(), "cuda:0 has no compiler for the kernels of products of f32.");
        }
        ::unsetenv("LAZULI_FAKE_CUBLASLT_ALGORITHMS");
        give_back(x);
        give_back(scratch);
    }
}

/// Products of vectors of `k` numbers, each 2, in so many batches; all batches have the same operands.
class ManyProducts {
public:
    ManyProducts(runtime::Backend &gpu, float *x, float *out, std::byte *scratch)
        : gpu_(gpu), buffers_{x, x, out}, scratch_(scratch) {}
    void operator()(int64_t k, int64_t batches = 1) {
        const int64_t ints[] = {
            static_cast<int64_t>(DType::F32), 1, 1, k, k, 1, 1, 1, 0, 0, 1, batches, 0, 0, 0, 0};
        runtime::Backend::Call call{};
        call.function = gpu_.find_library("dot");
        call.args.buffers = buffers_;
        call.args.ints = ints;
        call.args.scratch = {scratch_, size_t{33} << 20};
        call.args.stream = {gpu_.device(), 0};
        gpu_.call(call, 0);
    }

private:
    runtime::Backend &gpu_;
    void *buffers_[3];
    std::byte *scratch_;
};

/// A program whose shapes change has as many plans as are kept, and what it used lately.
TEST_F(CudaMatmul, PlansThatWereUsedLongAgoAreForgotten) {
    constexpr int64_t kKept = 1024, kAll = kKept + 100;
    auto *const x = allocate<float>(kAll), *const out = allocate<float>(1);
    write(x, std::vector<float>(kAll, 2));
    ManyProducts product(gpu(), x, out, allocate<std::byte>(40 << 20));
    const auto calls = [](const char *function) {
        return static_cast<int64_t>(FAKE(lazuli_fake_cuda_calls)(function));
    };
    const auto alive = [&] { return calls("cublasLtMatmulDescCreate") - calls("cublasLtMatmulDescDestroy"); };
    const auto layouts = [&] {
        return calls("cublasLtMatrixLayoutCreate") - calls("cublasLtMatrixLayoutDestroy");
    };
    const auto made = [&] { return calls("cublasLtMatmulAlgoGetHeuristic"); };
    const int64_t before = alive(), layouts_before = layouts(), made_before = made();
    for (int64_t k = 1; k <= kAll; ++k) {
        product(k);
        product(7); // stays
    }
    EXPECT_EQ(read(out, 1)[0], 28);
    EXPECT_EQ(alive() - before, kKept);
    EXPECT_EQ(layouts() - layouts_before, 3 * kKept);
    EXPECT_EQ(made() - made_before, kAll);
    product(7);
    product(kAll);
    product(kAll - kKept + 2);
    EXPECT_EQ(made() - made_before, kAll);
    product(1);
    EXPECT_EQ(read(out, 1)[0], 4);
    EXPECT_EQ(made() - made_before, kAll + 1);
    EXPECT_EQ(alive() - before, kKept);
}

/// More batches than the library's 32 bits count are the kernel's, which is stopped here before it begins.
TEST_F(CudaMatmul, BatchesBeyondThirtyTwoBitsAreTheKernels) {
    LZ_NEEDS_NVRTC();
    auto *const x = allocate<float>(8), *const out = allocate<float>(8);
    write(x, std::vector<float>(8, 2));
    ManyProducts product(gpu(), x, out, allocate<std::byte>(40 << 20));
    const auto calls = [](const char *function) { return FAKE(lazuli_fake_cuda_calls)(function); };
    for (const int64_t batches : {int64_t{INT32_MAX} + 1, (int64_t{1} << 32) + 1}) {
        const uint64_t by_library = calls("cublasLtMatmul"), by_kernel = calls("cuLaunchKernel");
        FAKE(lazuli_fake_cuda_fail)("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
        EXPECT_THROW(product(8, batches), ir::Failure) << batches;
        FAKE(lazuli_fake_cuda_fail)("cuLaunchKernel", 0, 0);
        EXPECT_EQ(calls("cublasLtMatmul"), by_library) << batches;
        EXPECT_EQ(calls("cuLaunchKernel"), by_kernel + 1) << batches;
    }
    product(8, 2);
    EXPECT_EQ(read(out, 2), std::vector<float>(2, 32));
}

} // namespace
} // namespace lz::test
