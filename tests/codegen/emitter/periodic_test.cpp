// Indices that begin again: all elements of a matrix with a row, a column, or both of them.
#include "ir/kernel/builder.h"
#include "tests/support/kernel_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

struct Matrix {
    DType dtype;
    int64_t rows, columns;
    bool in_a_row = true, in_a_column = true; ///< what is read beside the matrix
    int64_t stride = 1;                       ///< between elements of the column
    int extra = 0;                            ///< operations more
    int64_t chunk = 0;                        ///< 0: nothing is reduced
    bool some = false;                        ///< only where the matrix is positive are the others read
};

Launch over_all_elements(const Matrix &m) {
    KernelBuilder b;
    const AxisId grid = b.axis(), i = b.axis();
    const ArgId period = b.arg(ArgRole::Other), stride = b.arg(ArgRole::Stride),
                block = b.arg(ArgRole::Block);
    const uint16_t matrix = b.buffer(m.dtype, BufferMode::In), row = b.buffer(m.dtype, BufferMode::In);
    const uint16_t column = b.buffer(m.dtype, BufferMode::In), out = b.buffer(m.dtype, BufferMode::Out);
    const bool reduces = m.chunk != 0;
    Phase &phase = reduces ? b.begin_phase({grid}, false) : b.begin_phase({i}, true);
    if (!reduces)
        phase.on_cpu().block = block;
    const uint32_t loop = reduces ? b.begin_loop(i, LoopOrder::Lanes, m.chunk) : 0;
    const DType inside = is_half(m.dtype) ? DType::F32 : m.dtype;
    const auto load = [&](const Access &access) { return b.cast(b.load(access), inside); };
    const KValue x = load(contiguous(matrix, i));
    const KValue some = m.some ? b.gt(x, b.constant(inside, 0)) : kNoValue;
    const KValue by = b.arg_value(period);
    KValue y = x;
    if (m.in_a_row) {
        const KValue place = b.emit(KOp::Rem, DType::I64, b.axis_index(i), by);
        y = b.add(y, load({row, kNoArg, {}, {{place, kNoArg}}, some}));
    }
    if (m.in_a_column) {
        const KValue place = b.emit(KOp::Div, DType::I64, b.axis_index(i), by);
        y = b.mul(y, load({column, kNoArg, {}, {{place, m.stride == 1 ? kNoArg : stride}}, some}));
    }
    for (int e = 0; e < m.extra; ++e)
        y = b.add(b.mul(y, y), b.constant(inside, 0.25));
    if (reduces) {
        const uint32_t sum = b.reduce(ReduceOp::Add, y, kNoValue);
        b.end_loop();
        b.store(contiguous(out, grid), b.cast(b.loop_result(loop, sum), m.dtype));
    } else {
        b.store(contiguous(out, i), b.cast(y, m.dtype));
    }
    b.end_phase();
    const int64_t n = m.rows * m.columns - m.columns / 3; // the last row is not whole
    Launch l{b.take(), {1, n, m.columns, m.stride, 96}, {}, {}, 0};
    l.elements = {n, m.columns, (m.rows - 1) * m.stride + 1, reduces ? 1 : n};
    return l;
}

void expect_matrix(const Matrix &m) {
    expect_equal(over_all_elements(m), fmt::format("{} {}x{}", name(m.dtype), m.rows, m.columns));
}

TEST(EmitterPeriodic, SumsOfAllElementsWithARowOrAColumn) {
    for (const int64_t columns : {1, 3, 15, 16, 17, 64, 100, 1000, 40000}) // the last does not fit 16 bits
        for (const int extra : {0, 20}) {
            const int64_t rows = columns > 1000 ? 2 : 37;
            expect_matrix({DType::F32, rows, columns, true, false, 1, extra, 1024});
            expect_matrix({DType::F32, rows, columns, false, true, 1, extra, 1024});
            expect_matrix({DType::F32, rows, columns, true, true, 3, extra, 64});
        }
}

TEST(EmitterPeriodic, ElementsOfEveryTypeWithARowAndAColumn) {
    for (const DType t : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I16,
                          DType::I8, DType::U8})
        for (const int64_t columns : {1, 3, 17, 64, 100})
            expect_matrix({t, 6, columns, true, true, columns == 3 ? 2 : 1});
    for (const DType t : {DType::F64, DType::BF16, DType::I64})
        for (const int64_t columns : {2, 63, 100})
            expect_matrix({t, 6, columns, true, true, 2, 1, 128});
}

TEST(EmitterPeriodic, WhatAPredicateLeavesOutIsNotRead) {
    for (const int64_t columns : {1, 5, 16, 100, 300}) {
        expect_matrix({DType::F32, 5, columns, true, true, 1, 0, 0, true});
        expect_matrix({DType::F32, 5, columns, true, true, 1, 0, 1024, true});
        expect_matrix({DType::F64, 5, columns, true, true, 2, 20, 1024, true});
    }
}

} // namespace
} // namespace lz::test
