#include "passes/memory/reuse/buffer_reuse.h"

#include "passes/hashed.h"
#include "passes/memory/can_fault.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

BufferLives::BufferLives(const Program &of)
    : program(of), end(static_cast<uint32_t>(of.steps.size())), allocation_of(of.buffers.size(), kNone),
      last_use(of.buffers.size(), 0), result_of(of.buffers.size(), kNone), is_read(of.buffers.size(), false) {
    for (uint32_t s = 0; s < end; ++s)
        for_operands(program, s, [&](BufferMode mode, uint32_t buffer) {
            const uint32_t read = read_buffer(program, mode, buffer);
            if (read == kNone)
                return;
            last_use[read] = s;
            is_read[read] = true;
        });
    for (uint32_t r = 0; r < program.results.size(); ++r) {
        const uint32_t buffer = program.results[r];
        last_use[buffer] = end;
        if (result_of[buffer] == kNone && program.buffers[buffer].kind != BufferKind::Input)
            result_of[buffer] = r;
    }
}

bool BufferLives::is_over(uint32_t allocation, uint32_t s) const {
    const LastUses &uses = allocations[allocation].uses;
    return uses.places.empty() || uses.end <= estimated_begin(program, s) ||
           std::ranges::all_of(uses.places, [&](StreamPosition p) { return clocks->over(s, p); });
}

BufferReuse::BufferReuse(const BufferLives &lives)
    : lives_(lives), program_(lives.program), donors_(program_), guardable_(program_),
      reads_(program_.buffers.size(), 0) {}

void BufferReuse::begin_step(uint32_t s) {
    for (const uint32_t buffer : touched_)
        reads_[buffer] = 0;
    touched_.clear();
    step_ = s;
    segment_ = nullptr;
    proof_.reset();
    faults_.reset();
    for_operands(program_, s, [&](BufferMode mode, uint32_t buffer) {
        if (const uint32_t read = read_buffer(program_, mode, buffer); read != kNone) {
            ++reads_[read];
            touched_.push_back(read);
        }
    });
}

const Kernel &BufferReuse::kernel() const {
    return program_.kernels[program_.steps[step_].kernel];
}

bool BufferReuse::may_write_over(uint16_t in, uint16_t out) {
    if (!proof_)
        proof_.emplace(kernel());
    return proof_->allowed(*segment_, in, out);
}

uint32_t BufferReuse::allocation_of_dying(uint32_t buffer, uint32_t result) {
    if (lives_.last_use[buffer] != step_ || reads_[buffer] != 1)
        return kNone;
    const uint32_t allocation = lives_.allocation_of[buffer];
    const uint32_t input = lives_.allocations[allocation].input;
    if (input == kNone)
        return allocation;
    // An input's memory is worth taking over for a result only: it is there anyway until the program ends.
    return result != kNone && lives_.allocations[allocation].last <= step_ &&
                   donors_.may_take(result, input) && may_write_over_input(input, result)
               ? allocation
               : kNone;
}

/// A step that can fail halfway must leave the old value whole; and one that is computed from what failed, a
/// value that a handle goes back to (S26).
bool BufferReuse::may_write_over_input(uint32_t input, uint32_t result) {
    return !can_step_fault() && (!program_.draft.buffers[input].kept ||
                                 (segment_ && guardable_.guards(step_, *segment_, program_.results[result])));
}

/// A part that is changed by what is read of it (`a[i] += v`): the value that it is a part of may be
/// overwritten if nothing else reads it, and each element is read before it is written.
uint32_t BufferReuse::find_dying_part(size_t out, uint32_t result) {
    const uint32_t whole = program_.draft.buffers[segment_->buffers[out]].replaces;
    size_t in = 0;
    while (in < segment_->buffers.size() &&
           (kernel().buffers[in].mode != BufferMode::In || segment_->buffers[in] != whole))
        ++in;
    if (reads_[whole] != 2 || in == segment_->buffers.size())
        return kNone;
    reads_[whole] = 1;
    const bool dies = allocation_of_dying(whole, result) != kNone;
    reads_[whole] = 2;
    return dies && may_write_over(static_cast<uint16_t>(in), static_cast<uint16_t>(out)) ? whole : kNone;
}

uint32_t BufferReuse::find_dying(size_t out, uint32_t result) {
    if (kernel().buffers[out].mode == BufferMode::InOut)
        return find_dying_part(out, result);
    const int64_t bytes = program_.buffers[segment_->buffers[out]].bytes;
    for (size_t in = 0; in < segment_->buffers.size(); ++in) {
        const uint32_t buffer = segment_->buffers[in];
        if (kernel().buffers[in].mode != BufferMode::In || bytes == 0 ||
            surely_differ(program_.buffers[buffer].bytes, bytes) ||
            allocation_of_dying(buffer, result) == kNone ||
            !lives_.is_over(lives_.allocation_of[buffer], step_) ||
            !may_write_over(static_cast<uint16_t>(in), static_cast<uint16_t>(out)) ||
            program_.buffers[buffer].bytes != bytes)
            continue;
        reads_[buffer] = 0; // taken
        return buffer;
    }
    return kNone;
}

uint32_t BufferReuse::find_donor(uint32_t result, uint32_t buffer) {
    return donors_.find_if(result, buffer, [&](uint32_t k) {
        return is_dead_before_step(k) && may_write_over_input(k, result);
    });
}

uint32_t BufferReuse::find_donor_at_end(uint32_t result, uint32_t buffer) const {
    return donors_.find_if(result, buffer, [&](uint32_t k) {
        return !program_.draft.buffers[k].kept && (!lives_.clocks || !lives_.allocations[k].read);
    });
}

bool BufferReuse::is_dead_before_step(uint32_t input) const {
    if (!lives_.allocations[input].read)
        return true;
    bool over = lives_.allocations[input].last < step_ && lives_.last_use[input] < step_ &&
                reads_[input] == 0 && lives_.is_over(input, step_);
    for_others_in_memory(program_, input, [&](uint32_t k) { over = over && lives_.is_over(k, step_); });
    return over;
}

bool BufferReuse::can_step_fault() {
    if (!faults_)
        faults_ = can_fault(program_, program_.steps[step_]);
    return *faults_;
}

} // namespace lz::passes
