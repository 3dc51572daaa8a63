#include "passes/lower/joins/bodies.h"

#include "ir/kernel/append.h"
#include "ir/kernel/key.h"

#include <algorithm>
#include <utility>

namespace lz::passes {

using namespace ir;

void PieceBodies::add(LoweredPiece piece) {
    const auto next = bodies_.size();
    const size_t body = known_.try_emplace(cache_key(piece.kernel), next).first->second;
    if (body == next)
        bodies_.push_back({std::move(piece.kernel), {}});
    bodies_[body].pieces.push_back(std::move(piece.segment));
}

size_t PieceBodies::axes() const {
    size_t axes = 0;
    for (const Body &body : bodies_)
        axes += body.kernel.axes.size();
    return axes;
}

void PieceBodies::finish(LoweredStep &step) {
    Kernel kernel = std::move(bodies_[0].kernel);
    for (size_t b = 1; b < bodies_.size(); ++b)
        append(kernel, std::move(bodies_[b].kernel));
    step.kernel = std::move(kernel);
    size_t segments = 0;
    for (const Body &body : bodies_)
        segments = std::max(segments, body.pieces.size());
    for (size_t s = 0; s < segments; ++s) {
        LoweredSegment &segment = step.segments.emplace_back();
        for (const Body &body : bodies_) {
            const bool has = s < body.pieces.size();
            const LoweredSegment &of = has ? body.pieces[s] : body.pieces.back();
            segment.buffers.insert(segment.buffers.end(), of.buffers.begin(), of.buffers.end());
            segment.args.insert(segment.args.end(), of.args.begin(), of.args.end());
            segment.scalars.insert(segment.scalars.end(), of.scalars.begin(), of.scalars.end());
            segment.absent.push_back(!has); // a body is one phase
        }
    }
}

} // namespace lz::passes
