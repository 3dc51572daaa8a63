#pragma once
/// What the files of this folder share: the sync lock, and a thread's room for recordings.

#include "frontend/record/recording/recording.h"
#include "ir/host/hot_tls.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

namespace lz::detail {

inline std::mutex &sync_mutex() {
    static std::mutex *const mutex = new std::mutex;
    return *mutex;
}
inline constinit uint64_t last_epoch = 0; // under the sync lock

/// Room for so many more without an allocation.
template <class T>
void make_room(std::vector<T> &vector, size_t more) {
    if (vector.capacity() - vector.size() < more)
        vector.reserve(std::max(2 * vector.capacity(), vector.size() + more));
}

/// Vectors that keep their room between the syncs of a thread. A sync inside a sync (a deleter that syncs)
/// gets its own.
struct Recording::Scratch {
    std::vector<Operation> operations;
    std::vector<Input> inputs;
    std::vector<uint64_t> key;
    std::vector<int64_t> words;
    std::vector<uint32_t> wanted;
    std::vector<Alias> aliases;
    std::vector<Node *> awaited, stack, spare, latest_first;
    std::vector<int64_t> events;
    std::vector<ir::StreamRef> streams;
    Bound bound;
    Scratch *below = nullptr; ///< of those that are idle

    LZ_HOT_TLS static constinit thread_local Scratch *idle;
    struct Owner {
        ~Owner() {
            while (Scratch *s = idle) {
                idle = s->below;
                delete s;
            }
        }
    };
};

} // namespace lz::detail
