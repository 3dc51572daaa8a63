#pragma once
/// Shapes, devices and tensor types: what every value of the Graph IR has.

#include "ir/types/dtype.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace lz::ir {

inline constexpr int kMaxRank = 8;

/// Extents of a tensor, outermost first; rank 0 to 8, stored inline. Extents are never negative.
class Shape {
public:
    Shape() = default;
    Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
    /// Precondition: at most kMaxRank extents (checked; the frontend reports longer ones as ShapeError
    /// first).
    explicit Shape(std::span<const int64_t> extents);

    int rank() const { return rank_; }
    int64_t operator[](int axis) const { return extents_[static_cast<size_t>(axis)]; }
    int64_t &operator[](int axis) { return extents_[static_cast<size_t>(axis)]; }
    std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }
    const int64_t *begin() const { return extents_.data(); }
    const int64_t *end() const { return extents_.data() + rank_; }
    void push_back(int64_t extent);
    /// Product of the extents; 1 for rank 0.
    int64_t numel() const;
    /// Dense row-major strides in elements.
    std::array<int64_t, kMaxRank> dense_strides() const;

    friend bool operator==(const Shape &a, const Shape &b);

private:
    std::array<int64_t, kMaxRank> extents_{};
    uint8_t rank_ = 0;
};

/// `[64,10]`; `[]` for rank 0.
std::string to_string(const Shape &shape);

/// NumPy broadcasting of two shapes. On success true and `out`; else false and `axis` of the result (counted
/// from the left of the longer shape) where the extents disagree.
bool broadcast_shapes(const Shape &a, const Shape &b, Shape &out, int &axis);

enum class DeviceKind : uint8_t { Cpu, Cuda };

/// A resolved device: `cpu` is always index 0.
struct Device {
    DeviceKind kind = DeviceKind::Cpu;
    uint8_t index = 0;

    friend bool operator==(Device, Device) = default;
};
inline constexpr Device kCpu{};

/// `cpu`, `cuda:1`.
std::string to_string(Device device);

struct TensorType {
    DType dtype = DType::F32;
    Shape shape;
    Device device;

    int64_t numel() const { return shape.numel(); }
    int64_t bytes() const { return numel() * size_of(dtype); }
    friend bool operator==(const TensorType &, const TensorType &) = default;
};

/// `f32[64,10] @cpu`.
std::string to_string(const TensorType &type);

} // namespace lz::ir
