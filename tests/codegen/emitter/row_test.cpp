#include "ir/kernel/builder.h"
#include "tests/support/kernel_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

/// How a matrix is reduced: over its contiguous axis in rows, or over the other one; SideBySide: rows that
/// are columns of the matrix, and neighbours in a register.
enum class Form { Row, Column, AcrossVector, SideBySide };

struct Case {
    ReduceOp op;
    DType dtype;
    int64_t rows, columns;
    LoopOrder order = LoopOrder::Lanes;
    int64_t chunk = 0;
    bool bounds = false;
    Form form = Form::Row;
    InnerTier inner = InnerTier::Any;
    int extra = 0; ///< operations before the reduction
    int64_t block = 48;
    bool zeros = false; ///< of the elements' signs
    bool one_chunk = false;
};

Launch reduction(const Case &c) {
    KernelBuilder b;
    const AxisId r = b.axis(), i = b.axis();
    const ArgId step = b.arg(ArgRole::Stride), block = b.arg(ArgRole::Block);
    const ArgId from = b.arg(ArgRole::Other), to = b.arg(ArgRole::Other);
    const uint16_t in = b.buffer(c.dtype, BufferMode::In);
    const bool arg = c.op == ReduceOp::ArgMax || c.op == ReduceOp::ArgMin;
    const uint16_t out = b.buffer(c.dtype, BufferMode::Out);
    const uint16_t where = b.buffer(DType::I64, BufferMode::Out);
    const bool columns = c.form == Form::Column || c.form == Form::SideBySide;
    const AxisId kept = columns ? i : r, folded = columns ? r : i;
    Phase &phase = b.begin_phase({kept}, c.form == Form::Column || c.form == Form::AcrossVector);
    phase.on_cpu().across = c.form == Form::SideBySide;
    phase.on_cpu().inner = c.inner;
    phase.on_cpu().one_chunk = c.one_chunk;
    if (c.form != Form::Row)
        phase.on_cpu().block = block;
    const KValue begin = c.bounds ? b.arg_value(from) : kNoValue, end = c.bounds ? b.arg_value(to) : kNoValue;
    const uint32_t loop = b.begin_loop(folded, c.order, c.chunk, begin, end);
    KValue x = b.load(
        {in, kNoArg, {{r, StrideClass::Strided, step}, {i, StrideClass::Contiguous, kNoArg}}, {}, kNoValue});
    for (int e = 0; e < c.extra; ++e)
        x = b.add(b.mul(x, x), b.constant(c.dtype, 0.25));
    if (c.zeros)
        x = b.mul(x, b.constant(c.dtype, 0));
    const KValue index = arg ? b.axis_index(folded) : kNoValue;
    const uint32_t red = b.reduce(c.op, x, index);
    b.end_loop();
    b.store(contiguous(out, kept), b.loop_result(loop, red));
    if (arg)
        b.store(contiguous(where, kept), b.loop_result(loop, red, 1));
    b.end_phase();
    const int64_t length = columns ? c.rows : c.columns;
    Launch l{
        b.take(), {c.rows, c.columns, c.columns + 1, c.block, length / 5, length - length / 7}, {}, {}, 0};
    const int64_t outputs = columns ? c.columns : c.rows;
    l.elements = {c.rows * (c.columns + 1), outputs, outputs};
    return l;
}

void expect_reduction(const Case &c) {
    static constexpr const char *ops[] = {"add", "mul", "max", "min", "argmax", "argmin"};
    expect_equal(reduction(c), std::string(ops[static_cast<int>(c.op)]) + " of " +
                                   std::string(name(c.dtype)) + " " + std::to_string(c.rows) + "x" +
                                   std::to_string(c.columns) +
                                   (c.order == LoopOrder::Lanes ? " lanes" : " sequential"));
}

constexpr ReduceOp kOps[] = {ReduceOp::Add, ReduceOp::Mul,    ReduceOp::Max,
                             ReduceOp::Min, ReduceOp::ArgMax, ReduceOp::ArgMin};
constexpr DType kTypes[] = {DType::F32, DType::F64, DType::I64, DType::I32};
/// Where the vector is the grid, loops are sequential.
constexpr std::pair<LoopOrder, Form> kOrders[] = {{LoopOrder::Lanes, Form::Row},
                                                  {LoopOrder::Sequential, Form::Row},
                                                  {LoopOrder::Sequential, Form::Column},
                                                  {LoopOrder::Sequential, Form::AcrossVector}};

TEST(EmitterReduce, LanesFoldInTheDocumentedOrderAtEveryLength) {
    for (const int64_t n : {0, 1, 2, 15, 16, 17, 63, 64, 65, 200, 1000})
        for (const DType t : {DType::F32, DType::F64})
            expect_reduction({ReduceOp::Add, t, 3, n});
    for (const ReduceOp op : kOps)
        for (const DType t : kTypes)
            expect_reduction({op, t, 3, 150});
}

/// What is left of whole steps of short rows is folded in registers: any number of them, and lanes of one.
TEST(EmitterReduce, WhatShortRowsLeaveOfWholeStepsIsFoldedInRegisters) {
    const auto fold = [](ReduceOp op, DType t, int64_t n, bool zeros) {
        expect_reduction({op, t, 3, n, LoopOrder::Lanes, chunk_of(LoopOrder::Lanes), false, Form::Row,
                          InnerTier::Any, static_cast<int>(n % 3), 48, zeros, true});
    };
    for (const int64_t n : {1, 7, 8, 23, 31, 32, 33, 40, 48, 57, 63, 64, 72, 97, 127})
        fold(ReduceOp::Add, n % 2 == 0 ? DType::F64 : DType::F32, n, n % 5 == 0);
    int64_t n = 23;
    for (const ReduceOp op : kOps)
        for (const DType t : {DType::F32, DType::F64, DType::I64, DType::U8})
            fold(op, t, n += 4, false);
}

TEST(EmitterReduce, LongBodiesFoldInTheSameOrder) {
    const auto fold = [](ReduceOp op, DType t, int64_t n, int64_t chunk, int extra) {
        expect_reduction({op, t, 3, n, LoopOrder::Lanes, chunk, false, Form::Row, InnerTier::Any, extra});
    };
    for (const int extra : {9, 20}) {
        for (const int64_t n : {0, 1, 17, 63, 64, 65, 127, 200, 1000})
            for (const ReduceOp op : {ReduceOp::Add, ReduceOp::ArgMax})
                fold(op, DType::F32, n, 0, extra);
        for (const DType t : {DType::F64, DType::I64, DType::I32, DType::I16, DType::U8, DType::I8})
            for (const ReduceOp op : {ReduceOp::Max, ReduceOp::Min})
                fold(op, t, 301, 0, extra);
        for (const DType t : kTypes)
            for (const ReduceOp op : kOps)
                fold(op, t, 301, 100, extra);
    }
}

TEST(EmitterReduce, ExtremesOfZerosDoNotDependOnTheOrder) {
    for (const ReduceOp op : {ReduceOp::Max, ReduceOp::Min})
        for (const DType t : {DType::F32, DType::F64})
            for (const auto &[order, form] : kOrders)
                for (const int64_t n : {1, 2, 3, 5, 150})
                    expect_reduction({op, t, 40, n, order, 0, false, form, InnerTier::Any, 0, 48, true});
}

TEST(EmitterReduce, ChunksAreFoldedByThemselvesFirst) {
    for (const int64_t chunk : {2, 3, 50, 64, 128, 299, 300})
        for (const ReduceOp op : {ReduceOp::Add, ReduceOp::ArgMin})
            for (const auto &[order, form] : kOrders)
                expect_reduction({op, DType::F32, 70, 300, order, chunk, false, form});
    for (const DType t : kTypes)
        for (const ReduceOp op : {ReduceOp::Add, ReduceOp::Mul})
            for (const auto &[order, form] : kOrders)
                expect_reduction({op, t, 20, 300, order, 7, false, form});
}

TEST(EmitterReduce, ResultsOfChunksAreFoldedByTheSameRuleToAnyDepth) {
    // 8 and 9, 64 and 65, 512 and 513 chunks' elements fill levels, or begin a further one.
    for (const int64_t n :
         {0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 72, 73, 511, 512, 513, 576, 577, 4096, 4097, 5000})
        for (const auto &[order, form] : kOrders)
            expect_reduction({ReduceOp::Add, DType::F32, 3, n, order, 8, false, form});
    for (const auto &[order, form] : kOrders)
        expect_reduction({ReduceOp::Add, DType::F64, 3, 100000, order, 10, false, form});
}

TEST(EmitterReduce, BoundsCountElementsFromTheBegin) {
    for (const auto &[order, form] : kOrders)
        expect_reduction({ReduceOp::Add, DType::F32, 40, 300, order, 64, true, form});
}

TEST(EmitterReduce, ColumnsAreFoldedInVectors) {
    for (const int64_t n : {1, 15, 16, 100, 300})
        for (const ReduceOp op : kOps)
            expect_reduction({op, DType::F32, 20, n, LoopOrder::Sequential, 0, false, Form::Column});
    for (const DType t : kTypes)
        expect_reduction({ReduceOp::Add, t, 20, 100, LoopOrder::Sequential, 0, false, Form::Column});
}

/// Results past the caches, of rows that need not be aligned where the first one is.
TEST(EmitterReduce, RowsThatAreStoredWhileTheirColumnsAreFoldedMayBeginAnywhere) {
    for (const DType t : {DType::F32, DType::F64, DType::I32})
        for (const int64_t columns : {1, 16, 100, 128, 1000})
            for (const int64_t pitch : {int64_t{0}, int64_t{1}, int64_t{8}})
                for (const bool sum_too : {true, false}) {
                    KernelBuilder b;
                    const AxisId r = b.axis(), i = b.axis();
                    const ArgId step = b.arg(ArgRole::Stride);
                    const uint16_t in = b.buffer(t, BufferMode::In), out = b.buffer(t, BufferMode::Out),
                                   sums = b.buffer(t, BufferMode::Out);
                    const auto rows_of = [&](uint16_t buffer) {
                        return Access{buffer,
                                      kNoArg,
                                      {{r, StrideClass::Strided, step}, {i, StrideClass::Contiguous, kNoArg}},
                                      {},
                                      kNoValue};
                    };
                    b.begin_phase({i}, true).on_cpu().stores = StoreTier::Streaming;
                    const uint32_t loop = b.begin_loop(r, LoopOrder::Sequential);
                    const KValue x = b.load(rows_of(in));
                    b.store(rows_of(out), x);
                    const uint32_t largest = b.reduce(ReduceOp::Max, x, kNoValue);
                    b.end_loop();
                    if (sum_too)
                        b.store(contiguous(sums, i), b.loop_result(loop, largest));
                    b.end_phase();
                    const int64_t width = (columns + 63) / 64 * 64 + pitch;
                    Launch l{b.take(), {5, columns, width}, {}, {}, 0};
                    l.elements = {5 * width, 5 * width, columns};
                    expect_equal(l, "rows of " + std::to_string(columns) + " " + std::string(name(t)) + ", " +
                                        std::to_string(width) + " apart");
                }
}

TEST(EmitterReduce, RowsSideBySideFoldInLanesToo) {
    const auto fold = [](ReduceOp op, DType t, int64_t length, int64_t outputs, int64_t chunk,
                         int extra = 0) {
        expect_reduction({op, t, length, outputs, LoopOrder::Lanes, chunk, false, Form::SideBySide,
                          InnerTier::Any, extra});
    };
    for (const int64_t n : {0, 1, 2, 31, 33, 63, 64, 65, 200})
        for (const DType t : {DType::F32, DType::F64})
            fold(ReduceOp::Add, t, n, 150, 0);
    for (const ReduceOp op : kOps)
        for (const DType t : kTypes)
            for (const int64_t outputs : {1, 17, 300})
                fold(op, t, 150, outputs, op == ReduceOp::Add || op == ReduceOp::Mul ? 64 : 0);
    // Results of chunks fill their lanes more than once; bodies of one part.
    for (const int64_t n : {0, 63, 64, 65, 128, 129, 64 * 33 + 5, 64 * 64})
        fold(ReduceOp::Add, DType::F32, n, 40, 64);
    fold(ReduceOp::Add, DType::F32, 1024 * 70 + 3, 20, 1024);
    fold(ReduceOp::Mul, DType::F64, 700, 130, 64, 20);
    expect_reduction(
        {ReduceOp::Add, DType::F32, 500, 70, LoopOrder::Lanes, 64, true, Form::SideBySide, InnerTier::Any});
    // What is larger than caches is walked down the rows, not lane by lane.
    fold(ReduceOp::Add, DType::F32, 67, (1 << 20) / 67, 0); // a stride is an element longer
    fold(ReduceOp::Mul, DType::F64, 129, 4100, 0);
}

TEST(EmitterReduce, TinyRowsTakeOneRegister) {
    for (const int64_t n : {2, 7, 16})
        for (const ReduceOp op : kOps)
            for (const DType t : {DType::F32, DType::F64})
                expect_reduction({op, t, 5, n, LoopOrder::Lanes, 0, false, Form::Row, InnerTier::Tiny});
    for (const ReduceOp op : kOps)
        expect_reduction({op, DType::F32, 5, 1, LoopOrder::Lanes, 0, false, Form::Row});
}

/// From the last element of the last row on.
TEST(EmitterReduce, RowsAreReadBackwards) {
    const auto backwards = [](DType t, StrideClass cls, int64_t n) {
        KernelBuilder b;
        const AxisId r = b.axis(), i = b.axis();
        const ArgId up = b.arg(ArgRole::Stride), left = b.arg(ArgRole::Stride), last = b.arg(ArgRole::Offset);
        const uint16_t in = b.buffer(t, BufferMode::In), out = b.buffer(info(t).accumulate, BufferMode::Out);
        b.begin_phase({r}, false);
        const uint32_t loop = b.begin_loop(i, LoopOrder::Lanes, is_float(t) ? kLaneChunk : 0);
        const KValue x = b.load({in, last, {{r, StrideClass::Strided, up}, {i, cls, left}}, {}, kNoValue});
        b.reduce(ReduceOp::Add, b.cast(x, info(t).accumulate));
        b.end_loop();
        b.store(contiguous(out, r), b.loop_result(loop, 0));
        b.end_phase();
        expect_equal({b.take(), {3, n, -n, -1, 3 * n - 1}, {}, {3 * n, 3}, 0},
                     std::string(name(t)) + " rows of " + std::to_string(n) + " backwards");
    };
    for (const DType t : {DType::F32, DType::BF16, DType::I32})
        for (const StrideClass cls : {StrideClass::Strided, StrideClass::Reversed})
            for (const int64_t n : {7, 100, 3000})
                backwards(t, cls, n);
}

TEST(EmitterReduce, BoolsAndSmallIntegersFoldToo) {
    for (const DType t : {DType::Bool, DType::U8, DType::I8, DType::I16})
        for (const ReduceOp op : {ReduceOp::Max, ReduceOp::Min})
            for (const Form form : {Form::Row, Form::Column})
                expect_reduction({op, t, 9, 300, form == Form::Row ? LoopOrder::Lanes : LoopOrder::Sequential,
                                  0, false, form});
}

/// x / sum of x * x, over the row's larger elements: two dependent loops, a Worker buffer, then a loop that
/// stores.
/// What is folded is a literal, which has a type of its own in CUDA C++, or the place on the axis.
TEST(EmitterReduce, ConstantsAndPlacesFoldToo) {
    const auto folded = [](LoopOrder order, ReduceOp op, DType t, bool place) {
        KernelBuilder b;
        const AxisId r = b.axis(), i = b.axis();
        const uint16_t out = b.buffer(t, BufferMode::Out);
        b.begin_phase({r}, false);
        const uint32_t loop =
            b.begin_loop(i, order, order == LoopOrder::Lanes ? kLaneChunk : kSequentialChunk);
        b.reduce(op, place ? b.axis_index(i) : b.constant(t, 1.0));
        b.end_loop();
        b.store(contiguous(out, r), b.loop_result(loop, 0));
        b.end_phase();
        return Launch{b.take(), {3, 300}, {}, {3}, 0};
    };
    for (const LoopOrder order : {LoopOrder::Lanes, LoopOrder::Sequential})
        for (const ReduceOp op : {ReduceOp::Add, ReduceOp::Mul, ReduceOp::Max, ReduceOp::Min}) {
            const std::string what = fmt::format("{} {}", static_cast<int>(op),
                                                 order == LoopOrder::Lanes ? "lanes" : "sequential");
            for (const DType t : {DType::U8, DType::I8, DType::I16, DType::I32, DType::I64, DType::F32,
                                  DType::F64, DType::Bool})
                expect_equal(folded(order, op, t, false), what + " of ones of " + std::string(name(t)));
            expect_equal(folded(order, op, DType::I64, true), what + " of places");
        }
}

TEST(EmitterRow, LoopsOfARowSeeEachOthersResultsAndBuffers) {
    for (const int64_t n : {1, 16, 70, 333}) {
        for (const StoreTier stores : {StoreTier::Cached, StoreTier::Streaming}) {
            KernelBuilder b;
            const AxisId r = b.axis(), i = b.axis();
            const ArgId step = b.arg(ArgRole::Stride), scratch = b.arg(ArgRole::Offset);
            const uint16_t in = b.buffer(DType::F32, BufferMode::In),
                           out = b.buffer(DType::F32, BufferMode::Out);
            const uint16_t row = b.buffer(DType::F32, BufferMode::Worker, scratch);
            const uint16_t count = b.buffer(DType::I64, BufferMode::Out);
            const auto at = [&](uint16_t buffer) {
                return Access{buffer,
                              kNoArg,
                              {{r, StrideClass::Strided, step}, {i, StrideClass::Contiguous, kNoArg}},
                              {},
                              kNoValue};
            };
            b.begin_phase({r}, false).on_cpu().stores = stores;
            const uint32_t first = b.begin_loop(i, LoopOrder::Lanes);
            b.reduce(ReduceOp::Max, b.load(at(in)));
            b.end_loop();
            const KValue half = b.mul(b.loop_result(first, 0), b.constant(DType::F32, 0.5));
            const uint32_t second = b.begin_loop(i, LoopOrder::Lanes, 128);
            const KValue x = b.load(at(in));
            const KValue large = b.gt(x, half);
            const KValue picked = b.select(large, x, b.constant(DType::F32, 0.125));
            b.store(contiguous(row, i), picked);
            b.reduce(ReduceOp::Add, b.mul(picked, picked));
            b.reduce(ReduceOp::Add, b.cast(large, DType::I64));
            b.end_loop();
            const KValue sum = b.loop_result(second, 0);
            b.begin_loop(i, LoopOrder::Lanes);
            b.store(at(out), b.div(b.load(contiguous(row, i)), sum));
            b.end_loop();
            b.store(contiguous(count, r), b.loop_result(second, 1));
            b.end_phase();
            const Launch l{b.take(),
                           {7, n, n + 3, 64},
                           {},
                           {7 * (n + 3), 7 * (n + 3), n, 7},
                           static_cast<size_t>(4 * n + 64)};
            expect_equal(l, "row kernel");
        }
    }
}

TEST(EmitterRow, ALoopAroundLanesFoldsTwoAxes) {
    for (const LoopOrder outer : {LoopOrder::Sequential}) {
        KernelBuilder b;
        const AxisId r = b.axis(), j = b.axis(), i = b.axis();
        const ArgId step = b.arg(ArgRole::Stride), plane = b.arg(ArgRole::Stride);
        const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::Out);
        b.begin_phase({r}, false);
        const uint32_t around = b.begin_loop(j, outer);
        const uint32_t inside = b.begin_loop(i, LoopOrder::Lanes);
        b.reduce(ReduceOp::Add, b.load({in,
                                        kNoArg,
                                        {{r, StrideClass::Strided, plane},
                                         {j, StrideClass::Strided, step},
                                         {i, StrideClass::Contiguous, kNoArg}},
                                        {},
                                        kNoValue}));
        b.end_loop();
        b.reduce(ReduceOp::Add, b.loop_result(inside, 0));
        b.end_loop();
        b.store(contiguous(out, r), b.loop_result(around, 0));
        b.end_phase();
        expect_equal({b.take(), {4, 5, 100, 100, 500}, {}, {2000, 4}, 0}, "two axes");
    }
}

TEST(EmitterRow, TwoPhasesGiveTheBitsOfOneLoopWithChunks) {
    const auto whole = [](int64_t n) {
        return reduction({ReduceOp::Add, DType::F32, 1, n, LoopOrder::Lanes, 128});
    };
    const auto split = [](int64_t n) {
        KernelBuilder b;
        const AxisId i = b.axis(), c = b.axis(), one = b.axis();
        const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::Out);
        const uint16_t partials = b.buffer(DType::F32, BufferMode::Temp);
        b.begin_phase({c}, false);
        const KValue begin = b.mul(b.axis_index(c), b.constant_int(DType::I64, 128));
        const KValue end =
            b.minimum(b.add(begin, b.constant_int(DType::I64, 128)), b.arg_value(b.kernel().axes[i].extent));
        const uint32_t first = b.begin_loop(i, LoopOrder::Lanes, 0, begin, end);
        b.reduce(ReduceOp::Add, b.load(contiguous(in, i)));
        b.end_loop();
        b.store(contiguous(partials, c), b.loop_result(first, 0));
        b.end_phase();
        b.begin_phase({one}, false);
        const uint32_t second = b.begin_loop(c, LoopOrder::Sequential);
        b.reduce(ReduceOp::Add, b.load(contiguous(partials, c)));
        b.end_loop();
        b.store(contiguous(out, one), b.loop_result(second, 0));
        b.end_phase();
        return Launch{b.take(), {n, (n + 127) / 128, 1}, {}, {n + 1, 1, (n + 127) / 128}, 0};
    };
    for (const int64_t n : {1, 128, 1000}) {
        const Launch two = split(n);
        expect_equal(two, "two phases");
        const Outcome a = run_compiled(whole(n), codegen::host_isa()),
                      b = run_compiled(two, codegen::host_isa());
        EXPECT_EQ(std::memcmp(a.buffers[1].data(), b.buffers[1].data(), 4), 0);
    }
}

} // namespace
} // namespace lz::test
