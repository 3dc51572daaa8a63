#pragma once
/// Kernels that the tests of Kernel IR share.

#include "ir/kernel/builder.h"

#include <cmath>
#include <limits>
#include <vector>

namespace lz::ir::test {

inline Access dense(uint16_t buffer, std::vector<AxisStride> strides) {
    Access a;
    a.buffer = buffer;
    a.strides = std::move(strides);
    return a;
}
inline AxisStride contiguous(AxisId axis) {
    return {axis, StrideClass::Contiguous, kNoArg};
}
inline AxisStride strided(AxisId axis, ArgId stride) {
    return {axis, StrideClass::Strided, stride};
}

/// out[i0, i1] = softmax over i1 of in[i0, i1]; arguments: rows, columns, row stride.
inline Kernel softmax() {
    KernelBuilder b("softmax");
    const AxisId i0 = b.axis(), i1 = b.axis();
    const ArgId stride = b.arg(ArgRole::Stride), place = b.arg(ArgRole::Offset);
    const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::Out),
                   tmp = b.buffer(DType::F32, BufferMode::Worker, place);
    const Access x = dense(in, {strided(i0, stride), contiguous(i1)});
    b.set_source(3);
    b.begin_phase({i0}, false);
    const uint32_t l0 = b.begin_loop(i1, LoopOrder::Lanes, kLaneChunk);
    b.reduce(ReduceOp::Max, b.load(x));
    b.end_loop();
    const KValue m = b.loop_result(l0, 0);
    const uint32_t l1 = b.begin_loop(i1, LoopOrder::Lanes, kLaneChunk);
    const KValue e = b.exp(b.sub(b.load(x), m));
    b.store(dense(tmp, {contiguous(i1)}), e);
    b.reduce(ReduceOp::Add, e);
    b.end_loop();
    const KValue s = b.loop_result(l1, 0);
    b.begin_loop(i1, LoopOrder::Lanes);
    b.store(dense(out, {strided(i0, stride), contiguous(i1)}),
            b.div(b.load(dense(tmp, {contiguous(i1)})), s));
    b.end_loop();
    b.end_phase();
    return b.take();
}

/// Rows of a table by checked indices, padded: out[i0, i1] = i1 < width ? table[index[i0], i1] + scalar :
/// scalar.
inline Kernel gather() {
    KernelBuilder b("gather rows"); // not a word: printed in quotes
    const AxisId i0 = b.axis(), i1 = b.axis();
    const ArgId rows = b.arg(ArgRole::Extent), width = b.arg(ArgRole::Extent), row = b.arg(ArgRole::Stride),
                block = b.arg(ArgRole::Block), offset = b.arg(ArgRole::Offset);
    const uint16_t table = b.buffer(DType::F16, BufferMode::In), index = b.buffer(DType::I64, BufferMode::In),
                   out = b.buffer(DType::F16, BufferMode::Out);
    const uint32_t scalar = b.scalar(DType::F16);
    Phase &phase = b.begin_phase({i0, i1}, true);
    phase.on_cpu().block = block;
    phase.on_cpu().inner = InnerTier::Tiny;
    phase.on_cpu().stores = StoreTier::Streaming;
    const KValue at = b.check_index(b.load(dense(index, {contiguous(i0)})), b.arg_value(rows));
    Access x = dense(table, {contiguous(i1)});
    x.offset = offset;
    x.terms = {{at, row}};
    x.predicate = b.lt(b.axis_index(i1), b.arg_value(width));
    const KValue sum = b.add(b.cast(b.load(x), DType::F32), b.scalar_value(scalar));
    b.store(dense(out, {strided(i0, width), contiguous(i1)}), b.cast(sum, DType::F16));
    b.end_phase();
    return b.take();
}

/// Position and value of each row's largest element.
inline Kernel arg_max() {
    KernelBuilder b("argmax");
    const AxisId i0 = b.axis(), i1 = b.axis();
    const uint16_t in = b.buffer(DType::F32, BufferMode::In), where = b.buffer(DType::I64, BufferMode::Out),
                   what = b.buffer(DType::F32, BufferMode::Out);
    const ArgId row = b.arg(ArgRole::Stride);
    b.begin_phase({i0}, false);
    const uint32_t loop = b.begin_loop(i1, LoopOrder::Lanes);
    const KValue x = b.load(dense(in, {strided(i0, row), contiguous(i1)}));
    b.reduce(ReduceOp::ArgMax, x, b.axis_index(i1));
    b.end_loop();
    b.store(dense(where, {contiguous(i0)}), b.loop_result(loop, 0, 1));
    b.store(dense(what, {contiguous(i0)}), b.loop_result(loop, 0, 0));
    b.end_phase();
    return b.take();
}

/// relu(lhs [m,k] * rhs [k,n]), dense.
inline Kernel product() {
    KernelBuilder b("product");
    const AxisId m = b.axis(), n = b.axis(), k = b.axis();
    const ArgId first = b.arg(ArgRole::Block);
    for (int i = 1; i < kContractionArgs; ++i)
        b.arg(ArgRole::Block);
    const ArgId place = b.arg(ArgRole::Offset);
    const ArgId columns = b.kernel().axes[n].extent, depth = b.kernel().axes[k].extent;
    const uint16_t lhs = b.buffer(DType::F32, BufferMode::In), rhs = b.buffer(DType::F32, BufferMode::In),
                   out = b.buffer(DType::F32, BufferMode::Out),
                   scratch = b.buffer(DType::F32, BufferMode::Worker, place);
    Phase &phase = b.begin_phase({m, n}, true);
    Contraction c{
        .m = m, .n = n, .k = k, .dtype = DType::F32, .accumulate = DType::F32, .lhs = {}, .rhs = {}};
    c.lhs = dense(lhs, {strided(m, depth), contiguous(k)});
    c.rhs = dense(rhs, {strided(k, columns), contiguous(n)});
    phase.contraction = c;
    phase.on_cpu().mr = 8;
    phase.on_cpu().nr = 32;
    phase.on_cpu().blocks = first;
    phase.on_cpu().scratch = scratch;
    b.store(dense(out, {strided(m, columns), contiguous(n)}),
            b.maximum(b.product(DType::F32), b.constant(DType::F32, 0)));
    b.end_phase();
    return b.take();
}

/// The product of the windows of an image [c,y,x], 3 x 3 of them, and rhs [k,n]: windows are rows, of which
/// digits say where they stand; rhs has what is multiplied by turns of an image, from the last to the first.
inline Kernel convolution() {
    Kernel kernel = product();
    Contraction &c = *kernel.phases[0].contraction;
    const auto arg = [&](ArgRole role) {
        kernel.args.push_back({role});
        return static_cast<ArgId>(kernel.args.size() - 1);
    };
    const auto digits = [&](std::initializer_list<AxisId> axes) {
        std::vector<ContractionDigit> all;
        for (const AxisId axis : axes) {
            const ArgId extent = arg(ArgRole::Extent);
            all.push_back({axis, extent, arg(ArgRole::Stride)});
        }
        return all;
    };
    c.lhs.offset = arg(ArgRole::Offset);
    c.lhs.strides.clear();
    c.lhs_digits = digits({c.m, c.m, c.k, c.k, c.k});
    std::erase_if(c.rhs.strides, [&](const AxisStride &s) { return s.axis == c.k; });
    c.rhs_digits = digits({c.k, c.k});
    return kernel;
}

/// Constants of every dtype, among them those whose text has to be exact.
inline Kernel constants() {
    KernelBuilder b("constants");
    const AxisId i0 = b.axis(), i1 = b.axis();
    const ArgId block = b.arg(ArgRole::Block), tile = b.arg(ArgRole::Block);
    Phase &phase = b.begin_phase({i0, i1}, true);
    phase.on_cpu().block = block;
    phase.on_cpu().tile_axis = i0;
    phase.on_cpu().tile_block = tile;
    for (int t = 0; t < kNumDTypes; ++t)
        for (const double v : {0.0, -0.0, 1.0, 0.1, 3.4e38, 1e-45, -1e300, 5e-324})
            if (is_float(static_cast<DType>(t)) || v == 0 || v == 1)
                b.constant(static_cast<DType>(t), v);
    for (const DType t : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
        b.constant(t, HUGE_VAL);
        b.constant(t, -HUGE_VAL);
        b.constant(t, std::numeric_limits<double>::quiet_NaN());
        const KValue odd = b.constant(t, std::numeric_limits<double>::quiet_NaN());
        b.kernel().instrs[odd].bits |= 1; // a NaN with a payload
    }
    for (const DType t : {DType::U8, DType::I8, DType::I16, DType::I32, DType::I64})
        for (const int64_t v : {int64_t{-1}, INT64_MIN, INT64_MAX})
            b.constant_int(t, v);
    b.end_phase();
    return b.take();
}

/// Some of the above as CUDA devices do them, one of each shape.
inline std::vector<Kernel> cuda_samples() {
    std::vector<Kernel> all = {gather(), softmax(), softmax(), product(), constants()};
    for (Kernel &kernel : all)
        kernel.phases[0].schedule = {};
    CudaSchedule &points = all[0].phases[0].on_cuda();
    points.vector = 4;
    points.unroll = 2;
    points.stores = StoreTier::Streaming;
    points.segments = SegmentTier::Table;
    CudaSchedule &rows = all[1].phases[0].on_cuda();
    rows.shape = CudaShape::Rows;
    rows.row_threads = 64;
    rows.row_elements = 1024;
    rows.tier = RowTier::Registers;
    rows.index32 = true;
    rows.aligned = false;
    CudaSchedule &long_rows = all[2].phases[0].on_cuda();
    long_rows.shape = CudaShape::Rows;
    long_rows.threads = long_rows.row_threads = 512;
    long_rows.most_blocks = 264;
    long_rows.scratch = static_cast<uint16_t>(all[2].buffers.size());
    long_rows.scratch_bytes = static_cast<ArgId>(all[2].args.size());
    all[2].buffers.push_back({DType::U8, BufferMode::Temp});
    all[2].args.push_back({ArgRole::Stride});
    CudaSchedule &tiles = all[3].phases[0].on_cuda();
    tiles.shape = CudaShape::Product;
    tiles.tile_m = 64;
    tiles.tile_n = 32;
    all[4].phases[0].on_cuda().shape = CudaShape::Tiles;
    all[4].phases[0].on_cuda().tile_axis = 0;
    all[4].phases[0].on_cuda().tile_m = all[4].phases[0].on_cuda().tile_n = 32;
    return all;
}

/// Sums of columns, whose rows two work items share and read whole, as text.
inline const char *columns_text() {
    return R"(lazuli 1
kernel @columns {
  args a0: extent, a1: extent, a2: extent, a3: stride, a4: block, a5: offset, a6: extent
  buffers b0: in f32, b1: temp f32, b2: worker u8 at a5
  axes i0: a0, i1: a1, i2: a2, i3: a6
  phase [i0, i3, i2] scalar cpu block a4 across whole-rows 1 in b2 {
    %0 = axis i0 : i64
    %1 = arg a1 : i64
    loop l0 i1 lanes from %0 to %1 step 2 {
      %2 = load b0[i1 * a3 + i2] : f32
      reduce add %2 : f32
    }
    %3 = loop_result l0, 0 : f32
    store %3, b1[i0 * a3 + i2] : f32
  }
}
)";
}

} // namespace lz::ir::test
