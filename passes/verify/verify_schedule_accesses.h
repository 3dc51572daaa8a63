#pragma once
/// Which bytes a launch touches, worked out from its kernel. Internal to verify_schedule.

#include "ir/program/program.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lz::passes {

/// Bytes [begin, end) of a buffer.
struct Bytes {
    int64_t begin = INT64_MAX, end = INT64_MIN;
    bool empty() const { return begin >= end; }
    void add(int64_t from, int64_t to) {
        begin = std::min(begin, from);
        end = std::max(end, to);
    }
};

/// The bytes of one buffer that one segment reads and writes.
struct Touched {
    Bytes read, written;
};

/// Everything one segment touches, by kernel buffer: the bounds of its affine accesses, the whole buffer
/// where an access is not known before the run.
std::vector<Touched> touched_by(const ir::Program &program, const ir::Kernel &kernel,
                                const ir::Segment &segment);

} // namespace lz::passes
