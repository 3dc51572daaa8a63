#pragma once
/// One GPU as its backend, streams and modules share it: driver, context, and whether it is lost.

#include "ir/stream.h"
#include "ir/target.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/streams/group.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lz::runtime::cuda {

class CudaDevice {
public:
    /// The driver's device `ordinal`, which programs call cuda:`index`.
    CudaDevice(const Driver &driver, int ordinal, int index);
    ~CudaDevice();
    CudaDevice(const CudaDevice &) = delete;
    CudaDevice &operator=(const CudaDevice &) = delete;

    const Driver &driver() const { return driver_; }
    CUdevice handle() const { return handle_; }
    /// The primary context, retained when it is first asked for: it takes time, and memory of the GPU. Throws
    /// as `check`.
    CUcontext context() const {
        const CUcontext made = context_.load(std::memory_order_acquire);
        return made ? made : make_context();
    }
    int ordinal() const { return ordinal_; }
    int index() const { return index_; }
    const std::string &name() const { return name_; } ///< `cuda:0`
    const std::shared_ptr<StreamGroup> &group() const { return group_; }

    /// Throws when the device is lost, and Failure(OutOfMemory) or Failure(Cuda) for what failed: `what` is a
    /// phrase such as `a launch`. An error after which the context is of no use loses the device.
    void check(CUresult result, std::string_view what) const;
    /// The same where nobody can be told: the device may be lost after it.
    void note(CUresult result, std::string_view what) const noexcept;
    int attribute(CUdevice_attribute which) const;

    /// Page-locked memory that every device reaches at the same address.
    void *allocate_pinned(size_t bytes) const;
    void free_pinned(void *memory) const noexcept;

    /// A word of page-locked memory, 0 at first, which a stream can wait for: `stream` of this device, or one
    /// of the CPU's.
    uint64_t *own_word(int32_t stream) const { return words() + stream; }
    uint64_t *cpu_word(int32_t stream) const { return words() + ir::kMaxStreams + stream; }

private:
    CUcontext make_context() const;
    uint64_t *words() const {
        context(); // they are made with it
        return words_;
    }

    const Driver &driver_;
    const int ordinal_, index_;
    const std::string name_;
    CUdevice handle_ = 0;
    const std::shared_ptr<StreamGroup> group_;
    mutable std::mutex context_mutex_; ///< of who makes it
    mutable std::atomic<CUcontext> context_ = nullptr;
    mutable uint64_t *words_ = nullptr;
};

/// Writes a word when it dies: after the work that holds it, or when there will be none.
class Signal {
public:
    Signal(uint64_t *word, uint64_t value) : word_(word), value_(value) {}
    ~Signal() {
        if (word_)
            std::atomic_ref(*word_).store(value_, std::memory_order_release);
    }
    Signal(const Signal &) = delete;
    Signal &operator=(const Signal &) = delete;
    /// Writes nothing: what it belongs to was never put.
    void give_up() { word_ = nullptr; }

private:
    uint64_t *word_;
    const uint64_t value_;
};

/// The device's context is current on this thread while it lives. Throws when that fails.
class Entered {
public:
    Entered(const CudaDevice &device, std::string_view what) : current_(device.driver(), device.context()) {
        device.check(current_.result(), what);
    }

private:
    Current current_;
};

} // namespace lz::runtime::cuda
