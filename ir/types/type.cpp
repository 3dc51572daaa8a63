#include "ir/types/type.h"

#include "ir/diagnostic.h"

#include <algorithm>

namespace lz::ir {

Shape::Shape(std::span<const int64_t> extents) {
    if (extents.size() > kMaxRank)
        throw Failure(ErrorKind::Shape, "A shape has at most " + std::to_string(kMaxRank) + " axes; " +
                                            std::to_string(extents.size()) + " were given.");
    std::ranges::copy(extents, extents_.begin());
    rank_ = static_cast<uint8_t>(extents.size());
}

void Shape::push_back(int64_t extent) {
    if (rank_ == kMaxRank)
        throw Failure(ErrorKind::Shape,
                      "A shape has at most " + std::to_string(kMaxRank) + " axes; one more was appended.");
    extents_[rank_++] = extent;
}

int64_t Shape::numel() const {
    int64_t n = 1;
    for (int64_t e : extents())
        n *= e;
    return n;
}

std::array<int64_t, kMaxRank> Shape::dense_strides() const {
    std::array<int64_t, kMaxRank> strides{};
    int64_t step = 1;
    for (int axis = rank_ - 1; axis >= 0; --axis) {
        strides[static_cast<size_t>(axis)] = step;
        step *= (*this)[axis];
    }
    return strides;
}

bool operator==(const Shape &a, const Shape &b) {
    if (a.rank_ != b.rank_)
        return false;
    for (size_t i = 0; i < a.rank_; ++i)
        if (a.extents_[i] != b.extents_[i])
            return false;
    return true;
}

std::string to_string(const Shape &shape) {
    std::string text = "[";
    for (int i = 0; i < shape.rank(); ++i) {
        if (i)
            text += ',';
        text += std::to_string(shape[i]);
    }
    return text += ']';
}

bool broadcast_shapes(const Shape &a, const Shape &b, Shape &out, int &axis) {
    const int rank = std::max(a.rank(), b.rank());
    const int skip_a = rank - a.rank(), skip_b = rank - b.rank();
    Shape shape;
    for (int i = 0; i < rank; ++i) {
        const int64_t x = i < skip_a ? 1 : a[i - skip_a];
        const int64_t y = i < skip_b ? 1 : b[i - skip_b];
        if (x != y && x != 1 && y != 1) {
            axis = i;
            return false;
        }
        shape.push_back(x == 1 ? y : x);
    }
    out = shape;
    return true;
}

std::string to_string(Device device) {
    return device.kind == DeviceKind::Cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::string to_string(const TensorType &type) {
    return std::string(name(type.dtype)) + to_string(type.shape) + " @" + to_string(type.device);
}

} // namespace lz::ir
