#pragma once
/// Vector clocks: which steps are over when a stream comes to a step.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lz::passes {

/// A place in a stream: its `position`th step, counted from 1.
struct StreamPosition {
    uint32_t stream, position;
};

/// Steps are added in the order of the Program. What a stream has waited for holds for all its later steps.
class StreamClocks {
public:
    StreamClocks(size_t streams, size_t steps);

    /// `stream` goes on when `step`, which was added, is over.
    void wait(uint32_t stream, uint32_t step);
    /// The next step, on this stream.
    void add(uint32_t stream);

    /// Whether the next step of `stream` begins after `step` has ended.
    bool covers(uint32_t stream, uint32_t step) const {
        return now_[stream * streams_ + stream_[step]] >= position(step).position;
    }
    /// Whether `place` was over when `step`, which was added, began.
    bool over(uint32_t step, StreamPosition place) const {
        const uint32_t reached = at(step)[place.stream];
        return reached - (place.stream == stream_[step] ? 1 : 0) >= place.position;
    }
    StreamPosition position(uint32_t step) const { return {stream_[step], at(step)[stream_[step]]}; }
    /// The last step that was added on `stream`, or UINT32_MAX.
    uint32_t last(uint32_t stream) const { return last_[stream]; }

private:
    const uint32_t *at(uint32_t step) const { return after_.data() + size_t{step} * streams_; }

    size_t streams_;
    std::vector<uint32_t> now_;    // by stream, for each stream
    std::vector<uint32_t> after_;  // by step, for each stream: what is over when it is
    std::vector<uint32_t> stream_; // by step
    std::vector<uint32_t> last_;   // by stream
};

} // namespace lz::passes
