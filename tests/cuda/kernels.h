#pragma once
/// Kernels of the kinds that CUDA devices have schedules for.

#include "tests/support/kernel_run.h"

namespace lz::test {

inline ir::AxisStride along(ir::AxisId axis) {
    return {axis, ir::StrideClass::Contiguous, ir::kNoArg};
}

/// (x - mean) / (1 + max |x| * sum) for each row, in three loops, with what the second computes kept.
inline Launch row_kernel(ir::DType t, ir::DType accumulate, int64_t rows, int64_t length, int64_t stride) {
    ir::KernelBuilder b("rows");
    const ir::AxisId r = b.axis(), i = b.axis();
    const ir::ArgId step = b.arg(ir::ArgRole::Stride), place = b.arg(ir::ArgRole::Offset);
    const uint16_t in = b.buffer(t, ir::BufferMode::In), out = b.buffer(t, ir::BufferMode::Out),
                   kept = b.buffer(accumulate, ir::BufferMode::Worker, place),
                   sums = b.buffer(accumulate, ir::BufferMode::Out);
    const auto at = [&](uint16_t buffer) {
        return ir::Access{
            buffer, ir::kNoArg, {{r, ir::StrideClass::Strided, step}, along(i)}, {}, ir::kNoValue};
    };
    b.begin_phase({r}, false);
    const uint32_t first = b.begin_loop(i, ir::LoopOrder::Lanes);
    b.reduce(ir::ReduceOp::Max, b.abs(b.cast(b.load(at(in)), accumulate)));
    b.end_loop();
    const ir::KValue most = b.loop_result(first, 0);
    const uint32_t second = b.begin_loop(i, ir::LoopOrder::Lanes, ir::kLaneChunk);
    const ir::KValue e = b.add(b.cast(b.load(at(in)), accumulate), most);
    b.store(contiguous(kept, i), e);
    b.reduce(ir::ReduceOp::Add, e);
    b.reduce(ir::ReduceOp::Min, e);
    b.end_loop();
    const ir::KValue sum = b.loop_result(second, 0);
    b.begin_loop(i, ir::LoopOrder::Lanes);
    b.store(at(out), b.cast(b.sub(b.mul(b.load(contiguous(kept, i)), b.constant(accumulate, 0.25)), sum), t));
    b.end_loop();
    b.store(contiguous(sums, r), b.add(sum, b.loop_result(second, 1)));
    b.end_phase();
    return {b.take(),
            {rows, length, stride, 0},
            {},
            {rows * stride, rows * stride, std::max<int64_t>(length, 1), rows},
            0};
}

/// x * sum(x * y) + y * sum(y) for each row: both are read again, and nothing that is computed is.
inline Launch two_operands(ir::DType t, int64_t rows, int64_t length) {
    ir::KernelBuilder b("two");
    const ir::AxisId r = b.axis(), i = b.axis();
    const ir::ArgId step = b.arg(ir::ArgRole::Stride);
    const uint16_t x = b.buffer(t, ir::BufferMode::In), y = b.buffer(t, ir::BufferMode::In),
                   out = b.buffer(t, ir::BufferMode::Out);
    const auto at = [&](uint16_t buffer) {
        return ir::Access{
            buffer, ir::kNoArg, {{r, ir::StrideClass::Strided, step}, along(i)}, {}, ir::kNoValue};
    };
    b.begin_phase({r}, false);
    const uint32_t first = b.begin_loop(i, ir::LoopOrder::Lanes, ir::kLaneChunk);
    b.reduce(ir::ReduceOp::Add, b.mul(b.load(at(x)), b.load(at(y))));
    b.end_loop();
    const uint32_t second = b.begin_loop(i, ir::LoopOrder::Lanes, ir::kLaneChunk);
    b.reduce(ir::ReduceOp::Add, b.load(at(y)));
    b.end_loop();
    const ir::KValue products = b.loop_result(first, 0), sum = b.loop_result(second, 0);
    b.begin_loop(i, ir::LoopOrder::Lanes);
    b.store(at(out), b.add(b.mul(b.load(at(x)), products), b.mul(b.load(at(y)), sum)));
    b.end_loop();
    b.end_phase();
    return {b.take(), {rows, length, length}, {}, {rows * length, rows * length, rows * length}, 0};
}

/// The product of m x k and k x n (its transpose where `turned`), plus 1, for two batches.
inline Launch product(ir::DType t, int64_t m, int64_t n, int64_t k, bool turned) {
    ir::KernelBuilder b("product");
    const ir::AxisId batch = b.axis(), am = b.axis(), an = b.axis(), ak = b.axis();
    const ir::ArgId lhs_batch = b.arg(ir::ArgRole::Stride), lhs_row = b.arg(ir::ArgRole::Stride),
                    rhs_row = b.arg(ir::ArgRole::Stride), out_batch = b.arg(ir::ArgRole::Stride),
                    out_row = b.arg(ir::ArgRole::Stride);
    const uint16_t lhs = b.buffer(t, ir::BufferMode::In), rhs = b.buffer(t, ir::BufferMode::In),
                   out = b.buffer(t, ir::BufferMode::Out);
    ir::Contraction c{
        .m = am, .n = an, .k = ak, .dtype = t, .accumulate = ir::info(t).accumulate, .lhs = {}, .rhs = {}};
    c.lhs = {
        lhs,
        ir::kNoArg,
        {{batch, ir::StrideClass::Strided, lhs_batch}, {am, ir::StrideClass::Strided, lhs_row}, along(ak)},
        {},
        ir::kNoValue};
    const ir::AxisId outer = turned ? an : ak, inner = turned ? ak : an;
    c.rhs = {rhs, ir::kNoArg, {{outer, ir::StrideClass::Strided, rhs_row}, along(inner)}, {}, ir::kNoValue};
    b.begin_phase({batch, am, an}, true).contraction = c;
    const ir::DType compute = ir::info(t).compute;
    const ir::KValue y = b.add(b.product(compute), b.constant(compute, 1));
    b.store(
        {out,
         ir::kNoArg,
         {{batch, ir::StrideClass::Strided, out_batch}, {am, ir::StrideClass::Strided, out_row}, along(an)},
         {},
         ir::kNoValue},
        b.cast(y, t));
    b.end_phase();
    return {b.take(), {2, m, n, k, m * k, k, turned ? k : n, m * n, n}, {}, {2 * m * k, n * k, 2 * m * n}, 0};
}

/// out[r, c] = in[c, r] + 1.
inline Launch transpose_kernel(int64_t rows, int64_t columns) {
    ir::KernelBuilder b("transpose");
    const ir::AxisId r = b.axis(), c = b.axis();
    const ir::ArgId in_row = b.arg(ir::ArgRole::Stride), out_row = b.arg(ir::ArgRole::Stride);
    const uint16_t in = b.buffer(ir::DType::I32, ir::BufferMode::In),
                   out = b.buffer(ir::DType::I32, ir::BufferMode::Out);
    b.begin_phase({r, c}, true);
    const ir::KValue x =
        b.load({in, ir::kNoArg, {along(r), {c, ir::StrideClass::Strided, in_row}}, {}, ir::kNoValue});
    b.store({out, ir::kNoArg, {{r, ir::StrideClass::Strided, out_row}, along(c)}, {}, ir::kNoValue},
            b.add(x, b.constant(ir::DType::I32, 1)));
    b.end_phase();
    return {b.take(), {rows, columns, rows, columns}, {}, {rows * columns, rows * columns}, 0};
}

} // namespace lz::test
