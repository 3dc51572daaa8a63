/// Rows side by side that are read in the order of memory, which only code for CPUs does.

#include "ir/kernel/builder.h"
#include "tests/support/kernel_run.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace lz::test {
namespace {

using namespace ir;

struct Whole {
    ReduceOp op;
    DType dtype;
    int64_t rows, columns, parts = 1;
    int together = 1; ///< parts in a work item
    int extra = 0;
    bool twice = false;
    DType stored = DType::Bool; ///< dtype of the matrix, if it is another one
};

/// What `parts` loops fold each column of a matrix to, of the rows from the third to the one before the last.
Launch whole_rows(const Whole &c) {
    constexpr int64_t kBlock = 96;
    const DType stored = c.stored == DType::Bool ? c.dtype : c.stored;
    KernelBuilder b;
    const AxisId p = b.axis(), r = b.axis(), i = b.axis(), one = b.axis();
    const ArgId step = b.arg(ArgRole::Stride), pitch = b.arg(ArgRole::Stride);
    const ArgId block = b.arg(ArgRole::Block), place = b.arg(ArgRole::Offset);
    const ArgId from = b.arg(ArgRole::Other), to = b.arg(ArgRole::Other);
    const uint16_t in = b.buffer(stored, BufferMode::In), factors = b.buffer(c.dtype, BufferMode::In);
    const uint16_t out = b.buffer(c.dtype, BufferMode::Out), sums = b.buffer(DType::U8, BufferMode::Worker);
    b.kernel().buffers[sums].worker_offset = place;
    CpuSchedule &cpu = b.begin_phase({p, one, i}, false).on_cpu();
    cpu.across = true;
    cpu.whole_rows = c.together;
    cpu.block = block;
    cpu.scratch = sums;
    const KValue begin = b.add(b.arg_value(from), b.axis_index(p)), end = b.arg_value(to);
    const uint32_t loop = b.begin_loop(r, LoopOrder::Lanes, 0, begin, end, c.parts);
    KValue x = b.cast(b.load({in,
                              kNoArg,
                              {{r, StrideClass::Strided, step}, {i, StrideClass::Contiguous, kNoArg}},
                              {},
                              kNoValue}),
                      c.dtype);
    x = b.mul(x, b.load(contiguous(factors, r)));
    for (int e = 0; e < c.extra; ++e)
        x = b.add(b.mul(x, x), b.constant(c.dtype, 0.25));
    const uint32_t red = b.reduce(c.op, x), squares = c.twice ? b.reduce(c.op, b.mul(x, x)) : red;
    b.end_loop();
    const auto store = [&](uint32_t which) {
        b.store({out,
                 kNoArg,
                 {{p, StrideClass::Strided, pitch}, {i, StrideClass::Contiguous, kNoArg}},
                 {},
                 kNoValue},
                b.loop_result(loop, which));
    };
    store(red);
    if (c.twice)
        store(squares);
    b.end_phase();
    const int64_t first = c.rows > 3 ? 2 : 0, last = std::max<int64_t>(c.rows - 1, 0);
    Launch l{b.take(),
             {c.parts, c.rows, c.columns, 1, c.columns + 1, c.columns, kBlock, 64, first, last},
             {},
             {},
             0};
    l.elements = {c.rows * (c.columns + 1), c.rows, c.parts * c.columns, 0};
    l.worker_bytes = static_cast<size_t>(64 + kLaneBytes / c.parts * c.together * kBlock * (c.twice ? 2 : 1));
    return l;
}

/// In the order of memory, with all lanes of a work item's columns in its scratch.
TEST(EmitterWholeRows, HaveTheLanesOfLoopsThatWalkDown) {
    const auto fold = [](const Whole &c) {
        expect_equal(whole_rows(c), std::string(name(c.dtype)) + " " + std::to_string(c.rows) + "x" +
                                        std::to_string(c.columns) + " in " + std::to_string(c.parts));
    };
    // None, one, fewer than there are lanes, one more, turns of four rows and of one.
    for (const int64_t rows : {0, 1, 3, 4, 20, 66, 67, 131, 260, 700})
        for (const auto &[parts, together] : {std::pair{1, 1}, {2, 1}, {32, 1}, {8, 4}, {64, 16}})
            fold({ReduceOp::Add, DType::F32, rows, 110, parts, together});
    for (const int64_t rows : {0, 35, 36, 300})
        for (const auto &[parts, together] : {std::pair{1, 1}, {16, 1}, {16, 8}})
            fold({ReduceOp::Add, DType::F64, rows, 100, parts, together});
    for (const int64_t columns : {1, 7, 16, 96, 97, 192, 250})
        fold({ReduceOp::Mul, DType::F32, 150, columns, 4, 2, 9});
    for (const DType stored : {DType::BF16, DType::F16, DType::I8})
        fold({ReduceOp::Add, DType::F32, 300, 110, 4, 2, 0, false, stored});
    for (const int64_t parts : {1, 4}) // two sums of each column
        fold({ReduceOp::Add, DType::F32, 300, 130, parts, 1, 1, true});
}

} // namespace
} // namespace lz::test
