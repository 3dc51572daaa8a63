#include "runtime/streams/table.h"

#include <fmt/format.h>

namespace lz::runtime {

StreamQueue &StreamTable::make(StreamId stream) {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<size_t>(stream);
    if (stream < 0 || stream >= ir::kMaxStreams || (stream >= ir::kFirstUserStream && !taken_[index]))
        throw ir::Failure(ir::ErrorKind::Device,
                          fmt::format("{} has no stream {}; streams of the user's are made by create_stream.",
                                      group_->name(), stream));
    if (!owners_[index]) {
        owners_[index] = std::make_shared<StreamQueue>(group_, stream, options_);
        queues_[index].store(owners_[index].get(), std::memory_order_release);
    }
    return *owners_[index];
}

StreamId StreamTable::create(int priority) {
    StreamId stream = ir::kFirstUserStream;
    {
        const std::lock_guard lock(mutex_);
        while (stream < ir::kMaxStreams && taken_[static_cast<size_t>(stream)])
            ++stream;
        if (stream < ir::kMaxStreams)
            taken_.set(static_cast<size_t>(stream));
    }
    if (stream == ir::kMaxStreams)
        throw ir::Failure(ir::ErrorKind::Device,
                          fmt::format("{} has {} streams of the user's, and no more than that at a time.",
                                      group_->name(), ir::kMaxStreams - ir::kFirstUserStream));
    make(stream).set_priority(priority);
    return stream;
}

void StreamTable::destroy(StreamId stream) noexcept {
    const std::lock_guard lock(mutex_);
    if (stream >= ir::kFirstUserStream && stream < ir::kMaxStreams)
        taken_.reset(static_cast<size_t>(stream));
}

void StreamTable::drain() {
    for_each([](StreamQueue &queue) { queue.await(queue.ticks()); });
}

} // namespace lz::runtime
