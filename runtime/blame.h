#pragma once
/// What is lost when a step fails, and whose fault it is. Exists only in runs in which something failed.

#include "ir/compiled_kernel.h"
#include "runtime/executor.h"

#include <vector>

namespace lz::runtime {

/// The failure that a fault stands for, naming the recorded operation where it is known.
ir::Failure failure_of(const ir::Program &program, uint32_t step, uint32_t segment, const ir::Fault &fault);

/// Buffers are told apart by their index, not their bytes: another value in the same bytes of an arena is
/// another buffer, and not lost.
class Blame {
public:
    explicit Blame(const ir::Program &program)
        : program_(program), buffers_(program.buffers.size(), kUnharmed) {}

    /// Segment `segment` of `step` failed by itself: what it writes is lost. Returns the failure's number.
    uint32_t lose(uint32_t step, uint32_t segment, ir::Failure failure);
    /// Likewise, by a failure that was named before. If it names no operation yet, it now names this one.
    void lose_by(uint32_t step, uint32_t segment, uint32_t failure);
    /// The parameter's value turned out to be lost.
    void lose_input(uint32_t param);
    /// Whether the segment reads what is lost, or was lost itself; then what it writes is lost as well.
    bool harmed(uint32_t step, uint32_t segment);

    RunReport report();

private:
    static constexpr int32_t kUnharmed = -1;
    /// Lost by parameter p: kFirstInput - p.
    static constexpr int32_t kFirstInput = -2;

    void mark(uint32_t step, uint32_t segment, int32_t failure);

    const ir::Program &program_;
    std::vector<int32_t> buffers_; ///< index of the failure by which each was lost
    std::vector<ir::Failure> failures_;
};

} // namespace lz::runtime
