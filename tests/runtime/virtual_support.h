#pragma once
/// Launches of C++ functions on virtual GPUs, and things to hold a stream up with.

#include "runtime/virtual/backend.h"
#include "tests/support/failure_of.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <vector>

namespace lz::runtime::test {

using lz::test::failure_of;

inline constexpr size_t kMiB = size_t{1} << 20;

struct Gpus {
    explicit Gpus(int count, VirtualOptions options = {}) {
        options.count = count;
        if (options.memory_bytes == 0)
            options.memory_bytes = 256 * kMiB;
        all = make_virtual_gpus(options, {});
    }
    VirtualBackend &operator[](size_t i) { return static_cast<VirtualBackend &>(*all[i]); }
    std::vector<std::unique_ptr<Backend>> all;
};

/// One frame of any number of pointers, arguments and no scalars, launched as one item.
inline void launch(Backend &backend, StreamId stream, ir::PhaseEntry entry,
                   const std::vector<void *> &buffers, const std::vector<int64_t> &args = {},
                   OnDone done = {}, ir::Fault *fault = nullptr) {
    const ir::KernelFrame frame{buffers.data(), args.data(), nullptr, fault};
    const int64_t end = 1;
    Backend::Launch l{};
    l.entry = reinterpret_cast<void *>(entry);
    l.frames = &frame;
    l.ends = &end;
    l.segments = 1;
    l.buffers = static_cast<uint32_t>(buffers.size());
    l.args = static_cast<uint32_t>(args.size());
    backend.launch(l, stream, std::move(done));
}

/// An address as a kernel's argument: what tests pass that a device could not.
template <class T>
int64_t word(T *pointer) {
    return static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer));
}
template <class T>
T &at_word(const ir::KernelFrame *frame, size_t i) {
    return *reinterpret_cast<T *>(static_cast<intptr_t>(frame->args[i]));
}

/// Holds up whoever waits until it is opened.
class Door {
public:
    void open() {
        open_ = true;
        open_.notify_all();
    }
    void wait() const { open_.wait(false); }
    bool is_open() const { return open_; }

private:
    std::atomic<bool> open_{false};
};
inline void wait_for_door(const ir::KernelFrame *frame, int64_t, int64_t, void *) {
    at_word<Door>(frame, 0).wait();
}
inline void open_door(const ir::KernelFrame *frame, int64_t, int64_t, void *) {
    at_word<Door>(frame, 0).open();
}
/// *buffer = *buffer * 10 + args[0]
inline void append_digit(const ir::KernelFrame *frame, int64_t, int64_t, void *) {
    auto *value = static_cast<int64_t *>(frame->buffers[0]);
    *value = *value * 10 + frame->args[0];
}

inline void finish(Backend &backend, StreamId stream) {
    backend.synchronize(stream, backend.record(stream));
}

/// The bytes of device memory, read by a copy.
template <class T>
T read(Backend &backend, const void *from, StreamId stream = 0) {
    T value{};
    backend.copy(&value, from, sizeof(T), stream);
    finish(backend, stream);
    return value;
}
template <class T>
void write(Backend &backend, void *to, const T &value, StreamId stream = 0) {
    backend.copy(to, &value, sizeof(T), stream);
    finish(backend, stream);
}

} // namespace lz::runtime::test
