// Each barrier of each kind of kernel that the emitter makes is needed, and the interpreter of PTX sees that
// it is missing.

#include "barriers.h"
#include "emitted/emitted.h"
#include "ir/text/text.h"
#include "kernels.h"

#include "tests/support/cuda/device_memory.h"

#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

struct Kind {
    const char *name;
    std::vector<Launch> launches; ///< of one kernel
};

/// A reduction of each row; in chunks, or in one. What is sought is stored with its place.
Launch reduced(ReduceOp op, DType t, int64_t rows, int64_t length, int64_t chunk) {
    KernelBuilder b;
    const AxisId r = b.axis(), i = b.axis();
    const ArgId step = b.arg(ArgRole::Stride);
    const uint16_t in = b.buffer(t, BufferMode::In), out = b.buffer(t, BufferMode::Out);
    const bool sought = op == ReduceOp::ArgMax;
    const uint16_t places = sought ? b.buffer(DType::I64, BufferMode::Out) : out;
    b.begin_phase({r}, false);
    const uint32_t loop = b.begin_loop(i, LoopOrder::Lanes, chunk);
    b.reduce(op, b.load({in, kNoArg, {{r, StrideClass::Strided, step}, along(i)}, {}, kNoValue}),
             sought ? b.axis_index(i) : kNoValue);
    b.end_loop();
    b.store(contiguous(out, r), b.loop_result(loop, 0));
    if (sought)
        b.store(contiguous(places, r), b.loop_result(loop, 0, 1));
    b.end_phase();
    std::vector<int64_t> elements(sought ? 3 : 2, rows);
    elements[0] = rows * length;
    return {b.take(), {rows, length, length}, {}, elements, 0};
}

/// What is left when the sum of a row is taken away, which has an order that allows no cut; rows are kept.
Launch uncut(int64_t rows, int64_t length) {
    KernelBuilder b;
    const AxisId r = b.axis(), i = b.axis();
    const ArgId step = b.arg(ArgRole::Stride), place = b.arg(ArgRole::Offset);
    const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::Out),
                   kept = b.buffer(DType::F32, BufferMode::Worker, place);
    const auto at = [&](uint16_t buffer) {
        return Access{buffer, kNoArg, {{r, StrideClass::Strided, step}, along(i)}, {}, kNoValue};
    };
    b.begin_phase({r}, false);
    const uint32_t loop = b.begin_loop(i, LoopOrder::Lanes);
    const KValue x = b.load(at(in)), twice = b.add(x, x);
    b.store(contiguous(kept, i), twice);
    b.reduce(ReduceOp::Add, twice);
    b.end_loop();
    const KValue sum = b.loop_result(loop, 0);
    b.begin_loop(i, LoopOrder::Lanes);
    b.store(at(out), b.sub(b.load(contiguous(kept, i)), sum));
    b.end_loop();
    b.end_phase();
    return {b.take(), {rows, length, length, 0}, {}, {rows * length, rows * length, length}, 0};
}

/// The sum of a row in an order that allows no cut, and that in chunks: sixteen threads have both.
Launch two_sums(int64_t rows, int64_t length) {
    KernelBuilder b;
    const AxisId r = b.axis(), i = b.axis();
    const ArgId step = b.arg(ArgRole::Stride);
    const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::Out);
    const auto x = [&] {
        return b.load({in, kNoArg, {{r, StrideClass::Strided, step}, along(i)}, {}, kNoValue});
    };
    b.begin_phase({r}, false);
    const uint32_t whole = b.begin_loop(i, LoopOrder::Lanes);
    b.reduce(ReduceOp::Add, x());
    b.end_loop();
    const uint32_t chunks = b.begin_loop(i, LoopOrder::Lanes, kLaneChunk);
    b.reduce(ReduceOp::Add, x());
    b.end_loop();
    b.store(contiguous(out, r), b.sub(b.loop_result(whole, 0), b.loop_result(chunks, 0)));
    b.end_phase();
    return {b.take(), {rows, length, length}, {}, {rows * length, rows}, 0};
}

/// Sums of parts of a row, added in order; of each part one sum or two.
Launch parts(int64_t rows, int64_t count, int64_t length, bool two) {
    KernelBuilder b;
    const AxisId r = b.axis(), part = b.axis(), i = b.axis();
    const ArgId row = b.arg(ArgRole::Stride), step = b.arg(ArgRole::Stride);
    const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::Out);
    b.begin_phase({r}, false);
    const uint32_t outer = b.begin_loop(part, LoopOrder::Sequential, kSequentialChunk);
    KValue all = kNoValue;
    for (const ReduceOp op : two ? std::vector{ReduceOp::Add, ReduceOp::Max} : std::vector{ReduceOp::Add}) {
        const uint32_t loop = b.begin_loop(i, LoopOrder::Lanes, op == ReduceOp::Add ? kLaneChunk : 0);
        const Access at{in,
                        kNoArg,
                        {{r, StrideClass::Strided, row}, {part, StrideClass::Strided, step}, along(i)},
                        {},
                        kNoValue};
        b.reduce(op, b.load(at));
        b.end_loop();
        const KValue result = b.loop_result(loop, 0);
        all = all == kNoValue ? result : b.add(all, result);
    }
    b.reduce(ReduceOp::Add, all);
    b.end_loop();
    b.store(contiguous(out, r), b.loop_result(outer, 0));
    b.end_phase();
    return {b.take(), {rows, count, length, count * length, length}, {}, {rows * count * length, rows}, 0};
}

const CudaSchedule &rows_of(const Launch &l) {
    return l.kernel.phases[0].cuda();
}

/// Rows of a block each.
Launch whole_rows(const Launch &l, const CudaLimits &limits = {}) {
    Launch made = scheduled(l, limits);
    EXPECT_EQ(made.kernel.phases.size(), 1U);
    EXPECT_GT(rows_of(made).row_threads, 32);
    return made;
}

/// Rows of so many threads, kept there; of so many blocks each.
Launch rows_in(RowTier tier, int threads, const Launch &l, const CudaLimits &limits = {}, int blocks = 1) {
    Launch made = scheduled(l, limits);
    EXPECT_EQ(made.kernel.phases.size(), 1U);
    EXPECT_EQ(rows_of(made).tier, tier) << print(made.kernel);
    EXPECT_EQ(rows_of(made).row_threads, threads) << print(made.kernel);
    EXPECT_EQ(rows_of(made).cluster_blocks, blocks) << print(made.kernel);
    return made;
}

/// The first one's kernel with the sizes of all: their schedules are equal.
std::vector<Launch> of_one_kernel(std::vector<Launch> all) {
    for (const Launch &l : all)
        EXPECT_EQ(rows_of(l), rows_of(all[0]));
    return all;
}

constexpr CudaLimits kNoRegisters{.registers_per_sm = 0, .cluster_blocks = 1},
    kNoMemory{.registers_per_sm = 0, .shared_per_block = 40 << 10, .cluster_blocks = 1},
    kOneProcessor{.multiprocessors = 1};
/// Longer than a list of chunks' results is.
constexpr int64_t kLong = 1100000;

std::vector<Kind> kinds() {
    constexpr DType f32 = DType::F32, f64 = DType::F64;
    const auto rows = [](int64_t count, int64_t length) {
        return row_kernel(f32, f32, count, length, length);
    };
    const auto sums = [](int64_t count, int64_t length) {
        return whole_rows(reduced(ReduceOp::Add, f32, count, length, kLaneChunk), kOneProcessor);
    };
    const auto in_memory = [&](int64_t count, int64_t length) {
        return rows_in(RowTier::Memory, 512, rows(count, length), kNoMemory);
    };
    const auto both = [](int64_t count, int64_t length) {
        return rows_in(RowTier::Memory, 16, two_sums(count, length), kOneProcessor);
    };
    return {
        {"tiles", {scheduled(transpose_kernel(100, 90))}},
        {"a product", {scheduled(product(DType::I32, 40, 30, 50, false))}},
        {"sums of rows", {whole_rows(reduced(ReduceOp::Add, f32, 5, 5000, kLaneChunk))}},
        {"one chunk across groups", {whole_rows(reduced(ReduceOp::Max, f32, 5, 5000, 0))}},
        {"places of the largest", {whole_rows(reduced(ReduceOp::ArgMax, f32, 5, 5000, 0))}},
        {"rows of a warp", {rows_in(RowTier::Registers, 32, rows(21, 2000))}},
        {"rows of a warp in shared memory", {rows_in(RowTier::Shared, 32, rows(21, 2000), kNoRegisters)}},
        {"rows of half a warp that lists its chunks", of_one_kernel({both(21, 9000), both(1, kLong)})},
        {"rows in registers of several groups", {rows_in(RowTier::Registers, 128, rows(5, 5000))}},
        {"rows in shared memory", {rows_in(RowTier::Shared, 128, rows(5, 5000), kNoRegisters)}},
        {"rows in a temporary", of_one_kernel({in_memory(5, 40000), in_memory(1, kLong)})},
        {"uncut sums", {rows_in(RowTier::Shared, 64, uncut(5, 3000))}},
        {"uncut sums in a temporary", {rows_in(RowTier::Memory, 256, uncut(5, 9000), kNoMemory)}},
        {"long rows", of_one_kernel({sums(5, 70000), sums(2, kLong)})},
        {"a sum of parts of rows", {whole_rows(parts(5, 3, 3000, false))}},
        {"two results of parts of rows", {whole_rows(parts(5, 3, 3000, true))}},
        {"registers of a cluster", {rows_in(RowTier::Registers, 512, rows(3, 40000), {}, 2)}},
        {"shared memory of a cluster",
         {rows_in(RowTier::Shared, 512, row_kernel(f32, f32, 3, 70000, 70000), {.registers_per_sm = 0}, 2)}},
        {"registers of a cluster of fewer threads",
         {rows_in(RowTier::Registers, 256, row_kernel(f64, f64, 3, 30000, 30000), {}, 2)}},
        {"rows that a cluster reads again",
         {rows_in(RowTier::Shared, 512, two_operands(f64, 3, 70000), {}, 2)}},
    };
}

/// What a run of it shows to be wrong; empty when nothing is.
std::string what_is_wrong(const Launch &l, int shift, const std::vector<Outcome> &oracles,
                          const std::string &ptx) {
    for (uint64_t seed = 1; seed <= oracles.size(); ++seed)
        try {
            CudaRun run{.shift = shift, .most_blocks = 2, .seed = seed, .corners = false};
            run.ptx = ptx.c_str();
            if (auto found = cuda_difference(l, oracles[seed - 1], run_cuda(l, run)); !found.empty())
                return found;
        } catch (const ptx::Fault &fault) {
            return fault.what();
        }
    return "";
}

TEST(EmittedBarriers, EachThatIsDeletedIsMissed) {
    if (!why_not_run().empty())
        GTEST_SKIP() << why_not_run();
    for (const auto &[name, launches] : kinds()) {
        SCOPED_TRACE(name);
        std::vector<std::vector<Outcome>> oracles(launches.size());
        for (size_t l = 0; l < launches.size(); ++l) {
            const uint64_t seeds = launches[l].elements[0] > 100000 ? 1 : 2;
            for (uint64_t seed = 1; seed <= seeds; ++seed)
                oracles[l].push_back(run_interpreted(launches[l], seed, false));
        }
        size_t deleted = 0;
        for (const int shift : {0, 1}) { // a kernel each, which may be the same
            std::vector<Launch> run = launches;
            for (Launch &l : run)
                l = shift == 0 ? std::move(l) : unaligned(std::move(l));
            const std::string text = ptx_of(run[0]);
            const auto wrong = [&](const std::string &ptx) {
                std::string found;
                for (size_t l = 0; l < run.size() && found.empty(); ++l)
                    found = what_is_wrong(run[l], shift, oracles[l], ptx);
                return found;
            };
            EXPECT_EQ(wrong(text), "") << "nothing is deleted\n" << cuda_text(run[0]);
            const std::vector<std::string> all = without_each_barrier(text);
            for (size_t b = 0; b < all.size(); ++b)
                EXPECT_NE(wrong(all[b]), "") << "nobody misses barrier " << b << " of " << all.size() << "\n"
                                             << cuda_text(run[0]) << all[b];
            deleted += all.size();
        }
        EXPECT_GE(deleted, 1U);
    }
}

/// Threads that read nothing but what they wrote wait for nobody.
TEST(EmittedBarriers, RowsOfOneGroupHaveNone) {
    for (const CudaLimits &limits : {CudaLimits{}, kNoRegisters})
        for (const int64_t length : {5, 12, 30, 100, 1000}) {
            const Launch l = scheduled(row_kernel(DType::F32, DType::F32, 9, length, length), limits);
            EXPECT_EQ(cuda_text(l).find("__sync"), std::string::npos) << cuda_text(l);
        }
}

} // namespace
} // namespace lz::test
