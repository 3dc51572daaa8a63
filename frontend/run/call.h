#pragma once
/// One call of a loaded Program on memory of the host: what it takes on GPUs is copied there, and what it
/// gives there is copied back.

#include "frontend/run/devices.h"
#include "ir/program/run.h"
#include "runtime/executor/executor.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace lz::run {

/// Memory of a GPU. What uses it is over when it is destroyed.
class DeviceBlock {
public:
    /// Throws Failure(OutOfMemory). Work put on the home before may still use it.
    DeviceBlock(ir::StreamRef home, int64_t bytes)
        : home_(home), data_(RunDevices::get()
                                 .slot(home.device)
                                 .allocator->allocate(static_cast<size_t>(bytes), home.stream)) {}
    DeviceBlock(DeviceBlock &&other) noexcept
        : home_(other.home_), data_(std::exchange(other.data_, nullptr)) {}
    DeviceBlock &operator=(DeviceBlock &&) = delete;
    ~DeviceBlock() {
        if (data_)
            RunDevices::get().slot(home_.device).allocator->free(data_);
    }
    void *data() const { return data_; }
    ir::StreamRef home() const { return home_; }
    /// Copies into it, in the order of its home; the moment when that is done.
    ir::Point fill(const void *from, int64_t bytes) const;

private:
    ir::StreamRef home_;
    void *data_; ///< null where there are no bytes
};

/// Until what was put on streams up to these moments is over, or its device is lost.
void wait_quietly(std::span<const ir::Point> points) noexcept;

class Call {
public:
    Call(const runtime::LoadedProgram &program, size_t inputs, size_t results) : program_(program) {
        inputs_.reserve(inputs);
        results_.reserve(results);
        if (on_streams_)
            input_uses_.reserve(inputs);
    }
    /// What is on streams for it is over then.
    ~Call() { wait_quietly(points_); }
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    /// The next input, elements in the host's memory, which the Program wants on a device.
    void add_input(const void *elements, const ir::TensorType &type);
    /// The next input, where it is: on the host, or what nobody writes any more.
    void add_input(void *there);
    /// The next result, which goes to memory of the host.
    void add_result(void *to, const ir::TensorType &type);
    /// Runs it to its end; results are there when nothing failed.
    ir::RunReport run(std::span<const int64_t> words);

private:
    void wait() const;

    const DeviceBlock &new_block(ir::StreamRef home, int64_t bytes);

    /// That is copied when all is over.
    struct Result {
        void *to;
        int64_t bytes;
        const DeviceBlock *from;
    };
    const runtime::LoadedProgram &program_;
    const bool on_streams_ = !program_.cpu_only();
    std::vector<std::unique_ptr<const DeviceBlock>> blocks_; ///< where they are named by others
    std::vector<std::unique_ptr<ir::MemoryUse>> uses_;
    std::vector<void *> inputs_, results_;
    std::vector<ir::MemoryUse *> input_uses_; ///< with streams; null: nothing is pending
    std::vector<Result> copies_;
    std::vector<ir::Point> points_; ///< after which all is over
};

} // namespace lz::run
