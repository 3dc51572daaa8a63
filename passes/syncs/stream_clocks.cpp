#include "passes/syncs/stream_clocks.h"

#include <algorithm>

namespace lz::passes {

StreamClocks::StreamClocks(size_t streams, size_t steps)
    : streams_(streams), now_(streams * streams, 0), last_(streams, UINT32_MAX) {
    after_.reserve(steps * streams);
    stream_.reserve(steps);
}

void StreamClocks::wait(uint32_t stream, uint32_t step) {
    uint32_t *now = now_.data() + stream * streams_;
    const uint32_t *other = at(step);
    for (size_t k = 0; k < streams_; ++k)
        now[k] = std::max(now[k], other[k]);
}

void StreamClocks::add(uint32_t stream) {
    uint32_t *now = now_.data() + stream * streams_;
    ++now[stream];
    last_[stream] = static_cast<uint32_t>(stream_.size());
    stream_.push_back(stream);
    after_.insert(after_.end(), now, now + streams_);
}

} // namespace lz::passes
