#pragma once
/// DLPack: tensors from and to other libraries in the process, without a copy, on the CPU and on CUDA
/// devices. Include <dlpack/dlpack.h> for the struct itself (https://dmlc.github.io/dlpack/).
///
///     const auto stream = lz::DlpackStream::of(their_stream);
///     lz::Tensor x = lz::from_dlpack(theirs, stream);         // read when what they put there is done
///     DLManagedTensor *ours = lz::to_dlpack(x + 1, stream);   // their stream goes on with it

#include "lazuli/tensor.h"

#include <cstdint>

struct DLManagedTensor;

namespace lz {

namespace detail {
/// A tensor that adopts memory of a CUDA device, written by what another library has put so far on the stream
/// that `stream` points to; null: it has been written.
LZ_API Tensor tensor_adopting_of(const Device &device, void *const *stream, void *data, DType dtype,
                                 const Sizes &sizes, void (*deleter)(void *data, void *context),
                                 void *context, Location loc);
/// Where the elements of a tensor on a CUDA device are, which has one; the other library's stream goes on
/// when they are there. Sync point: launches, and waits only for what may still turn out to have failed.
LZ_API void *shown_to_stream(const Tensor &tensor, void *stream, Location loc);
/// The memory of a tensor is not used again before what the stream does now is over. Where that cannot be
/// had, waits for the device.
LZ_API void used_by_stream(const Tensor &tensor, void *stream) noexcept;
} // namespace detail

/// A stream of another library on the CUDA device of a tensor, by the numbers of `__dlpack__(stream)` in the
/// Python array API standard. For tensors on the CPU it says nothing.
class DlpackStream {
public:
    /// CUDA's legacy default stream, which comes after the blocking streams of its device.
    static constexpr DlpackStream legacy() { return DlpackStream(1); }
    /// The calling thread's default stream.
    static constexpr DlpackStream per_thread() { return DlpackStream(2); }
    /// A cudaStream_t, which is a CUstream; null is the legacy default stream. It has to exist as long as
    /// the DLManagedTensor.
    static DlpackStream of(void *stream) {
        return stream ? DlpackStream(static_cast<int64_t>(reinterpret_cast<intptr_t>(stream))) : legacy();
    }
    /// By number: 1 and 2 are those above, 0 is none; -1 says that the caller sees to the order alone; any
    /// other number is a stream.
    constexpr explicit DlpackStream(int64_t number) : number_(number) {}
    /// The number.
    constexpr int64_t number() const { return number_; }

private:
    int64_t number_;
};

/// The tensor's elements for another library, row-major: computed, and kept until the consumer calls the
/// struct's deleter, as the protocol says it must. The memory is that of the value: it may be read by
/// everybody and written by nobody. Elements on a GPU are complete when this returns, whatever stream the
/// consumer reads them on, and it has finished with them when it calls the deleter. Throws DeviceError for a
/// virtual GPU, whose memory no other library knows.
[[nodiscard]] LZ_API DLManagedTensor *to_dlpack(const Tensor &tensor, Location loc = Location::current());

/// The same for a consumer that reads on this stream: nobody waits, but the stream goes on when the elements
/// are there, and their memory is used again after what is on the stream when the deleter is called. Throws
/// StateError for a number that is no stream's.
[[nodiscard]] LZ_API DLManagedTensor *to_dlpack(const Tensor &tensor, DlpackStream consumer,
                                                Location loc = Location::current());

/// Another library's elements as a tensor, on the CPU or on the CUDA device where they are; nobody may write
/// to them as long as it lives. Takes over `managed`: its deleter is called when no tensor uses the memory
/// any more and what used it is over: whoever lets go of the last one waits for that. What is not row-major
/// is copied: on the CPU at once, on a GPU when it is first needed, but that axes in another order are a
/// view, which work reads where it is.
///
/// Elements on a GPU are those that are there after what has been put on `producer` so far: work that reads
/// them comes after that, and nobody waits.
///
/// Throws DTypeError for elements that there are not here, ShapeError for more than 8 axes, DeviceError for
/// memory of another kind of device, of a GPU that is not there, and of any while the GPUs are virtual ones
/// (move it to the CPU there), StateError for a number that is no stream's, and then leaves `managed` to the
/// caller.
[[nodiscard]] LZ_API Tensor from_dlpack(DLManagedTensor *managed,
                                        DlpackStream producer = DlpackStream::legacy(),
                                        Location loc = Location::current());

} // namespace lz
