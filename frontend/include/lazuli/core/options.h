#pragma once
/// What a creating function may be told.

#include "lazuli/core/dtype.h"
#include "lazuli/device/device.h"

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <type_traits>

namespace lz {

/// A device, or none. Text is read at the line where it is written, which its error then names.
class OptionalDevice : public std::optional<Device> {
public:
    constexpr OptionalDevice(std::nullopt_t = std::nullopt) {}                          // NOLINT: converts
    constexpr OptionalDevice(const std::optional<Device> &device) : optional(device) {} // NOLINT: converts
    template <class T>
        requires std::is_convertible_v<const T &, Device>
    constexpr OptionalDevice(const T &device, Location loc = Location::current()) { // NOLINT: converts
        if constexpr (std::is_constructible_v<Device, const T &, Location>)
            emplace(device, loc);
        else
            emplace(device);
    }
};

struct TensorOptions;

// LibTorch's names.
using std::make_optional;
using std::nullopt;
using std::optional;

namespace detail {

// The fields of TensorOptions, which can be called, too: `TensorOptions().dtype(f64)` are the options that
// the field is one of, with another value. A field is nothing outside of its options.

/// A dtype, or none.
class DTypeField : public std::optional<DType> {
public:
    constexpr DTypeField(std::nullopt_t = std::nullopt) {}                       // NOLINT: converts
    constexpr DTypeField(DType dtype) : optional(dtype) {}                       // NOLINT: converts
    constexpr DTypeField(const std::optional<DType> &dtype) : optional(dtype) {} // NOLINT: converts
    /// With this dtype.
    TensorOptions operator()(DType dtype) const;
};

/// A device, or none.
class DeviceField : public OptionalDevice {
public:
    constexpr DeviceField(std::nullopt_t = std::nullopt) {}                                // NOLINT: converts
    constexpr DeviceField(const std::optional<Device> &device) : OptionalDevice(device) {} // NOLINT: converts
    template <class T>
        requires std::is_convertible_v<const T &, Device>
    constexpr DeviceField(const T &device, Location loc = Location::current()) // NOLINT: converts
        : OptionalDevice(device, loc) {}
    /// On this device.
    TensorOptions operator()(const Device &device) const;
    /// On this GPU: `TensorOptions().device(kCUDA, 1)`.
    TensorOptions operator()(DeviceType type, int index) const;
};

/// Yes or no.
template <int which>
class FlagField {
public:
    constexpr FlagField(bool value = false) : value_(value) {} // NOLINT: converts
    constexpr operator bool() const { return value_; }         // NOLINT: converts
    /// With this value.
    TensorOptions operator()(bool value = true) const;

private:
    bool value_;
};

} // namespace detail

/// How elements lie in memory: row-major, always.
enum class Layout : uint8_t { Strided };

/// Written as `zeros({2, 3}, {.dtype = f64, .device = "cuda:1"})`, or as in LibTorch: `TensorOptions()
/// .dtype(f64).device("cuda:1")`, `dtype(f64).requires_grad(true)`. What is left out is the default dtype and
/// device, or that of the tensor given (`zeros_like`, `new_zeros`).
struct TensorOptions {
    /// The element type.
    detail::DTypeField dtype = std::nullopt;
    /// Where it lives.
    detail::DeviceField device = std::nullopt;
    /// Page-locked memory of the host (S31): for tensors on the CPU. Throws DeviceError where there is no
    /// GPU.
    detail::FlagField<0> pinned = false;
    /// As `requires_grad_()`: floats only.
    detail::FlagField<1> requires_grad = false;

    /// LibTorch's name of `pinned`.
    TensorOptions pinned_memory(bool value = true) const { return pinned(value); }
    /// There is no other.
    TensorOptions layout(Layout) const { return *this; }
};
/// Prints `TensorOptions(dtype=f32, device=cpu, requires_grad=false, pinned=false)`; `default` for what is
/// left out.
LZ_API std::ostream &operator<<(std::ostream &out, const TensorOptions &options);

namespace detail {

/// The options that a field is one of, which lies `offset` bytes behind their beginning.
inline TensorOptions options_of(const void *field, size_t offset) {
    return *reinterpret_cast<const TensorOptions *>(reinterpret_cast<uintptr_t>(field) - offset); // NOLINT
}
inline TensorOptions DTypeField::operator()(DType dtype) const {
    TensorOptions options = options_of(this, offsetof(TensorOptions, dtype));
    options.dtype = dtype;
    return options;
}
inline TensorOptions DeviceField::operator()(const Device &device) const {
    TensorOptions options = options_of(this, offsetof(TensorOptions, device));
    options.device = std::optional(device);
    return options;
}
inline TensorOptions DeviceField::operator()(DeviceType type, int index) const {
    return (*this)(Device(type, index));
}
template <int which>
TensorOptions FlagField<which>::operator()(bool value) const {
    if constexpr (which == 0) {
        TensorOptions options = options_of(this, offsetof(TensorOptions, pinned));
        options.pinned = value;
        return options;
    } else {
        TensorOptions options = options_of(this, offsetof(TensorOptions, requires_grad));
        options.requires_grad = value;
        return options;
    }
}

} // namespace detail

/// Options with this dtype: `zeros({2}, dtype(f64).device("cuda"))`.
inline TensorOptions dtype(DType dtype) {
    return {.dtype = dtype};
}
/// Options with this device.
inline TensorOptions device(const Device &device) {
    return {.device = std::optional(device)};
}
/// Options with this GPU.
inline TensorOptions device(DeviceType type, int index) {
    return device(Device(type, index));
}
/// Options of a leaf.
inline TensorOptions requires_grad(bool requires_grad = true) {
    return {.requires_grad = requires_grad};
}
/// Options of a tensor in page-locked memory.
inline TensorOptions pinned_memory(bool pinned = true) {
    return {.pinned = pinned};
}
/// Options that say nothing.
inline TensorOptions layout(Layout) {
    return {};
}

/// What may stand where options do: `zeros({2}, f64)`, `zeros({2}, x.device())`, `zeros({2}, kCUDA)`.
template <class T>
concept OptionKind =
    std::is_same_v<T, DType> || (std::is_convertible_v<const T &, Device> && !std::is_arithmetic_v<T>);

namespace detail {
template <OptionKind T>
TensorOptions options_from(const T &kind, Location loc) {
    if constexpr (std::is_same_v<T, DType>)
        return {.dtype = kind};
    else
        return {.device = DeviceField(kind, loc)};
}
} // namespace detail

/// How a copy between devices is made. Copies never make the host wait and are always ordered with what reads
/// and writes either side (S30, S33), so that the option changes no result.
struct CopyOptions {
    /// A copy to the CPU then goes to pinned memory, which the GPU writes without the host's help. From
    /// pinned memory copies to a GPU overlap with work in any case; from other memory they may (S32).
    bool non_blocking = false;
};

/// How a loss becomes one number, or stays one of each element: BatchMean, the sum divided by the extent of
/// axis 0, is known to kl_div alone.
enum class Reduction : uint8_t { None, Mean, Sum, BatchMean };

/// What `pad` puts around a tensor: a number; what is inside, mirrored at the outermost elements, which do
/// not repeat; the outermost elements; or what is at the other end.
enum class PaddingMode : uint8_t { Constant, Reflect, Replicate, Circular };

// LibTorch's names.
inline constexpr Reduction kNone = Reduction::None;               ///< of a loss: each element
inline constexpr Reduction kMean = Reduction::Mean;               ///< of a loss: the mean
inline constexpr Reduction kSum = Reduction::Sum;                 ///< of a loss: the sum
inline constexpr Reduction kBatchMean = Reduction::BatchMean;     ///< of kl_div: the mean over samples
inline constexpr PaddingMode kConstant = PaddingMode::Constant;   ///< of pad: a number
inline constexpr PaddingMode kReflect = PaddingMode::Reflect;     ///< of pad: mirrored
inline constexpr PaddingMode kReplicate = PaddingMode::Replicate; ///< of pad: the outermost elements
inline constexpr PaddingMode kCircular = PaddingMode::Circular;   ///< of pad: the other end
inline constexpr Layout kStrided = Layout::Strided;               ///< row-major

} // namespace lz
