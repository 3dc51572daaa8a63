#pragma once
/// May a value that a handle goes back to (Param::kept) be overwritten by the version that replaces it?

#include "ir/kernel/facts/flow.h"
#include "ir/program/program.h"

#include <cstdint>
#include <map>
#include <vector>

namespace lz::passes {

/// A segment of a launch is *guarded* when the runtime leaves it out in runs in which something failed that
/// it is computed from: it then has either written nothing or everything.
///
/// That is possible, and loses nothing that could have been computed, where
///  - the segment's kernel cannot fail halfway: it has no checks and one phase. Scratch of workers is had
///    before a launch begins; a launch that has none loses all segments of its step, so that one with scratch
///    has to be the only one;
///  - nobody else writes the buffer;
///  - whatever the segment stores is computed from the same values of the Program (inputs aside): they are
///    lost together or not at all.
class GuardableWrites {
public:
    explicit GuardableWrites(const ir::Program &program);

    /// Whether step `s`, a launch, may have the segment guarded, which writes `buffer`.
    bool guards(uint32_t s, const ir::Segment &segment, uint32_t buffer);

private:
    bool stores_from_one_set(const ir::Kernel &kernel, const ir::KernelFlow &flow,
                             const ir::Segment &segment) const;

    const ir::Program &program_;
    std::vector<uint32_t> writers_;            // by buffer: how many segments and other steps write it
    std::map<uint32_t, ir::KernelFlow> flows_; // by kernel
};

} // namespace lz::passes
