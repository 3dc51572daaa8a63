#pragma once
/// What is lost when a step fails, and whose fault it is. Exists only in runs in which something failed.

#include "ir/kernel/compiled_kernel.h"
#include "ir/kernel/facts/flow.h"
#include "runtime/executor/executor.h"

#include <map>
#include <span>
#include <vector>

namespace lz::runtime {

/// The failure that a fault stands for, naming the recorded operation where it is known.
ir::Failure failure_of(const ir::Program &program, uint32_t step, uint32_t segment, const ir::Fault &fault);

/// What a step that is no launch touches, or one segment of a launch.
struct BufferUse {
    uint32_t buffer;
    bool read, write;
};
std::vector<BufferUse> uses_of(const ir::Program &program, const ir::Step &step, uint32_t segment);

/// Whether two buffers, used in one step, begin at the same place in memory: a value that is updated in place
/// is a buffer of its own.
bool share_memory(const ir::Program &program, uint32_t a, uint32_t b);

/// Buffers are told apart by their index, not their bytes: another value in the same bytes of an arena is
/// another buffer, and not lost. Of what a kernel stores only that is lost which depends on a check that
/// failed or on a lost operand, however much was fused into it (S26): a kernel runs to its end with a
/// harmless operand in place of a bad one.
class Blame {
public:
    explicit Blame(const ir::Program &program);

    /// Segment `segment` of `step` failed by itself: what it writes is lost. Returns the failure's number.
    uint32_t lose(uint32_t step, uint32_t segment, ir::Failure failure);
    /// Likewise, by a failure that was named before. If it names no operation yet, it now names this one.
    void lose_by(uint32_t step, uint32_t segment, uint32_t failure);
    /// A result that is not computed, though it could be: likewise.
    void lose_result(uint32_t result, uint32_t failure);
    bool is_lost(uint32_t result) const { return loss(program_->results[result]) != kUnharmed; }
    /// The parameter's value turned out to be lost.
    void lose_input(uint32_t param);
    /// Whether all that the segment would write is lost, so that it need not run.
    bool harmed(uint32_t step, uint32_t segment);
    /// The step is over, or was left out: what depends on lost operands and on `faults` is lost. These are
    /// the step's own, as many of each segment as of the others; they are clear afterwards. Once for each
    /// step, in order.
    void settle(uint32_t step, std::span<ir::Fault> faults);

    RunReport report();
    /// For what is found later about the same run: the same is lost, and none of it is reported again.
    void forget_failures();

private:
    static constexpr int32_t kUnharmed = -1;
    static constexpr int32_t kReported = -2;
    /// Lost by parameter p: kFirstInput - p.
    static constexpr int32_t kFirstInput = -3;

    /// By which failure the buffer is lost.
    int32_t loss(uint32_t buffer) const;
    const ir::KernelFlow &flow(uint32_t kernel);
    std::vector<int32_t> lost_operands(const ir::Step &step, const ir::Segment &segment) const;
    void settle_segment(uint32_t step, uint32_t segment, std::span<const ir::Fault> faults);
    void settle_call(uint32_t step, std::span<const ir::Fault> faults);
    uint32_t number_of(ir::Failure failure);
    void mark(uint32_t step, uint32_t segment, int32_t failure);

    const ir::Program *program_;
    std::vector<int32_t> buffers_; ///< index of the failure by which each was lost
    /// Of a buffer that only a launch of no work items updates in place, which is not run and so never
    /// settled: what it is an update of. kNone: of other buffers.
    std::vector<uint32_t> same_as_;
    std::vector<ir::Failure> failures_;
    std::map<uint32_t, ir::KernelFlow> flows_; ///< by kernel
};

} // namespace lz::runtime
