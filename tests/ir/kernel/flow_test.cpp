// What of a kernel's results depends on what: straight through, through loops, scratch and phases.
#include "ir/kernel/builder.h"
#include "ir/kernel/facts/flow.h"

#include <gtest/gtest.h>

namespace lz::ir {
namespace {

Access at(uint16_t buffer, AxisId axis) {
    Access access;
    access.buffer = buffer;
    access.strides = {{axis, StrideClass::Contiguous, kNoArg}};
    return access;
}

/// Buffers 0 and 1 are i64 operands; two phases over one axis.
struct KernelFlowTest : testing::Test {
    KernelBuilder b;
    const AxisId i = b.axis(), j = b.axis();
    const uint16_t x = b.buffer(DType::I64, BufferMode::In), y = b.buffer(DType::I64, BufferMode::In);
    const uint16_t one = b.buffer(DType::I64, BufferMode::Out), two = b.buffer(DType::I64, BufferMode::Out);
    const uint16_t temp = b.buffer(DType::I64, BufferMode::Temp),
                   own = b.buffer(DType::I64, BufferMode::Worker);

    /// The sources of a buffer: operands by number, checks as 100, 101, ...
    static std::vector<int> of(const KernelFlow &flow, const KernelFlow::Sources &sources) {
        std::vector<int> out;
        for (size_t s = 0; s < sources.size(); ++s)
            if (sources[s])
                out.push_back(s < flow.buffers ? static_cast<int>(s)
                                               : 100 + static_cast<int>(s - flow.buffers));
        return out;
    }
    using Is = std::vector<int>;
};

TEST_F(KernelFlowTest, AResultBesideACheckDoesNotDependOnIt) {
    b.begin_phase({i}, true);
    const KValue v = b.load(at(x, i)), sum = b.add(v, v);
    b.store(at(one, i), sum);
    b.store(at(two, i), b.div(sum, b.load(at(y, i))));
    b.end_phase();
    const KernelFlow flow = flow_of(b.take());
    EXPECT_EQ(of(flow, flow.stored[one]), (Is{x}));
    EXPECT_EQ(of(flow, flow.stored[two]), (Is{x, y, 100}));
    EXPECT_EQ(of(flow, flow.checks[0]), (Is{y}));
    EXPECT_TRUE(flow.written[one] && flow.written[two] && !flow.written[x] && !flow.written[temp]);
}

TEST_F(KernelFlowTest, AnAddressAndAPredicateDecideAboutWhatIsLoadedAndStored) {
    b.begin_phase({i}, true);
    const KValue index = b.check_index(b.load(at(x, i)), b.constant_int(DType::I64, 3));
    Access gather = at(y, i);
    gather.terms = {{index, kNoArg}};
    b.store(at(one, i), b.load(gather));
    Access masked = at(two, i);
    masked.predicate = b.gt(b.check_nonzero(b.load(at(y, i))), b.constant_int(DType::I64, 0));
    b.store(masked, b.constant_int(DType::I64, 1));
    b.end_phase();
    const KernelFlow flow = flow_of(b.take());
    EXPECT_EQ(of(flow, flow.stored[one]), (Is{x, y, 100}));
    EXPECT_EQ(of(flow, flow.stored[two]), (Is{y, 101}));
}

TEST_F(KernelFlowTest, ReductionsScratchAndLaterPhasesCarryItOn) {
    b.begin_phase({i}, false);
    const uint32_t loop = b.begin_loop(j, LoopOrder::Lanes);
    const KValue bad = b.check_nonzero(b.load(at(x, j)));
    b.store(at(own, j), bad);
    b.reduce(ReduceOp::Add, b.load(at(y, j)));
    b.reduce(ReduceOp::Max, b.load(at(own, j)));
    b.end_loop();
    b.store(at(one, i), b.loop_result(loop, 0));
    b.store(at(temp, i), b.loop_result(loop, 1));
    b.end_phase();
    b.begin_phase({i}, true);
    b.store(at(two, i), b.load(at(temp, i)));
    b.end_phase();
    const KernelFlow flow = flow_of(b.take());
    EXPECT_EQ(of(flow, flow.stored[one]), (Is{y}));
    EXPECT_EQ(of(flow, flow.stored[temp]), (Is{x, 100}));
    EXPECT_EQ(of(flow, flow.stored[two]), (Is{x, 100}));
}

TEST_F(KernelFlowTest, ALoopSeesWhatItStoredAnIterationBefore) {
    b.begin_phase({i}, false);
    b.begin_loop(j, LoopOrder::Sequential);
    b.store(at(two, j), b.load(at(temp, j)));
    b.store(at(temp, j), b.load(at(own, j)));
    b.store(at(own, j), b.check_nonzero(b.load(at(x, j))));
    b.end_loop();
    b.end_phase();
    const KernelFlow flow = flow_of(b.take());
    EXPECT_EQ(of(flow, flow.stored[two]), (Is{x, 100}));
}

TEST_F(KernelFlowTest, WhatIsReadBeforeAnUpdateInPlaceIsTheOldValue) {
    const uint16_t updated = b.buffer(DType::I64, BufferMode::InOut);
    b.begin_phase({i}, true);
    const KValue old = b.load(at(updated, i));
    b.store(at(one, i), b.add(old, old));
    b.store(at(updated, i), b.div(old, b.load(at(x, i))));
    b.store(at(two, i), b.load(at(updated, i)));
    b.end_phase();
    const KernelFlow flow = flow_of(b.take());
    EXPECT_EQ(of(flow, flow.stored[one]), (Is{updated}));
    EXPECT_EQ(of(flow, flow.stored[two]), (Is{x, updated, 100}));
}

TEST_F(KernelFlowTest, AnUpdateOfAPartKeepsTheRestOfTheOldValue) {
    const uint16_t updated = b.buffer(DType::I64, BufferMode::InOut);
    b.begin_phase({i}, true);
    b.store(at(updated, i), b.load(at(x, i)));
    b.end_phase();
    const KernelFlow flow = flow_of(b.take());
    EXPECT_EQ(of(flow, flow.stored[updated]), (Is{x, updated}));
}

} // namespace
} // namespace lz::ir
