#pragma once
/// Runs a kernel compiled and interpreted on equal data; the interpreter is the oracle.

#include "codegen/cpu.h"
#include "codegen/host.h"
#include "ir/interpreter/kernel.h"
#include "ir/kernel/builder.h"
#include "runtime/cpu/object.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace lz::test {

/// 64-byte aligned bytes with a guard behind them.
class Bytes {
public:
    explicit Bytes(size_t n)
        : size_(n), memory_(static_cast<std::byte *>(std::aligned_alloc(64, (n + 191) / 64 * 64))) {
        std::memset(memory_.get(), 0x5a, (n + 191) / 64 * 64);
    }
    std::byte *data() { return memory_.get(); }
    const std::byte *data() const { return memory_.get(); }
    size_t size() const { return size_; }
    bool guard_intact() const {
        return std::all_of(data() + size_, data() + size_ + 64,
                           [](std::byte b) { return b == std::byte{0x5a}; });
    }
    template <class T>
    T *as() {
        return reinterpret_cast<T *>(data());
    }

private:
    struct Free {
        void operator()(std::byte *p) const { std::free(p); }
    };
    size_t size_;
    std::unique_ptr<std::byte, Free> memory_;
};

struct Launch {
    ir::Kernel kernel;
    std::vector<int64_t> args;
    std::vector<uint64_t> scalars;
    std::vector<int64_t> elements; ///< of each buffer
    size_t worker_bytes = 0;
};

struct Outcome {
    std::vector<Bytes> buffers;
    int32_t fault = 0; ///< of the first check that failed, in the order of Kernel::instrs
    uint32_t fault_source = 0;
    int64_t fault_value = 0, fault_limit = 0;
    std::vector<int32_t> faults; ///< codes, by check
};

/// Fills a buffer: floats of moderate size with some NaN, infinities and zeros if `corners`, integers of both
/// signs.
inline void fill(ir::DType dtype, std::byte *to, int64_t n, uint64_t seed, bool corners) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0, 2);
    const double special[] = {0.0,
                              -0.0,
                              1.0,
                              std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN(),
                              1e-40,
                              3e9,
                              -3e9,
                              1e30};
    for (int64_t i = 0; i < n; ++i) {
        const bool corner = corners && random() % 7 == 0;
        const double v = corner ? special[random() % std::size(special)] : normal(random);
        uint64_t bits = random();
        if (ir::is_float(dtype)) {
            const auto wide = std::bit_cast<uint64_t>(v);
            bits = ir::evaluate(ir::KOp::Cast, dtype, ir::DType::F64, &wide);
        } else if (dtype == ir::DType::Bool) {
            bits &= 1;
        } else if (!corner) {
            bits = static_cast<uint64_t>(static_cast<int64_t>(v * 8));
        }
        std::memcpy(to + i * ir::size_of(dtype), &bits, static_cast<size_t>(ir::size_of(dtype)));
    }
}

/// The same of what was filled so before, which the runs that are compared ask for in turn: a copy takes a
/// fiftieth of the time.
inline void fill_again(ir::DType dtype, Bytes &to, int64_t n, uint64_t seed, bool corners) {
    constexpr size_t kKept = size_t{64} << 20;
    thread_local std::map<std::tuple<ir::DType, int64_t, uint64_t, bool>, std::vector<std::byte>> filled;
    thread_local size_t kept = 0;
    const auto [at, is_new] = filled.try_emplace({dtype, n, seed, corners});
    if (!is_new) {
        std::copy(at->second.begin(), at->second.end(), to.data());
        return;
    }
    fill(dtype, to.data(), n, seed, corners);
    at->second.assign(to.data(), to.data() + to.size());
    kept += to.size();
    if (kept > kKept) {
        filled.clear();
        kept = 0;
    }
}

inline Outcome prepare(const Launch &l, uint64_t seed, bool corners) {
    Outcome o;
    for (size_t i = 0; i < l.kernel.buffers.size(); ++i) {
        const ir::DType t = l.kernel.buffers[i].dtype;
        o.buffers.emplace_back(static_cast<size_t>(l.elements[i] * ir::size_of(t)));
        fill_again(t, o.buffers.back(), l.elements[i], seed + i, corners);
    }
    return o;
}

/// Runs `body(frame, worker)` over the outcome's buffers and takes over the fault.
template <class Body>
void with_frame(const Launch &l, Outcome &o, Body body) {
    std::vector<void *> pointers;
    for (Bytes &b : o.buffers)
        pointers.push_back(b.data());
    const auto checks = static_cast<size_t>(std::ranges::count_if(
        l.kernel.instrs, [](const ir::Instr &i) { return ir::info(i.op).cls == ir::KOpClass::Check; }));
    std::vector<ir::Fault> faults(checks + 1);
    const ir::KernelFrame frame{pointers.data(), l.args.data(), l.scalars.data(), faults.data()};
    Bytes worker(l.worker_bytes + 64);
    body(frame, worker.data());
    for (const ir::Fault &f : faults)
        o.faults.push_back(f.code);
    const ir::Fault &fault = *std::ranges::find_if(
        faults, [&](const ir::Fault &f) { return f.code != 0 || &f == &faults.back(); });
    o.fault = fault.code;
    o.fault_source = fault.source;
    o.fault_value = fault.value;
    o.fault_limit = fault.limit;
}

inline Outcome run_interpreted(const Launch &l, uint64_t seed = 1, bool corners = true) {
    Outcome o = prepare(l, seed, corners);
    with_frame(l, o, [&](const ir::KernelFrame &f, void *worker) { ir::interpret(l.kernel, f, worker); });
    return o;
}

/// Work items in ranges of `grain`.
inline Outcome run_compiled(const Launch &l, const ir::CpuIsa &isa, int64_t grain = 3, uint64_t seed = 1,
                            bool corners = true) {
    const ir::CompiledKernel compiled = codegen::compile_cpu(l.kernel, isa);
    const auto module = runtime::load_object(compiled);
    Outcome o = prepare(l, seed, corners);
    with_frame(l, o, [&](const ir::KernelFrame &f, void *worker) {
        for (size_t i = 0; i < l.kernel.phases.size(); ++i) {
            const auto entry = reinterpret_cast<ir::PhaseEntry>(module->entry(compiled.phases[i].symbol));
            const int64_t items = ir::work_items(l.kernel, l.kernel.phases[i], l.args);
            for (int64_t at = 0; at < items; at += grain)
                entry(&f, at, std::min(items, at + grain), worker);
        }
    });
    return o;
}

inline ir::CpuIsa isa_with(int vector_bytes) {
    ir::CpuIsa isa = codegen::host_isa();
    isa.vector_bytes = std::min(isa.vector_bytes, vector_bytes);
    return isa;
}

/// Empty, or where and how the buffers of two outcomes differ. NaNs are equal to each other.
inline std::string difference(const Launch &l, const Outcome &a, const Outcome &b) {
    for (size_t i = 0; i < l.kernel.buffers.size(); ++i) {
        const ir::KBuffer &buffer = l.kernel.buffers[i];
        if (buffer.mode == ir::BufferMode::Worker)
            continue;
        if (!b.buffers[i].guard_intact())
            return "buffer " + std::to_string(i) + " was overrun";
        const int bytes = ir::size_of(buffer.dtype);
        for (int64_t e = 0; e < l.elements[i]; ++e) {
            uint64_t x = 0, y = 0;
            std::memcpy(&x, a.buffers[i].data() + e * bytes, static_cast<size_t>(bytes));
            std::memcpy(&y, b.buffers[i].data() + e * bytes, static_cast<size_t>(bytes));
            if (x == y)
                continue;
            const auto nan = [&](uint64_t v) {
                uint64_t wide = ir::evaluate(ir::KOp::Cast, ir::DType::F64, buffer.dtype, &v);
                return ir::is_float(buffer.dtype) &&
                       std::bit_cast<double>(wide) != std::bit_cast<double>(wide);
            };
            if (nan(x) && nan(y))
                continue;
            char text[160];
            std::snprintf(text, sizeof text, "buffer %zu element %lld: interpreter %llx, compiled %llx", i,
                          static_cast<long long>(e), static_cast<unsigned long long>(x),
                          static_cast<unsigned long long>(y));
            return text;
        }
    }
    if (a.fault != b.fault)
        return "faults " + std::to_string(a.fault) + " and " + std::to_string(b.fault);
    return "";
}

inline ir::Access contiguous(uint16_t buffer, ir::AxisId axis) {
    return {buffer, ir::kNoArg, {{axis, ir::StrideClass::Contiguous, ir::kNoArg}}, {}, ir::kNoValue};
}

/// out[i] = f(builder, inputs) over one axis of n elements.
template <class F>
Launch elementwise(const std::vector<ir::DType> &inputs, int64_t n, int64_t block, F f) {
    ir::KernelBuilder b;
    const ir::AxisId axis = b.axis();
    const ir::ArgId size = b.arg(ir::ArgRole::Block);
    std::vector<uint16_t> in;
    for (const ir::DType t : inputs)
        in.push_back(b.buffer(t, ir::BufferMode::In));
    b.begin_phase({axis}, true).on_cpu().block = size;
    std::vector<ir::KValue> x;
    for (const uint16_t i : in)
        x.push_back(b.load(contiguous(i, axis)));
    const ir::KValue y = f(b, x);
    const uint16_t out = b.buffer(b.dtype(y), ir::BufferMode::Out);
    b.store(contiguous(out, axis), y);
    b.end_phase();
    Launch l{b.take(), {n, block}, {}, {}, 0};
    l.elements.assign(inputs.size() + 1, n);
    return l;
}

/// out[r, i] = f(builder, in[r, i]) over rows that lie `stride` elements apart.
template <class F>
Launch rows(ir::DType t, int64_t count, int64_t n, int64_t stride, F f) {
    ir::KernelBuilder b;
    const ir::AxisId r = b.axis(), i = b.axis();
    const ir::ArgId step = b.arg(ir::ArgRole::Stride);
    const uint16_t in = b.buffer(t, ir::BufferMode::In);
    const auto at = [&](uint16_t buffer) {
        ir::Access a = contiguous(buffer, i);
        a.strides.push_back({r, ir::StrideClass::Strided, step});
        return a;
    };
    b.begin_phase({r, i}, true);
    const ir::KValue y = f(b, b.load(at(in)));
    const uint16_t out = b.buffer(b.dtype(y), ir::BufferMode::Out);
    b.store(at(out), y);
    b.end_phase();
    return {b.take(), {count, n, stride}, {}, {count * stride, count * stride}, 0};
}

/// Whether it folds floats: one NaN among its numbers, and nothing else is seen.
inline bool is_hidden_by_corners(const ir::Kernel &kernel) {
    return std::ranges::any_of(kernel.loops, [](const ir::Loop &loop) {
        return std::ranges::any_of(loop.reductions, [](const ir::Reduction &r) {
            return ir::is_float(r.dtype) && r.op != ir::ReduceOp::ArgMax && r.op != ir::ReduceOp::ArgMin;
        });
    });
}

/// Expects equal bits from the interpreter and from the code generator that is under test (whoever links
/// these tests says which), of numbers with corners and, where those hide something, without.
void expect_equal(const Launch &l, const std::string &what);

} // namespace lz::test
