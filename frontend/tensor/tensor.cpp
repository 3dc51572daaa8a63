#include "lazuli/tensor.h"

#include "frontend/autograd/attach.h"
#include "frontend/ops/compose.h"
#include "frontend/record/failure_record.h"
#include "frontend/record/record.h"
#include "frontend/record/storage.h"
#include "frontend/record/sync/sync.h"
#include "ir/host/float_environment.h"
#include "ir/types/type.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lz {

using detail::node_of;

DType Tensor::dtype(Location loc) const {
    return detail::from_ir(node_of(*this, "dtype", loc)->type.dtype);
}
Device Tensor::device(Location loc) const {
    return detail::from_ir(node_of(*this, "device", loc)->type.device);
}
std::span<const int64_t> Sizes::span() const {
    return *this;
}

Sizes Tensor::sizes(Location loc) const {
    return node_of(*this, "sizes", loc)->type.shape.extents();
}
Sizes Tensor::strides(Location loc) const {
    Sizes strides = sizes(loc);
    int64_t step = 1;
    for (size_t i = strides.size(); i-- > 0;)
        strides[i] = std::exchange(step, step * std::max<int64_t>(strides[i], 1));
    return strides;
}
int64_t Tensor::stride(int64_t axis, Location loc) const {
    const ir::TensorType &type = node_of(*this, "stride", loc)->type;
    return strides(
        loc)[static_cast<size_t>(detail::normal_axis(axis, type.shape.rank(), "stride", type, loc))];
}
bool Tensor::is_pinned(Location loc) const {
    return node_of(*this, "is_pinned", loc)->pinned;
}
int64_t Tensor::dim(Location loc) const {
    return node_of(*this, "dim", loc)->type.shape.rank();
}
int64_t Tensor::numel(Location loc) const {
    return node_of(*this, "numel", loc)->type.numel();
}

int64_t Tensor::size(int64_t axis, Location loc) const {
    const ir::TensorType &type = node_of(*this, "size", loc)->type;
    const int64_t rank = type.shape.rank();
    if (axis < -rank || axis >= rank)
        throw IndexError("size: axis " + std::to_string(axis) + " is out of range for " +
                             ir::to_string(type) + " (rank " + std::to_string(rank) + ")",
                         loc);
    return type.shape[static_cast<int>(axis < 0 ? axis + rank : axis)];
}

const Tensor &Tensor::eval(Location loc) const {
    detail::Node *const node = node_of(*this, "eval", loc);
    detail::eval_nodes({&node, 1}, loc);
    detail::launch_left_behind(loc);
    if (has_failed(node->state.load(std::memory_order_acquire)))
        detail::materialize(node, loc); // throws its failure
    return *this;
}

namespace {

void check_element(const Tensor &t, std::optional<DType> wanted, Location loc) {
    if (wanted && *wanted != t.dtype())
        throw DTypeError("data: the tensor holds " + std::string(name(t.dtype())) + ", not " +
                             std::string(name(*wanted)) + "; convert it with to(" +
                             std::string(name(*wanted)) + ")",
                         loc);
}

/// The one element of a one-element tensor on the CPU, in storage format.
const void *single_element(const Tensor &t, Location loc) {
    detail::Node *const node = node_of(t, "item", loc);
    if (node->type.numel() != 1)
        throw StateError("item: the tensor " + ir::to_string(node->type) + " has " +
                             std::to_string(node->type.numel()) + " elements; item() needs exactly one",
                         loc);
    return detail::materialize_now(node, loc)->data();
}

template <class T>
T load(const void *from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}

} // namespace

TensorOptions Tensor::options(Location loc) const {
    return {.dtype = dtype(loc), .device = std::optional(device(loc))};
}

double Tensor::item_double(Location loc) const {
    if (node_of(*this, "item", loc)->type.device != ir::kCpu && numel() == 1)
        return cpu(loc).item_double(loc);
    const void *at = single_element(*this, loc);
    const ir::FloatEnvironment environment; // a subnormal f32 is a normal f64
    switch (dtype()) {
    case DType::F16:
        return load<Half>(at);
    case DType::BF16:
        return load<BFloat>(at);
    case DType::F32:
        return load<float>(at);
    case DType::F64:
        return load<double>(at);
    default:
        return static_cast<double>(item_int(true, 8, loc));
    }
}

float Tensor::item_float(Location loc) const {
    // Volatile, so that it is not rounded before or after the environment is set.
    const volatile double number = item_double(loc);
    const ir::FloatEnvironment environment;
    const volatile float rounded = static_cast<float>(number);
    return rounded;
}

Scalar Tensor::item(Location loc) const {
    switch (dtype(loc)) {
    case DType::Bool:
        return item_bool(loc);
    case DType::F16:
    case DType::BF16:
    case DType::F32:
    case DType::F64:
        return item_double(loc);
    default:
        return item_int(true, 8, loc);
    }
}

bool Tensor::item_bool(Location loc) const {
    const ir::DType dtype = node_of(*this, "item", loc)->type.dtype;
    if (ir::is_float(dtype)) // a subnormal number is not 0
        return std::bit_cast<uint64_t>(item_double(loc)) << 1 != 0;
    return item_int(true, 8, loc) != 0;
}

namespace {

int64_t stored_integer(const void *at, DType dtype) {
    switch (dtype) {
    case DType::Bool:
        return load<uint8_t>(at) != 0;
    case DType::U8:
        return load<uint8_t>(at);
    case DType::I8:
        return load<int8_t>(at);
    case DType::I16:
        return load<int16_t>(at);
    case DType::I32:
        return load<int32_t>(at);
    default:
        return load<int64_t>(at);
    }
}

[[noreturn]] void fail_integer(const std::string &number, bool is_signed, int bytes, Location loc) {
    throw StateError("item: " + number + " does not fit " + (is_signed ? "a signed" : "an unsigned") +
                         " integer of " + std::to_string(8 * bytes) + " bits",
                     loc);
}

} // namespace

int64_t Tensor::item_int(bool is_signed, int bytes, Location loc) const {
    if (node_of(*this, "item", loc)->type.device != ir::kCpu && numel(loc) == 1)
        return cpu(loc).item_int(is_signed, bytes, loc);
    const void *at = single_element(*this, loc);
    int64_t value = 0;
    if (lz::is_floating_point(dtype())) {
        const double number = item_double(loc);
        if (!(number >= -0x1p63 && number < 0x1p63))
            fail_integer(std::to_string(number), is_signed, bytes, loc);
        value = static_cast<int64_t>(number);
    } else {
        value = stored_integer(at, dtype());
    }
    const int64_t high = bytes == 8 ? INT64_MAX : (int64_t{1} << (8 * bytes - is_signed)) - 1;
    if (value > high || value < (is_signed ? -high - 1 : 0))
        fail_integer(std::to_string(value), is_signed, bytes, loc);
    return value;
}

const void *Tensor::read_pointer(std::optional<DType> dtype, Location loc) const {
    detail::Node *const node = node_of(*this, "data", loc);
    check_element(*this, dtype, loc);
    return detail::materialize_now(node, loc)->data();
}

const void *Tensor::host_pointer(DType dtype, Tensor &held, Location loc) const {
    loc = detail::in<"to_vector">(loc);
    held = is_cuda(loc) ? cpu(loc) : *this;
    return held.read_pointer(dtype, loc);
}

namespace {

/// The same values in memory that only the result knows.
Tensor private_copy(const Tensor &tensor, detail::Storage *storage, Location loc) {
    if (storage->device() != ir::kCpu) {
        // A clone shares the memory unless somebody may be writing to it.
        storage->retain();
        const bool exposed = storage->exposed.exchange(true);
        const auto restore = [&] {
            storage->exposed.store(exposed);
            storage->release();
        };
        try {
            Tensor copy = tensor.clone(loc);
            detail::materialize_now(detail::Access::node(copy), loc, true);
            restore();
            return copy;
        } catch (...) {
            restore();
            throw;
        }
    }
    detail::Storage *const copy = detail::allocate_on_host(storage->bytes, storage->block.pinned, loc);
    std::memcpy(copy->data(), storage->data(), static_cast<size_t>(storage->bytes));
    return detail::make_ready(detail::type_of(tensor), copy, loc);
}

} // namespace

void *Tensor::write_pointer(std::optional<DType> dtype, Location loc) {
    detail::Node *node = node_of(*this, "mutable_data", loc);
    check_element(*this, dtype, loc);
    if (detail::has_history(*this) && requires_grad(loc) && detail::Recorder::current().grad_mode())
        throw StateError(
            "mutable_data: the tensor requires grad, and backward would not see what is written; call "
            "it under a NoGradGuard, or of detach()",
            loc);
    // Pending work that reads the value as it is now must run before the user writes to it.
    detail::sync_all(loc);
    detail::Storage *storage = detail::materialize_now(node, loc, true);
    // Other handles of this version, and tensors that share its memory, keep theirs.
    if (node->uses() > 1 || storage->refs.load(std::memory_order_acquire) > 1) {
        const Tensor copy = private_copy(*this, storage, loc);
        storage = detail::materialize_now(detail::Access::node(copy), loc, true);
        detail::replace(*this, copy);
    }
    storage->exposed.store(true, std::memory_order_relaxed);
    return storage->data();
}

void sync(Location loc) {
    detail::sync_all(loc);
}
void synchronize(Location loc) {
    sync(loc);
}

void eval(std::span<const Tensor> tensors, Location loc) {
    std::vector<detail::Node *> nodes;
    for (const Tensor &t : tensors)
        nodes.push_back(node_of(t, "eval", loc));
    detail::eval_nodes(nodes, loc);
    detail::launch_left_behind(loc);
    for (detail::Node *n : nodes)
        if (has_failed(n->state.load(std::memory_order_acquire)))
            detail::materialize(n, loc);
}

void eval(std::initializer_list<Tensor> tensors, Location loc) {
    eval(std::span(tensors.begin(), tensors.size()), loc);
}

} // namespace lz
