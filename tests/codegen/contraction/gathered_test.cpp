/// Operands whose elements stand at digits of their rows and of k: beside plain loops over the same places.

#include "contraction/support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace lz::test {
namespace {

#if LAZULI_CPU_JIT

struct Digit {
    int64_t extent, stride;
};
using Digits = std::vector<Digit>;

int64_t extent_of(const Digits &digits) {
    return std::accumulate(digits.begin(), digits.end(), int64_t{1},
                           [](int64_t n, const Digit &d) { return n * d.extent; });
}
int64_t place_of(const Digits &digits, int64_t index) {
    int64_t place = 0;
    for (size_t d = digits.size(); d-- > 0; index /= digits[d].extent)
        place += index % digits[d].extent * digits[d].stride;
    return place;
}

/// Digits of an operand's rows (along m or n) and of k; of the kernel, an axis of one digit may be a stride.
struct Stands {
    Digits own, k;
    bool strided_k = false;
};

/// The lowest and the highest place that elements of a batch have.
std::pair<int64_t, int64_t> span_of(const Stands &s) {
    int64_t low = 0, high = 0;
    for (const Digits *digits : {&s.own, &s.k})
        for (const Digit &d : *digits)
            (d.stride < 0 ? low : high) += (d.extent - 1) * d.stride;
    return {low, high};
}

/// out[b, m, n] = epilogue(lhs * rhs) with the sums of each element, of batches that lie one after another.
template <class T>
class GatheredKernel {
public:
    /// Sums are stored as they are, or twice as large: then they are in the scratch until the end.
    GatheredKernel(const Stands &lhs, const Stands &rhs, const ir::CpuIsa &isa, bool twice)
        : isa_(isa), twice_(twice) {
        KernelBuilder b("gathered");
        const ir::AxisId batch = b.axis(), m = b.axis(), n = b.axis(), k = b.axis();
        ir::Contraction c{};
        c.m = m;
        c.n = n;
        c.k = k;
        c.dtype = c.accumulate = kDType;
        const auto operand = [&](const Stands &s, ir::AxisId own, std::vector<ir::ContractionDigit> &digits) {
            Access access;
            access.buffer = b.buffer(kDType, ir::BufferMode::In);
            access.offset = b.arg(ir::ArgRole::Offset);
            access.strides = {{batch, ir::StrideClass::Strided, b.arg(ir::ArgRole::Stride)}};
            const auto add = [&](ir::AxisId axis, const Digits &of) {
                for (size_t d = 0; d < of.size(); ++d) {
                    const ir::ArgId extent = b.arg(ir::ArgRole::Extent);
                    digits.push_back({axis, extent, b.arg(ir::ArgRole::Stride)});
                }
            };
            add(own, s.own);
            if (s.strided_k)
                access.strides.push_back({k, ir::StrideClass::Strided, b.arg(ir::ArgRole::Stride)});
            else
                add(k, s.k);
            return access;
        };
        c.lhs = operand(lhs, m, c.lhs_digits);
        c.rhs = operand(rhs, n, c.rhs_digits);
        Access out;
        out.buffer = b.buffer(kDType, ir::BufferMode::Out);
        out.strides = {{batch, ir::StrideClass::Strided, b.arg(ir::ArgRole::Stride)},
                       {m, ir::StrideClass::Strided, b.kernel().axes[n].extent},
                       {n, ir::StrideClass::Contiguous, ir::kNoArg}};
        b.begin_phase({batch, m, n}, true).contraction = c;
        const KValue product = b.product(kDType);
        b.store(out, twice ? b.add(product, product) : product);
        b.end_phase();
        kernel_ = b.take();
        passes::declare_contraction(kernel_, 0, isa);
        kernel_.buffers.back().worker_offset = static_cast<ir::ArgId>(kernel_.args.size());
        kernel_.args.push_back({ir::ArgRole::Offset});
        ir::verify(kernel_);
        const ir::CompiledKernel compiled = codegen::compile_cpu(kernel_, isa, {});
        module_ = codegen::cpu_loader()(compiled);
        entry_ = reinterpret_cast<ir::PhaseEntry>(module_->entry(compiled.phases.at(0).symbol));
    }

    const ir::Kernel &kernel() const { return kernel_; }

    /// Compares what comes out with sums in order; `block_k`: other blocks than the chosen ones.
    void check(const Stands &lhs, const Stands &rhs, int64_t batches, int64_t block_k = 0, int threads = 1) {
        const int64_t m = extent_of(lhs.own), n = extent_of(rhs.own), k = extent_of(lhs.k);
        ASSERT_EQ(extent_of(rhs.k), k);
        passes::ContractionSizes sizes{
            .dtype = kDType, .accumulate = kDType, .batches = batches, .m = m, .n = n, .k = k};
        sizes.lhs_digits = sizes.rhs_digits = true;
        passes::ContractionBlocks blocks =
            passes::contraction_blocks(sizes, {.isa = isa_, .threads = threads});
        if (block_k)
            shorten(blocks, m, n, block_k);
        std::vector<int64_t> args = {batches, m, n, k};
        std::vector<T> memory[2];
        const Stands *const stands[] = {&lhs, &rhs};
        int64_t first[2], apart[2];
        for (size_t i = 0; i < 2; ++i) {
            const auto [low, high] = span_of(*stands[i]);
            first[i] = -low;
            apart[i] = high - low + 1; // no more memory than there are places
            const bool none = batches * m * n * k == 0;
            memory[i] = random_values<T>(none ? 0 : batches * apart[i], static_cast<uint32_t>(i));
            args.push_back(first[i]);
            args.push_back(apart[i]);
            for (const Digit &d : stands[i]->own)
                args.insert(args.end(), {d.extent, d.stride});
            if (stands[i]->strided_k)
                args.push_back(stands[i]->k.at(0).stride);
            else
                for (const Digit &d : stands[i]->k)
                    args.insert(args.end(), {d.extent, d.stride});
        }
        args.push_back(m * n);
        args.insert(args.end(), blocks.args.begin(), blocks.args.end());
        args.push_back(64);
        std::vector<T> out(static_cast<size_t>(batches * m * n) + 1, T{77});
        void *buffers[] = {memory[0].data(), memory[1].data(), out.data(), nullptr};
        ir::Fault fault;
        const ir::KernelFrame frame{buffers, args.data(), nullptr, &fault};
        const int64_t items = ir::work_items(kernel_, kernel_.phases[0], args);
        const auto bytes = static_cast<size_t>(blocks.scratch_bytes) + 64;
        std::vector<std::byte> scratch(bytes + 192, std::byte{0xa5});
        std::byte *worker = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
        for (int64_t item = items; item-- > 0;)
            entry_(&frame, item, item + 1, worker);
        for (size_t i = 0; i < 64; ++i)
            ASSERT_TRUE(worker[i] == std::byte{0xa5} && worker[bytes + i] == std::byte{0xa5});
        ASSERT_EQ(out.back(), T{77});
        for (int64_t b = 0; b < batches; ++b)
            for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < n; ++j) {
                    T sum = 0;
                    for (int64_t p = 0; p < k; ++p) {
                        const auto at = [&](size_t which, int64_t row) {
                            return memory[which][static_cast<size_t>(first[which] + b * apart[which] +
                                                                     place_of(stands[which]->own, row) +
                                                                     place_of(stands[which]->k, p))];
                        };
                        const T x = at(0, i), y = at(1, j);
                        if constexpr (std::is_floating_point_v<T>)
                            sum = isa_.fma ? std::fma(x, y, sum) : sum + x * y;
                        else
                            sum = static_cast<T>(static_cast<uint64_t>(sum) +
                                                 static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
                    }
                    if (twice_) {
                        if constexpr (std::is_floating_point_v<T>)
                            sum = sum + sum;
                        else
                            sum = static_cast<T>(2 * static_cast<uint64_t>(sum));
                    }
                    ASSERT_EQ(out[static_cast<size_t>((b * m + i) * n + j)], sum)
                        << "batch " << b << ", " << i << ", " << j << " of " << m << " x " << n << " x " << k
                        << ", registers of " << isa_.vector_bytes << " bytes";
                }
    }

private:
    static constexpr DType kDType = std::is_same_v<T, float>     ? DType::F32
                                    : std::is_same_v<T, double>  ? DType::F64
                                    : std::is_same_v<T, int32_t> ? DType::I32
                                                                 : DType::I64;

    void shorten(passes::ContractionBlocks &blocks, int64_t m, int64_t n, int64_t block_k) const {
        const int64_t mr = kernel_.phases[0].cpu().mr, nr = kernel_.phases[0].cpu().nr, bytes = 8;
        const auto set = [&](ContractionArg which, int64_t value) {
            blocks.args[static_cast<size_t>(which)] = value;
        };
        const int64_t rows = std::clamp<int64_t>(m, 1, 2 * mr + 1), columns = 2 * nr, inner = mr;
        const int64_t lhs = (mr * block_k * bytes + 127) / 64 * 64,
                      rhs = (columns * block_k * bytes + 127) / 64 * 64;
        const int64_t sums = ceil_div(rows, inner) * 2 * mr * nr * bytes;
        set(ContractionArg::BlockM, rows);
        set(ContractionArg::BlockN, columns);
        set(ContractionArg::InnerM, inner);
        set(ContractionArg::BlockK, block_k);
        set(ContractionArg::PassK, block_k);
        set(ContractionArg::RhsOffset, lhs);
        set(ContractionArg::SumsOffset, lhs + rhs);
        set(ContractionArg::PlacesOffset, lhs + rhs + sums);
        blocks.items = ceil_div(m, rows) * ceil_div(n, columns);
        blocks.scratch_bytes = lhs + rhs + sums + (2 * block_k + std::max(mr, nr)) * 8;
    }

    ir::CpuIsa isa_;
    bool twice_;
    ir::Kernel kernel_;
    std::unique_ptr<runtime::Module> module_;
    ir::PhaseEntry entry_ = nullptr;
};

/// The host's ISA, and what older processors have of it.
std::vector<ir::CpuIsa> isas() {
    ir::CpuIsa isa = codegen::host_isa();
    std::vector<ir::CpuIsa> all = {isa};
    isa.avx512 = isa.avx512_bf16 = isa.amx_bf16 = isa.amx_int8 = false;
    isa.vector_bytes = std::min(isa.vector_bytes, 32);
    isa.vector_registers = 16;
    all.push_back(isa);
#if defined(__x86_64__)
    isa.features = "+64bit,+cx16,+sse,+sse2";
    isa.fma = false;
#endif
    isa.vector_bytes = 16;
    all.push_back(isa);
    return all;
}

/// Windows of size x size of images [b, c, y + size - 1, x + size - 1]: rows (b, y, x), and k (c, i, j).
Stands windows(int64_t b, int64_t c, int64_t y, int64_t x, int64_t size, int64_t step = 1) {
    const int64_t width = (x - 1) * step + size, image = ((y - 1) * step + size) * width;
    return {{{b, c * image}, {y, step * width}, {x, step}}, {{c, image}, {size, width}, {size, 1}}};
}
/// A dense [k, n] as digits of as many extents as the windows' k has.
Stands weights(int64_t k, int64_t n) {
    return {{{n, 1}}, {{k, n}}};
}

template <class T>
void check_kind(const std::vector<std::pair<Stands, Stands>> &cases, bool twice) {
    for (const ir::CpuIsa &isa : isas()) {
        std::optional<GatheredKernel<T>> kernel;
        for (const auto &[lhs, rhs] : cases) { // of one class
            if (!kernel)
                kernel.emplace(lhs, rhs, isa, twice);
            kernel->check(lhs, rhs, 1);
            kernel->check(lhs, rhs, 2, 32);
            if (testing::Test::HasFatalFailure())
                return;
        }
    }
}

template <class T>
void check_windows() {
    // Rows of images that are longer and shorter than a tile, of 1; more than one block of k; steps of 2.
    const std::vector<std::pair<Stands, Stands>> cases = {
        {windows(2, 3, 5, 40, 3), weights(27, 33)},   {windows(3, 2, 6, 6, 3), weights(18, 70)},
        {windows(2, 2, 3, 1, 2), weights(8, 5)},      {windows(1, 70, 3, 11, 3), weights(630, 20)},
        {windows(2, 3, 4, 9, 3, 2), weights(27, 35)}, {windows(1, 1, 1, 1, 1), weights(1, 1)},
        {windows(2, 3, 2, 17, 1), weights(3, 64)},    {windows(1, 4, 9, 2, 5), weights(100, 31)},
        {windows(0, 3, 4, 9, 3), weights(27, 35)},    {windows(2, 0, 4, 9, 3), weights(0, 35)},
    };
    for (const bool twice : {false, true})
        check_kind<T>(cases, twice);
    // On the other side, and transposed: what the weights' gradient is.
    std::vector<std::pair<Stands, Stands>> other, transposed;
    for (const auto &[lhs, rhs] : cases) {
        other.emplace_back(Stands{{{extent_of(rhs.own), extent_of(rhs.k)}}, {{extent_of(rhs.k), 1}}}, lhs);
        transposed.emplace_back(Stands{lhs.k, lhs.own}, weights(extent_of(lhs.own), extent_of(rhs.own)));
    }
    check_kind<T>(other, false);
    check_kind<T>(transposed, true);
}

TEST(GatheredContraction, WindowsOfF32) {
    check_windows<float>();
}
TEST(GatheredContraction, WindowsOfF64) {
    check_windows<double>();
}
TEST(GatheredContraction, WindowsOfIntegers) {
    check_windows<int32_t>();
    check_windows<int64_t>();
}

TEST(GatheredContraction, DigitsOfAllKinds) {
    // Turned, read again and again, of extent 1; both operands at once.
    const Stands turned{{{4, 60}, {3, -20}, {9, -1}}, {{5, 0}, {2, -9}, {7, 300}}},
        repeated{{{2, 0}, {17, 0}, {3, 1}}, {{1, 99}, {35, 3}, {2, -1}}},
        units{{{1, 5}, {1, 7}, {50, 2}}, {{70, 1}, {1, 1}, {1, -4}}};
    std::vector<std::pair<Stands, Stands>> cases;
    for (const Stands *lhs : {&turned, &repeated, &units})
        for (const Stands *rhs : {&turned, &repeated, &units})
            cases.emplace_back(*lhs, *rhs);
    check_kind<float>(cases, false);
    check_kind<double>(cases, true);
}

TEST(GatheredContraction, AnAxisMayHaveAStrideBesideDigitsOfTheOther) {
    const Stands lhs{{{3, 500}, {20, 1}}, {{40, 9}}, true}, rhs{{{5, 70}, {9, 2}}, {{40, 1}}, true};
    check_kind<float>({{lhs, rhs}}, false);
}

TEST(GatheredContraction, ThreadsDoNotChangeBits) {
    const Stands lhs = windows(2, 5, 30, 30, 3), rhs = weights(45, 70);
    GatheredKernel<float> kernel(lhs, rhs, codegen::host_isa(), false);
    for (const int threads : {1, 2, 5, 64})
        kernel.check(lhs, rhs, 2, 0, threads);
}

#else
TEST(GatheredContraction, NeedsTheJit) {
    GTEST_SKIP() << "built without LLVM (LAZULI_CPU_JIT=OFF)";
}
#endif

} // namespace
} // namespace lz::test
