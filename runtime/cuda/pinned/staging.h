#pragma once
/// Two pinned pieces that copies of pageable memory on one stream go through in turns.

#include "runtime/cuda/device.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace lz::runtime::cuda {

/// Used while CudaStream::Beside is held.
struct Staging {
    /// Large enough for the link to be busy while the thread fills or empties the other one.
    static constexpr size_t kPieceBytes = size_t{4} << 20;

    /// The device's context is current.
    explicit Staging(const CudaDevice &device) : device_(device) {
        pieces[0] = static_cast<std::byte *>(device.allocate_pinned(2 * kPieceBytes));
        pieces[1] = pieces[0] + kPieceBytes;
    }
    ~Staging() { device_.free_pinned(pieces[0]); }
    Staging(const Staging &) = delete;
    Staging &operator=(const Staging &) = delete;

    std::array<std::byte *, 2> pieces{};
    std::array<uint64_t, 2> read{};    ///< the stream's tick after which the device has read a piece
    std::array<uint64_t, 2> emptied{}; ///< the word's value after which the thread has read it
    size_t next = 0;

private:
    const CudaDevice &device_;
};

} // namespace lz::runtime::cuda
