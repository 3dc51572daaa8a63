#include "lazuli/io/dlpack.h"

#include "frontend/io/strided.h"
#include "lazuli/cuda.h"
#include "lazuli/ops/creation.h"

#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include <array>

namespace lz {

namespace {

constexpr uint8_t kBoolCode = 6; // kDLBool, which headers before version 0.8 do not name

struct Row {
    DType dtype;
    uint8_t code, bits;
};
constexpr std::array<Row, 10> kDtypes{{{DType::Bool, kBoolCode, 8},
                                       {DType::U8, kDLUInt, 8},
                                       {DType::I8, kDLInt, 8},
                                       {DType::I16, kDLInt, 16},
                                       {DType::I32, kDLInt, 32},
                                       {DType::I64, kDLInt, 64},
                                       {DType::F16, kDLFloat, 16},
                                       {DType::BF16, kDLBfloat, 16},
                                       {DType::F32, kDLFloat, 32},
                                       {DType::F64, kDLFloat, 64}}};

struct Exported {
    DLManagedTensor managed{};
    Tensor value;
    Sizes sizes, strides;
};

void release(DLManagedTensor *managed) {
    if (managed->deleter)
        managed->deleter(managed);
}

} // namespace

DLManagedTensor *to_dlpack(const Tensor &tensor, Location loc) {
    auto out = std::make_unique<Exported>();
    out->value = tensor.detach(loc); // changes of `tensor` in place are not this value's
    out->sizes = tensor.sizes();
    out->strides = out->sizes;
    int64_t stride = 1;
    for (size_t i = out->sizes.size(); i > 0; --i) {
        out->strides[i - 1] = stride;
        stride *= std::max<int64_t>(out->sizes[i - 1], 1);
    }
    const Device device = tensor.device();
    if (device.is_cuda() && cuda::get_device_properties(device, loc).is_virtual)
        throw DeviceError(
            fmt::format("to_dlpack: the tensor is on {}, which is a virtual GPU: no other library knows "
                        "its memory. Move it with .cpu()",
                        device.str()),
            loc);
    DLTensor &view = out->managed.dl_tensor;
    view.data = tensor.numel() == 0 ? nullptr : const_cast<void *>(out->value.data<void>(loc));
    if (device.is_cuda())
        cuda::synchronize(device, loc);
    view.device = {device.is_cuda() ? kDLCUDA : kDLCPU, device.is_cuda() ? device.index() : 0};
    view.ndim = static_cast<int>(out->sizes.size());
    for (const Row &row : kDtypes)
        if (row.dtype == tensor.dtype())
            view.dtype = {row.code, row.bits, 1};
    view.shape = out->sizes.data();
    view.strides = out->strides.data();
    view.byte_offset = 0;
    out->managed.manager_ctx = out.get();
    out->managed.deleter = [](DLManagedTensor *managed) {
        delete static_cast<Exported *>(managed->manager_ctx);
    };
    return &out.release()->managed;
}

Tensor from_dlpack(DLManagedTensor *managed, Location loc) {
    if (!managed)
        throw StateError("from_dlpack: the tensor is a null pointer", loc);
    const DLTensor &view = managed->dl_tensor;
    constexpr int kMaxRank = 8;
    if (view.ndim < 0 || view.ndim > kMaxRank)
        throw ShapeError(fmt::format("from_dlpack: {} axes; a tensor has at most {}", view.ndim, kMaxRank),
                         loc);
    if (view.device.device_type != kDLCPU && view.device.device_type != kDLCUDAHost)
        throw DeviceError(
            fmt::format("from_dlpack: the elements are on a device of type {}; memory of the host is taken. "
                        "Move them to the CPU there",
                        static_cast<int>(view.device.device_type)),
            loc);
    const auto *const row = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Row &r) {
        return r.code == view.dtype.code && r.bits == view.dtype.bits && view.dtype.lanes == 1;
    });
    if (row == kDtypes.end())
        throw DTypeError(
            fmt::format("from_dlpack: elements of type code {}, {} bits and {} lanes are not known here",
                        view.dtype.code, view.dtype.bits, view.dtype.lanes),
            loc);
    const auto axes = static_cast<size_t>(view.ndim);
    const Sizes sizes(std::span<const int64_t>(view.shape, axes));
    int64_t count = 1;
    for (const int64_t extent : sizes) {
        if (extent < 0)
            throw ShapeError(fmt::format("from_dlpack: an axis has {} elements", extent), loc);
        count *= extent;
    }
    if (count == 0) {
        Tensor none = empty(sizes, {.dtype = row->dtype, .device = Device::cpu()}, loc);
        release(managed);
        return none;
    }
    if (!view.data)
        throw StateError("from_dlpack: the address of the elements is a null pointer", loc);
    auto *const data = static_cast<std::byte *>(view.data) + view.byte_offset;
    const auto width = static_cast<size_t>(size_of(row->dtype));
    const bool aligned = reinterpret_cast<uintptr_t>(data) % width == 0;
    const Sizes strides = view.strides ? Sizes(std::span<const int64_t>(view.strides, axes)) : Sizes();
    const bool dense = !view.strides || io::is_row_major(sizes, strides);
    if (dense && aligned)
        return detail::tensor_adopting(
            data, row->dtype, sizes,
            [](void *, void *context) { release(static_cast<DLManagedTensor *>(context)); }, managed, loc);
    const TensorOptions options = {.dtype = row->dtype, .device = Device::cpu()};
    Tensor copy;
    if (dense)
        copy = from_blob(static_cast<const void *>(data), sizes, options, loc);
    else
        copy =
            from_blob(static_cast<const void *>(io::in_row_major_order(data, sizes, strides, width).data()),
                      sizes, options, loc);
    release(managed);
    return copy;
}

} // namespace lz
