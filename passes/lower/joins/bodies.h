#pragma once
/// The kernel of a step whose index space is lowered piece by piece. Pieces with equal kernels are segments
/// of one phase; each different kernel is a further phase, in which segments that have no piece of that kind
/// do nothing.

#include "passes/lower/nest.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace lz::passes {

class PieceBodies {
public:
    void add(LoweredPiece piece);
    size_t count() const { return bodies_.size(); }
    /// Axes of all kernels; `finish` takes at most ir::kMostAxes.
    size_t axes() const;
    /// Moves the kernel and its segments to the step. At least one piece was added.
    void finish(LoweredStep &step);

private:
    struct Body {
        ir::Kernel kernel;
        std::vector<LoweredSegment> pieces;
    };
    std::vector<Body> bodies_;
    std::map<std::string, size_t> known_; // body by key
};

} // namespace lz::passes
