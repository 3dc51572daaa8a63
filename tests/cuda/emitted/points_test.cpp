/// Threads that take several packets, or several elements, of which not all have to be there.

#include "emitted/emitted.h"
#include "ir/kernel/builder.h"
#include "kernels.h"

#include <fmt/format.h>

namespace lz::test {
namespace {

using namespace ir;

/// A device so small that a thread takes several packets of few thousand elements.
CudaLimits small_device() {
    CudaLimits limits;
    limits.multiprocessors = 1;
    limits.threads_per_sm = 64;
    return limits;
}

constexpr DType kTypes[] = {DType::Bool, DType::U8,  DType::I8,   DType::I16, DType::I32,
                            DType::I64,  DType::F16, DType::BF16, DType::F32, DType::F64};

/// f of values of t, which are computed in f32 where t is a half.
template <class F>
auto computed(DType t, F f) {
    return [=](KernelBuilder &b, const std::vector<KValue> &x) {
        std::vector<KValue> wide;
        for (const KValue v : x)
            wide.push_back(is_half(t) ? b.cast(v, DType::F32) : v);
        const KValue y = f(b, wide);
        return is_half(t) ? b.cast(y, t) : y;
    };
}

/// 8192 bytes are all that a block of 256 threads takes; 9001 elements end within a packet.
TEST(EmittedPoints, PacketsOfThreadsAtTheEndAreThereOrNot) {
    if (!why_not_run().empty())
        GTEST_SKIP() << why_not_run();
    for (const DType t : kTypes)
        for (const int64_t n : {8192, 9001}) {
            const Launch extremes = scheduled(
                elementwise({t, t}, n, 64,
                            computed(t,
                                     [](KernelBuilder &b, auto &x) {
                                         return b.minimum(b.maximum(x[0], x[1]), b.maximum(x[1], x[0]));
                                     })),
                small_device());
            expect_bits(extremes, fmt::format("extremes of {} {}", n, name(t)));
            if (t == DType::Bool)
                continue;
            const Launch one = scheduled(
                elementwise({t}, n, 64, computed(t, [](KernelBuilder &b, auto &x) { return b.neg(x[0]); })),
                small_device());
            EXPECT_GT(one.kernel.phases[0].cuda().unroll, 1) << name(t);
            expect_bits(one, fmt::format("negations of {} {}", n, name(t)));
        }
}

/// Rows that begin and end at packets: no packet is a part, and some threads have fewer.
TEST(EmittedPoints, PacketsOfRowsAreWhole) {
    if (!why_not_run().empty())
        GTEST_SKIP() << why_not_run();
    for (const DType t : {DType::U8, DType::I16, DType::BF16, DType::F32})
        for (const int64_t stride : {96, 112}) {
            const Launch l = scheduled(rows(t, 111, 96, stride,
                                            [&](KernelBuilder &b, KValue x) {
                                                return computed(t, [](KernelBuilder &c, auto &y) {
                                                    return c.add(y[0], y[0]);
                                                })(b, {x});
                                            }),
                                       small_device());
            EXPECT_GT(l.kernel.phases[0].cuda().unroll, 1) << name(t);
            expect_bits(l, fmt::format("rows of {} every {}", name(t), stride));
        }
}

/// An element's index is asked for in either way through the code.
TEST(EmittedPoints, IndicesAreThoseOfTheElements) {
    if (!why_not_run().empty())
        GTEST_SKIP() << why_not_run();
    const Launch l = scheduled(elementwise({DType::I32}, 9001, 64,
                                           [](KernelBuilder &b, auto &x) {
                                               return b.add(x[0], b.cast(b.axis_index(0), DType::I32));
                                           }),
                               small_device());
    EXPECT_GT(l.kernel.phases[0].cuda().unroll, 1);
    expect_bits(l, "indices");
}

} // namespace
} // namespace lz::test
