#pragma once
/// Events: each recording is a moment of its own, which later waits hold on to.

#include "tests/support/cuda/driver/handles.h"
#include "tests/support/cuda/driver/streams/work.h"

namespace lz::fake_cuda {

struct Capture;

struct Event {
    Context *context = nullptr;
    unsigned flags = 0;
    std::shared_ptr<Record> last;   ///< null: never recorded
    std::weak_ptr<Capture> capture; ///< recorded in a capturing stream last
    std::vector<Node *> captured;   ///< what it comes after there
    bool is_captured = false;
};

Handles<CUevent, Event> &events();
/// A new moment, which becomes the event's last.
std::shared_ptr<Record> new_record(Event &event);

} // namespace lz::fake_cuda
