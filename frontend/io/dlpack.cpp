#include "lazuli/io/dlpack.h"

#include "frontend/io/strided.h"
#include "lazuli/device/cuda.h"
#include "lazuli/ops.h"

#include <dlpack/dlpack.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

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

/// A stream as CUDA's driver takes it: 1 and 2 are handles there, too.
struct DriverStream {
    bool none; ///< the caller sees to the order
    void *handle;
};

DriverStream driver_stream(const char *function, DlpackStream stream, Location loc) {
    if (stream.number() == 0)
        throw StateError(
            fmt::format("{}: {} is the number of no stream; 1 is the legacy default stream, 2 the thread's "
                        "default stream, a cudaStream_t is its own number, and -1 says that order is seen to",
                        function, stream.number()),
            loc);
    return {stream.number() == -1,
            reinterpret_cast<void *>(static_cast<intptr_t>(stream.number()))}; // NOLINT
}

void check_cuda(const char *function, const char *moved, const Device &device, Location loc) {
    if (cuda::get_device_properties(device, loc).is_virtual)
        throw DeviceError(fmt::format("{}: {} is a virtual GPU: no other library knows its memory, nor it "
                                      "theirs. Move the tensor to the CPU {}",
                                      function, device.str(), moved),
                          loc);
}

struct Exported {
    DLManagedTensor managed{};
    Tensor value;
    Sizes sizes, strides;
    std::optional<DriverStream> read_on; ///< of elements on a GPU

    Exported() = default;
    Exported(const Exported &) = delete;
    Exported &operator=(const Exported &) = delete;
    ~Exported() {
        if (read_on && !read_on->none)
            detail::used_by_stream(value, read_on->handle);
    }
};

void release(DLManagedTensor *managed) {
    if (managed->deleter)
        managed->deleter(managed);
}

DLManagedTensor *exported(const Tensor &tensor, std::optional<DlpackStream> consumer, Location loc) {
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
    const DriverStream reads = driver_stream("to_dlpack", consumer.value_or(DlpackStream::legacy()), loc);
    DLTensor &view = out->managed.dl_tensor;
    view.data = nullptr;
    if (device.is_cuda()) {
        check_cuda("to_dlpack", "with .cpu()", device, loc);
        if (tensor.numel() > 0) {
            view.data = consumer && !reads.none
                            ? detail::shown_to_stream(out->value, reads.handle, loc)
                            : const_cast<void *>(out->value.data<void>(loc)); // waits for the value
            out->read_on = reads;
        }
    } else if (tensor.numel() > 0) {
        view.data = const_cast<void *>(out->value.data<void>(loc));
    }
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

/// What a DLTensor says, checked.
struct Taken {
    DType dtype;
    size_t width; ///< bytes of an element
    Sizes sizes, strides;
    int64_t count = 1;
    std::byte *first = nullptr; ///< the element at [0, ..., 0]
};

Taken checked(const DLTensor &view, Location loc) {
    constexpr int kMaxRank = 8;
    if (view.ndim < 0 || view.ndim > kMaxRank)
        throw ShapeError(fmt::format("from_dlpack: {} axes; a tensor has at most {}", view.ndim, kMaxRank),
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
    Taken out{row->dtype,
              static_cast<size_t>(size_of(row->dtype)),
              Sizes(std::span<const int64_t>(view.shape, axes)),
              {}};
    for (const int64_t extent : out.sizes) {
        if (extent < 0)
            throw ShapeError(fmt::format("from_dlpack: an axis has {} elements", extent), loc);
        out.count = extent == 0 ? 0 : out.count;
        if (out.count > 0 && __builtin_mul_overflow(out.count, extent, &out.count))
            throw ShapeError("from_dlpack: there are more elements than a 64-bit number can count", loc);
    }
    out.strides = out.sizes;
    int64_t stride = 1;
    for (size_t i = axes; i > 0; --i) {
        out.strides[i - 1] = view.strides ? view.strides[i - 1] : stride;
        stride *= std::max<int64_t>(out.sizes[i - 1], 1);
    }
    if (out.count > 0 && !view.data)
        throw StateError("from_dlpack: the address of the elements is a null pointer", loc);
    if (out.count > 0)
        out.first = static_cast<std::byte *>(view.data) + view.byte_offset;
    return out;
}

void call_deleter(void *, void *managed) {
    release(static_cast<DLManagedTensor *>(managed));
}

Tensor from_host_memory(DLManagedTensor *managed, const Taken &in, Location loc) {
    const bool aligned = reinterpret_cast<uintptr_t>(in.first) % in.width == 0;
    const bool dense = io::is_row_major(in.sizes, in.strides);
    if (dense && aligned)
        return detail::tensor_adopting(in.first, in.dtype, in.sizes, call_deleter, managed, loc);
    const TensorOptions options = {.dtype = in.dtype, .device = Device::cpu()};
    const Tensor copy =
        dense ? from_blob(static_cast<const void *>(in.first), in.sizes, options, loc)
              : from_blob(static_cast<const void *>(
                              io::in_row_major_order(in.first, in.sizes, in.strides, in.width).data()),
                          in.sizes, options, loc);
    release(managed);
    return copy;
}

/// The order of axes in which the strides fall; axes of one element go where they do not matter.
Sizes falling_strides(const Taken &in) {
    Sizes order = in.sizes;
    std::iota(order.begin(), order.end(), 0);
    const auto stride = [&](int64_t axis) {
        const auto a = static_cast<size_t>(axis);
        return in.sizes[a] == 1 ? INT64_MAX : in.strides[a];
    };
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return stride(a) != stride(b) ? stride(a) > stride(b) : a < b; });
    return order;
}

Sizes in_order(const Sizes &values, const Sizes &order) {
    Sizes out = order;
    for (size_t i = 0; i < order.size(); ++i)
        out[i] = values[static_cast<size_t>(order[i])];
    return out;
}

/// Elements [0, n) of memory, of which these are some, and which of them they are.
struct Spread {
    int64_t before = 0; ///< elements in front of the first
    int64_t span = 0;
};

Spread spread_of(const Taken &in, Location loc) {
    __int128 low = 0, high = 0;
    for (size_t i = 0; i < in.sizes.size(); ++i)
        (in.strides[i] < 0 ? low : high) += static_cast<__int128>(in.sizes[i] - 1) * in.strides[i];
    if (high - low >= INT64_MAX / static_cast<int64_t>(in.width))
        throw ShapeError(fmt::format("from_dlpack: sizes [{}] and strides [{}] reach beyond any memory",
                                     fmt::join(in.sizes, ","), fmt::join(in.strides, ",")),
                         loc);
    return {static_cast<int64_t>(-low), static_cast<int64_t>(high - low) + 1};
}

Tensor from_device_memory(DLManagedTensor *managed, const Taken &in, const Device &device,
                          DlpackStream producer, Location loc) {
    check_cuda("from_dlpack", "there", device, loc);
    DriverStream wrote = driver_stream("from_dlpack", producer, loc);
    if (reinterpret_cast<uintptr_t>(in.first) % in.width != 0)
        throw StateError(fmt::format("from_dlpack: the address of the elements is no multiple of their {} "
                                     "bytes, and a GPU cannot read them there",
                                     in.width),
                         loc);
    const auto adopted = [&](std::byte *first, const Sizes &sizes) {
        return detail::tensor_adopting_of(device, wrote.none ? nullptr : &wrote.handle, first, in.dtype,
                                          sizes, call_deleter, managed, loc);
    };
    if (io::is_row_major(in.sizes, in.strides))
        return adopted(in.first, in.sizes);
    const Sizes order = falling_strides(in), sizes = in_order(in.sizes, order);
    if (io::is_row_major(sizes, in_order(in.strides, order))) {
        Sizes back = order;
        for (size_t i = 0; i < order.size(); ++i)
            back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
        return adopted(in.first, sizes).permute(back, loc);
    }
    const Spread spread = spread_of(in, loc);
    const Tensor all = adopted(in.first - spread.before * static_cast<int64_t>(in.width), {spread.span});
    Tensor places = full({}, spread.before, {.dtype = DType::I64, .device = device}, loc);
    for (size_t i = 0; i < in.sizes.size(); ++i) {
        Sizes along = in.sizes;
        std::fill(along.begin(), along.end(), 1);
        along[i] = in.sizes[i];
        places = places + (arange(in.sizes[i], {.dtype = DType::I64, .device = device}, loc) * in.strides[i])
                              .reshape(along, loc);
    }
    return all.index_select(0, places.flatten(0, -1, loc), loc).reshape(in.sizes, loc);
}

} // namespace

DLManagedTensor *to_dlpack(const Tensor &tensor, Location loc) {
    return exported(tensor, std::nullopt, loc);
}
DLManagedTensor *to_dlpack(const Tensor &tensor, DlpackStream consumer, Location loc) {
    return exported(tensor, consumer, loc);
}

Tensor from_dlpack(DLManagedTensor *managed, DlpackStream producer, Location loc) {
    if (!managed)
        throw StateError("from_dlpack: the tensor is a null pointer", loc);
    const DLTensor &view = managed->dl_tensor;
    const bool on_gpu = view.device.device_type == kDLCUDA;
    if (!on_gpu && view.device.device_type != kDLCPU && view.device.device_type != kDLCUDAHost)
        throw DeviceError(
            fmt::format("from_dlpack: the elements are on a device of type {}; memory of the host and of "
                        "CUDA devices is taken. Move them to the CPU there",
                        static_cast<int>(view.device.device_type)),
            loc);
    const Taken in = checked(view, loc);
    const Device device = on_gpu ? Device::cuda(view.device.device_id) : Device::cpu();
    if (in.count == 0) {
        Tensor none = empty(in.sizes, {.dtype = in.dtype, .device = device}, loc);
        release(managed);
        return none;
    }
    return on_gpu ? from_device_memory(managed, in, device, producer, loc)
                  : from_host_memory(managed, in, loc);
}

} // namespace lz
