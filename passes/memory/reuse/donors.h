#pragma once
/// Inputs whose memory results may take over. Input k is buffer k.

#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/hashed.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lz::passes {

/// Calls f(input) for the others that share the memory of one.
template <class F>
void for_others_in_memory(const ir::Program &program, uint32_t input, F &&f) {
    const int32_t storage = program.buffers[input].storage;
    if (storage < 0)
        return;
    for (uint32_t k = 0; k < program.buffers.size() && program.buffers[k].kind == ir::BufferKind::Input; ++k)
        if (k != input && program.buffers[k].storage == storage)
            f(k);
}

/// Whether the input was given away to be overwritten. What writes over a kept one must be left out if
/// something that it reads has failed: where the device runs its kernels whatever failed before them, a kept
/// input stays as it is.
inline bool may_be_overwritten(const ir::Program &program, uint32_t input, const ir::Target &target) {
    const ir::BufferDraft &draft = program.draft.buffers[input];
    return draft.donated && (!draft.kept || target.device(program.buffers[input].device).guards_segments());
}

/// Each may be taken once: by any result, or by the one that it is donated to.
class Donors {
public:
    explicit Donors(const ir::Program &program)
        : program_(program), left_to_(program.results.size(), ir::kNone) {}

    void add(uint32_t input) {
        if (const uint32_t result = result_of(input); result == ir::kNone)
            for_any_.push_back(input);
        else
            left_to_[result] = input;
    }
    void remove(uint32_t input) {
        if (const uint32_t result = result_of(input); result == ir::kNone)
            std::erase(for_any_, input);
        else
            left_to_[result] = ir::kNone;
    }
    bool may_take(uint32_t result, uint32_t input) const {
        return left_to_[result] == input || std::ranges::find(for_any_, input) != for_any_.end();
    }
    /// The first input of the size of `buffer` for which `f` holds whose memory the result may take, or
    /// kNone.
    template <class F>
    uint32_t find_if(uint32_t result, uint32_t buffer, F &&f) const {
        const ir::BufferDesc &wanted = program_.buffers[buffer];
        const auto fits = [&](uint32_t k) {
            const ir::BufferDesc &input = program_.buffers[k];
            return !surely_differ(input.bytes, wanted.bytes) && input.device == wanted.device && f(k) &&
                   input.bytes == wanted.bytes;
        };
        if (left_to_[result] != ir::kNone && fits(left_to_[result]))
            return left_to_[result];
        const auto found = std::ranges::find_if(for_any_, fits);
        return found == for_any_.end() ? ir::kNone : *found;
    }

private:
    uint32_t result_of(uint32_t input) const { return program_.draft.buffers[input].donated_to; }

    const ir::Program &program_;
    std::vector<uint32_t> for_any_;
    std::vector<uint32_t> left_to_; // by result: the input whose memory it alone may take
};

} // namespace lz::passes
