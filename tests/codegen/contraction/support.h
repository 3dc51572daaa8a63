#pragma once
/// A product kernel built by hand, compiled and run: what the tests of contractions share.

#include "codegen/cpu.h"
#include "codegen/host.h"
#include "ir/kernel/builder.h"
#include "ir/kernel/verify.h"
#include "ir/math/expand.h"
#include "passes/schedule/contraction_tile.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

namespace lz::test {

using ir::Access;
using ir::ContractionArg;
using ir::DType;
using ir::KernelBuilder;
using ir::KValue;

/// How an operand lies in memory: its rows (along m or n) against k.
enum class Lie { RowsApart, RowsTogether, Spread };

struct Sizes {
    int64_t batches = 1, m = 1, n = 1, k = 1;
};

inline int64_t ceil_div(int64_t x, int64_t y) {
    return (x + y - 1) / y;
}

/// out[b, m, n] = epilogue(lhs[b, m, k] * rhs[k, n]), where rhs is shared by the batches if `share_rhs`.
class ProductKernel {
public:
    /// Makes the value that is stored from the product; `extra(buffer, access)` inputs come by `vector`
    /// (along n) and `matrix` (as the output), in the output's dtype.
    using Epilogue =
        std::function<KValue(KernelBuilder &, KValue product, const Access &vector, const Access &matrix)>;

    ProductKernel(DType dtype, Lie lhs, Lie rhs, const ir::CpuIsa &isa, const Epilogue &epilogue = {},
                  DType out = DType::Bool, bool ascending = false, bool emulate_amx = false)
        : dtype_(dtype), out_(out == DType::Bool ? dtype : out), lhs_(lhs), rhs_(rhs), ascending_(ascending),
          isa_(isa) {
        KernelBuilder b("product");
        const ir::AxisId batch = b.axis(), m = b.axis(), n = b.axis(), k = b.axis();
        const auto stride = [&] { return b.arg(ir::ArgRole::Stride); };
        const ir::ArgId l[3] = {stride(), stride(), stride()}, r[3] = {stride(), stride(), stride()};
        const ir::ArgId o[2] = {stride(), stride()};
        ir::Contraction c{};
        c.m = m;
        c.n = n;
        c.k = k;
        c.dtype = dtype;
        c.lhs = operand(b.buffer(dtype, ir::BufferMode::In), batch, m, k, l, lhs);
        c.rhs = operand(b.buffer(dtype, ir::BufferMode::In), batch, n, k, r, rhs);
        Access out_at, vector, matrix;
        out_at.strides = {{batch, ir::StrideClass::Strided, o[0]},
                          {m, ir::StrideClass::Strided, o[1]},
                          {n, ir::StrideClass::Contiguous, ir::kNoArg}};
        matrix = out_at;
        vector.strides = {{n, ir::StrideClass::Contiguous, ir::kNoArg}};
        out_at.buffer = b.buffer(out_, ir::BufferMode::Out);
        vector.buffer = b.buffer(out_, ir::BufferMode::In);
        matrix.buffer = b.buffer(out_, ir::BufferMode::In);
        accumulate_ = c.accumulate = ir::product_accumulation(dtype, out_);
        c.ascending = ascending;
        b.begin_phase({batch, m, n}, true).contraction = c;
        const bool sums = !epilogue && out == c.accumulate; // stored as they are
        const KValue product = b.product(sums || (!epilogue && ir::is_integer(dtype)) ? out_ : dtype);
        b.store(out_at, epilogue ? epilogue(b, product, vector, matrix) : product);
        b.end_phase();
        kernel_ = b.take();
        passes::declare_contraction(kernel_, 0, isa);
        kernel_.buffers.back().worker_offset = static_cast<ir::ArgId>(kernel_.args.size());
        kernel_.args.push_back({ir::ArgRole::Offset});
        ir::expand_math(kernel_);
        ir::verify(kernel_);
        const ir::CompiledKernel compiled = codegen::compile_cpu(kernel_, isa, {}, emulate_amx);
        module_ = codegen::cpu_loader()(compiled);
        entry_ = reinterpret_cast<ir::PhaseEntry>(module_->entry(compiled.phases.at(0).symbol));
    }

    const ir::Kernel &kernel() const { return kernel_; }
    int mr() const { return kernel_.phases[0].cpu().mr; }
    int nr() const { return kernel_.phases[0].cpu().nr; }

    /// Operands as dense [b, m, k] and [b, k, n]; they are laid out as the kernel wants them.
    template <class T, class Out = T>
    std::vector<Out> run(const Sizes &s, const std::vector<T> &lhs, const std::vector<T> &rhs,
                         const std::function<void(passes::ContractionBlocks &)> &change = {}, int threads = 1,
                         const std::vector<Out> &vector = {}, const std::vector<Out> &matrix = {}) const {
        int64_t l[3], r[3];
        std::vector<T> lhs_memory = lay(lhs, s.batches, s.m, s.k, s.k, 1, lhs_, l);
        std::vector<T> rhs_memory = lay(rhs, s.batches, s.n, s.k, 1, s.n, rhs_, r);
        passes::ContractionBlocks blocks = passes::contraction_blocks(
            {dtype_, accumulate_, s.batches, s.m, s.n, s.k, l[1], l[2], r[2], r[1], ascending_},
            {.isa = isa_, .threads = threads});
        if (change)
            change(blocks);
        std::vector<int64_t> args = {s.batches, s.m,  s.n,  s.k,  l[0],      l[1],
                                     l[2],      r[0], r[1], r[2], s.m * s.n, s.n};
        args.insert(args.end(), blocks.args.begin(), blocks.args.end());
        args.push_back(64); // where the scratch begins in the worker's memory
        std::vector<Out> out(static_cast<size_t>(s.batches * s.m * s.n + 1), guard<Out>());
        void *buffers[] = {lhs_memory.data(),
                           rhs_memory.data(),
                           out.data(),
                           const_cast<Out *>(vector.data()),
                           const_cast<Out *>(matrix.data()),
                           nullptr};
        ir::Fault fault;
        const ir::KernelFrame frame{buffers, args.data(), nullptr, &fault};
        items_ = ir::work_items(kernel_, kernel_.phases[0], args);
        // Items of any order and range, each thread's share with a scratch of exactly the size that was
        // promised.
        const size_t bytes = static_cast<size_t>(blocks.scratch_bytes) + 64;
        for (int64_t first = std::min<int64_t>(threads, items_) - 1; first >= 0; --first) {
            std::vector<std::byte> memory(bytes + 256, std::byte{0xa5});
            std::byte *worker = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
            for (int64_t item = first; item < items_; item += threads)
                entry_(&frame, item, item + 1, worker);
            for (size_t i = 0; i < 64; ++i)
                scratch_kept_ =
                    scratch_kept_ && worker[i] == std::byte{0xa5} && worker[bytes + i] == std::byte{0xa5};
        }
        scratch_kept_ = scratch_kept_ && std::memcmp(&out.back(), &reference_guard<Out>(), sizeof(Out)) == 0;
        out.pop_back();
        return out;
    }

    int64_t items() const { return items_; }
    /// Whether no run wrote outside of its scratch and its output.
    bool scratch_kept() const { return scratch_kept_; }

private:
    template <class T>
    static T guard() {
        T value;
        std::memset(&value, 0x5a, sizeof(T));
        return value;
    }
    template <class T>
    static const T &reference_guard() {
        static const T value = guard<T>();
        return value;
    }

    static Access operand(uint16_t buffer, ir::AxisId batch, ir::AxisId rows, ir::AxisId k,
                          const ir::ArgId *strides, Lie lie) {
        const auto axis = [](ir::AxisId a, bool contiguous, ir::ArgId stride) {
            return contiguous ? ir::AxisStride{a, ir::StrideClass::Contiguous, ir::kNoArg}
                              : ir::AxisStride{a, ir::StrideClass::Strided, stride};
        };
        Access a;
        a.buffer = buffer;
        a.strides = {axis(batch, false, strides[0]), axis(rows, lie == Lie::RowsTogether, strides[1]),
                     axis(k, lie == Lie::RowsApart, strides[2])};
        return a;
    }

    /// Copies a dense operand into the layout, with two elements between rows, and says its strides (batch,
    /// row, k).
    template <class T>
    static std::vector<T> lay(const std::vector<T> &dense, int64_t batches, int64_t rows, int64_t k,
                              int64_t from_row, int64_t from_k, Lie lie, int64_t *strides) {
        const int64_t gap = 2;
        strides[1] = lie == Lie::RowsTogether ? 1 : lie == Lie::RowsApart ? k + gap : 3 * (k + gap);
        strides[2] = lie == Lie::RowsTogether ? rows + gap : lie == Lie::RowsApart ? 1 : 3;
        strides[0] = std::max(rows * strides[1], k * strides[2]);
        // Exactly as long as its last element needs, so that a sanitizer sees one read too many.
        const int64_t size = batches * rows * k == 0 ? 0
                                                     : (batches - 1) * strides[0] + (rows - 1) * strides[1] +
                                                           (k - 1) * strides[2] + 1;
        std::vector<T> memory(static_cast<size_t>(size));
        for (int64_t b = 0; b < batches; ++b)
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t p = 0; p < k; ++p)
                    memory[static_cast<size_t>(b * strides[0] + i * strides[1] + p * strides[2])] =
                        dense[static_cast<size_t>(b * rows * k + i * from_row + p * from_k)];
        return memory;
    }

    DType dtype_, out_, accumulate_;
    Lie lhs_, rhs_;
    bool ascending_;
    ir::CpuIsa isa_;
    ir::Kernel kernel_;
    std::unique_ptr<runtime::Module> module_;
    ir::PhaseEntry entry_ = nullptr;
    mutable int64_t items_ = 0;
    mutable bool scratch_kept_ = true;
};

template <class T>
std::vector<T> random_values(int64_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<T> values(static_cast<size_t>(count));
    for (T &v : values) {
        if constexpr (std::is_floating_point_v<T>)
            v = std::uniform_real_distribution<T>(-1, 1)(random);
        else
            v = static_cast<T>(random());
    }
    return values;
}

/// The order that Contraction documents: ascending k, one rounding a step.
template <class T, class Out = T>
std::vector<Out> in_order(const Sizes &s, const std::vector<T> &lhs, const std::vector<T> &rhs, bool fused) {
    std::vector<Out> out;
    for (int64_t b = 0; b < s.batches; ++b)
        for (int64_t i = 0; i < s.m; ++i)
            for (int64_t j = 0; j < s.n; ++j) {
                Out sum = 0;
                for (int64_t p = 0; p < s.k; ++p) {
                    const T x = lhs[static_cast<size_t>((b * s.m + i) * s.k + p)];
                    const T y = rhs[static_cast<size_t>((b * s.k + p) * s.n + j)];
                    if constexpr (std::is_floating_point_v<T>)
                        sum = fused ? std::fma(x, y, sum) : sum + x * y;
                    else
                        sum = static_cast<Out>(static_cast<uint64_t>(sum) +
                                               static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
                }
                out.push_back(sum);
            }
    return out;
}

} // namespace lz::test
