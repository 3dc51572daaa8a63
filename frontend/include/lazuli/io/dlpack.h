#pragma once
/// DLPack: tensors from and to other libraries in the process, without a copy. Include <dlpack/dlpack.h> for
/// the struct itself (https://dmlc.github.io/dlpack/).

#include "lazuli/tensor.h"

struct DLManagedTensor;

namespace lz {

/// The tensor's elements for another library, row-major: computed, and kept until the consumer calls the
/// struct's deleter, as the protocol says it must. The memory is that of the value: it may be read by
/// everybody and written by nobody. Elements on a GPU are complete when this returns, whatever stream the
/// consumer reads them on. Throws DeviceError for a virtual GPU, whose memory no other library knows.
[[nodiscard]] LZ_API DLManagedTensor *to_dlpack(const Tensor &tensor, Location loc = Location::current());

/// Another library's elements as a tensor, which nobody may write to as long as it lives. Takes over
/// `managed`: its deleter is called when no tensor uses the memory any more. What is not row-major is copied,
/// and the deleter called at once. Throws DTypeError for elements that there are not here, ShapeError for
/// more than 8 axes, DeviceError for memory that is not the host's (move it to the CPU there), and then
/// leaves `managed` to the caller.
[[nodiscard]] LZ_API Tensor from_dlpack(DLManagedTensor *managed, Location loc = Location::current());

} // namespace lz
