#pragma once
/// Whose memory the output of a step may have: that of an operand which dies there, or of an input which its
/// owner gave away.

#include "passes/memory/allocations.h"
#include "passes/memory/reuse/donors.h"
#include "passes/memory/reuse/guardable_writes.h"
#include "passes/memory/reuse/in_place_proof.h"

#include <optional>
#include <utility>
#include <vector>

namespace lz::passes {

/// What plan_memory knows of buffers while it goes through the steps.
struct BufferLives {
    explicit BufferLives(const ir::Program &program);

    const ir::Program &program;
    uint32_t end;                        ///< behind the last step
    std::vector<Allocation> allocations; ///< those of inputs first, in the order of the inputs
    std::optional<StreamClocks> clocks;  ///< none on one stream
    // By buffer of the Program
    std::vector<uint32_t> allocation_of; ///< kNone: it has none yet
    std::vector<uint32_t> last_use;      ///< by steps; `end` of results
    std::vector<uint32_t> result_of;     ///< which result it is, unless it is an input
    std::vector<bool> is_read;           ///< by a step

    /// Whether all uses so far of an allocation are over when step `s` begins, in order or by the estimates.
    bool is_over(uint32_t allocation, uint32_t s) const;
};

/// Answers for one step at a time.
class BufferReuse {
public:
    explicit BufferReuse(const BufferLives &lives);

    /// An input whose memory results may have, until one has taken it.
    void add_donor(uint32_t input) { donors_.add(input); }
    void remove_donor(uint32_t input) { donors_.remove(input); }

    void begin_step(uint32_t s);
    /// Operands of a launch are asked for segment by segment.
    void begin_segment(const ir::Segment *segment) { segment_ = segment; }

    /// The buffer that operand `out` of the segment may be written over, or kNone.
    uint32_t find_dying(size_t out, uint32_t result);
    /// The allocation of a buffer that the step alone reads, as the last in order, if it may be overwritten;
    /// else kNone. Earlier readers may still run.
    uint32_t allocation_of_dying(uint32_t buffer, uint32_t result);
    /// A donated input of this size that is dead before the step: no step reads it, because an in-place form
    /// writes another value in its place, or those that do have.
    uint32_t find_donor(uint32_t result, uint32_t buffer);
    /// The same for a copy after all steps; on several streams one that no step reads, so that nothing waits.
    uint32_t find_donor_at_end(uint32_t result, uint32_t buffer) const;

private:
    uint32_t find_dying_part(size_t out, uint32_t result);
    bool may_write_over(uint16_t in, uint16_t out);
    bool may_write_over_input(uint32_t input, uint32_t result);
    bool is_dead_before_step(uint32_t input) const;
    bool can_step_fault();
    const ir::Kernel &kernel() const;

    const BufferLives &lives_;
    const ir::Program &program_;
    Donors donors_;
    GuardableWrites guardable_;
    std::vector<uint32_t> reads_; // by buffer, by the step at hand
    // The step at hand
    uint32_t step_ = 0;
    const ir::Segment *segment_ = nullptr;
    std::vector<uint32_t> touched_;     // buffers that it reads
    std::optional<InPlaceProof> proof_; // of its kernel, once somebody asks
    std::optional<bool> faults_;        // whether it can fail, once somebody asks
};

} // namespace lz::passes
