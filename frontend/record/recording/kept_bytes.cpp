#include "frontend/record/recording/kept_bytes.h"

#include "frontend/record/recording/scratch.h"
#include "frontend/record/storage.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace lz::detail {

int64_t kept_bytes(const Recorder &recorder) {
    std::vector<Node *> held, read;
    size_t count = 0;
    std::unique_lock lock(sync_mutex());
    const uint64_t epoch = ++last_epoch;
    // Nothing is thrown while uses are taken.
    held.reserve(recorder.count());
    for (Node *n = recorder.head(); n; n = n->next) {
        if (!n->pending()) // another thread's sync computes it, and lets go of its operands
            continue;
        for (const Node *operand : n->operands())
            count += operand->state.load(std::memory_order_acquire) == State::Ready;
    }
    read.reserve(count);
    for (Node *n = recorder.head(); n; n = n->next) {
        if (!n->pending() || !try_add_use(n)) // or its last handle has just gone, on another thread
            continue;
        held.push_back(n);
        for (Node *operand : n->operands()) {
            if (operand->state.load(std::memory_order_acquire) != State::Ready || !operand->storage)
                continue;
            if (operand->mark != epoch) {
                operand->mark = epoch;
                operand->inner_uses = 0;
                read.push_back(operand);
            }
            ++operand->inner_uses;
        }
    }
    int64_t bytes = 0;
    for (const Node *n : read)
        if (n->uses() == n->inner_uses && n->storage->refs.load(std::memory_order_acquire) == 1)
            bytes += n->storage->bytes;
    lock.unlock();
    for (Node *const n : held)
        drop_use(n);
    return bytes;
}

} // namespace lz::detail
