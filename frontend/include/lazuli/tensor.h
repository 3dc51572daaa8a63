#pragma once
/// Tensor: a handle to a value that may not have been computed yet.

#include "lazuli/core/dtype.h"
#include "lazuli/core/error.h"
#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/core/operand.h"
#include "lazuli/core/options.h"
#include "lazuli/core/scalar.h"
#include "lazuli/device/device.h"

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lz {

namespace detail {
struct Cell;
struct Access;
LZ_API void drop_handle(Cell *cell) noexcept;
/// The same for a variable that shows `now` instead, which compiled functions have to hear of.
LZ_API void drop_assigned(Cell *was, const Cell *now) noexcept;
LZ_API void copy_handle(Cell *cell) noexcept;
} // namespace detail

/// Extents, axes or permutations: what `sizes()` returns, and what the user gives. Converts from `{2, 3}`,
/// vectors, spans and single integers, and prints as `[2, 3]`.
class Sizes : public std::vector<int64_t> {
public:
    /// None.
    Sizes() = default;
    /// `{2, 3}`.
    Sizes(std::initializer_list<int64_t> values) : vector(values) {}
    /// A copy. (A template, so that no other list is looked at as one that might become a span: a compiler
    /// that asks whether something is a range takes longer than for the rest of this class.)
    template <std::same_as<std::span<const int64_t>> Span>
    Sizes(Span values) : vector(values.begin(), values.end()) {} // NOLINT: converts
    /// A copy of an array, or of what else is a span.
    template <class Values>
        requires(!std::is_base_of_v<std::vector<int64_t>, Values> &&
                 (std::is_class_v<Values> || std::is_array_v<Values>) &&
                 !std::is_same_v<Values, std::span<const int64_t>> &&
                 std::is_convertible_v<const Values &, std::span<const int64_t>>)
    explicit Sizes(const Values &values) : Sizes(std::span<const int64_t>(values)) {}
    /// A copy.
    Sizes(const std::vector<int64_t> &values) : vector(values) {} // NOLINT: converts
    /// One number.
    template <class T>
        requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
    Sizes(T value) : vector{static_cast<int64_t>(value)} {} // NOLINT: converts

    /// All of them.
    LZ_API std::span<const int64_t> span() const;
    /// A copy, as LibTorch's IntArrayRef has it.
    std::vector<int64_t> vec() const { return *this; }
    /// Whether they are these.
    bool equals(const Sizes &other) const { return *this == other; }
};
LZ_API std::ostream &operator<<(std::ostream &out, const Sizes &sizes);

class Tensor;
template <class T, size_t N>
class TensorAccessor;
class Generator;
class Index;
class Nested;
class Part;
class TensorData;
class GradFn;
class ValuesIndices;

/// The function of this name, which takes options, with a dtype or a device in their place: `zeros({2},
/// f64)`.
#define LZ_PARAMETERS(...) __VA_ARGS__
#define LZ_OF_KIND(name, parameters, arguments)                                                              \
    /** With a dtype or a device in place of options. */                                                     \
    template <OptionKind Kind>                                                                               \
    Tensor name(LZ_PARAMETERS parameters, const Kind &kind, Location loc = Location::current()) {            \
        return name(LZ_PARAMETERS arguments, detail::options_from(kind, loc), loc);                          \
    }

/// A tensor of rank 0 to 8. Copying a Tensor copies the handle: both see in-place changes (S24). Operations
/// record; the first need of a value computes everything pending (S21). All functions may be used from any
/// thread; changing one tensor in place from two threads at once is a race.
class LZ_API Tensor {
public:
    /// An empty handle: `defined()` is false and every use throws StateError.
    Tensor() noexcept = default;
    /// Another handle of the same tensor.
    Tensor(const Tensor &other) : cell_(other.cell_) {
        if (defined())
            detail::copy_handle(cell_);
        else if (cell_)
            read_copy(other);
    }
    /// Takes over the handle; `other` is empty afterwards.
    Tensor(Tensor &&other) noexcept
        : cell_(other.defined() ? std::exchange(other.cell_, nullptr) : nullptr) {}
    /// What a part of a tensor is (indexing.h). Of a mask's part: a sync point.
    Tensor(const Part &part); // NOLINT: converts
    /// From now on a handle of that tensor; what it was before does not change.
    Tensor &operator=(const Tensor &other) & {
        Tensor copy(other);
        return take(copy);
    }
    /// The same; `other` is empty afterwards.
    Tensor &operator=(Tensor &&other) & noexcept {
        Tensor moved(std::move(other));
        return take(moved);
    }
    /// From now on a handle of what the part is.
    Tensor &operator=(const Part &part) &;
    ~Tensor() {
        if (defined())
            detail::drop_handle(cell_);
    }

    /// Whether it is a handle of a tensor.
    bool defined() const noexcept { return reinterpret_cast<uintptr_t>(cell_) > kUnread; }
    /// From now on no handle of a tensor; what it was before does not change.
    void reset() & noexcept { *this = Tensor(); }

    // Metadata: never computes.
    /// The element type.
    DType dtype(Location loc = Location::current()) const;
    /// Where it lives, with a resolved index; never computes.
    Device device(Location loc = Location::current()) const;
    /// The extents of all axes.
    Sizes sizes(Location loc = Location::current()) const;
    /// Extent of one axis; negative axes count from the end. Throws IndexError.
    int64_t size(int64_t axis, Location loc = Location::current()) const;
    /// The number of axes.
    int64_t dim(Location loc = Location::current()) const;
    /// The number of elements.
    int64_t numel(Location loc = Location::current()) const;
    /// Its dtype and device, for another one: `zeros({2}, x.options().dtype(i64))`.
    TensorOptions options(Location loc = Location::current()) const;
    /// LibTorch's names of `dtype` and `dim`.
    DType scalar_type(Location loc = Location::current()) const { return dtype(loc); }
    int64_t ndimension(Location loc = Location::current()) const { return dim(loc); }
    /// Whether it lives on a GPU.
    bool is_cuda(Location loc = Location::current()) const { return device(loc).is_cuda(); }
    /// Index of its GPU, -1 on the CPU.
    int get_device(Location loc = Location::current()) const {
        return is_cuda(loc) ? device(loc).index() : -1;
    }
    /// Whether its memory is page-locked (S31).
    bool is_pinned(Location loc = Location::current()) const;
    /// True when both handles name one tensor (S08).
    bool same_tensor(const Tensor &other) const noexcept { return cell_ == other.cell_; }
    /// One address for all handles of one tensor while one of them lives: to find a tensor in a set. Null for
    /// an empty handle.
    const void *id() const noexcept { return defined() ? cell_ : nullptr; }

    // Sync points. The first need of a value computes everything pending on the thread; if another pending
    // operation fails, its error is thrown here, once, and the value asked for can be read afterwards (S26).
    /// The one element, converted: a bool is whether it is not 0, an integer loses its fraction. Throws
    /// StateError unless numel() is 1, and for a number that an integer T does not have, NaN among them.
    template <class T>
    T item(Location loc = Location::current()) const {
        if constexpr (std::is_same_v<T, bool>)
            return item_bool(loc);
        else if constexpr (std::is_same_v<T, float>)
            return item_float(loc);
        else if constexpr (std::is_floating_point_v<T>)
            return static_cast<T>(item_double(loc));
        else
            return static_cast<T>(item_int(std::is_signed_v<T>, static_cast<int>(sizeof(T)), loc));
    }
    /// The one element as a number: `loss.item().toDouble()`. Throws as above.
    Scalar item(Location loc = Location::current()) const;
    /// All elements in row-major order. Throws DTypeError unless T is the tensor's dtype.
    template <Element T>
    std::vector<T> to_vector(Location loc = Location::current()) const;
    /// The elements in memory, row-major, read-only; valid while a handle of this value lives. Throws
    /// DTypeError unless T is the dtype (or `void`, `std::byte`). Of a tensor on a GPU it is an address of
    /// that GPU, which the host cannot read: `to_vector` and `cpu()` copy.
    template <class T>
    const T *data(Location loc = Location::current()) const {
        return static_cast<const T *>(read_pointer(dtype_or_any<T>(), loc));
    }
    /// The same for writing: the storage then stays with this tensor until its next in-place form (S33). What
    /// is recorded from this tensor and has not run yet reads what is written later: call sync() before
    /// writing.
    template <class T>
    T *mutable_data(Location loc = Location::current()) {
        return static_cast<T *>(write_pointer(dtype_or_any<T>(), loc));
    }
    /// LibTorch's name of `mutable_data`, or of a constant of `data`.
    template <class T>
    T *data_ptr(Location loc = Location::current()) {
        return mutable_data<T>(loc);
    }
    template <class T>
    const T *data_ptr(Location loc = Location::current()) const {
        return data<T>(loc);
    }
    /// The elements of a tensor with N axes, by index: `auto a = x.accessor<float, 2>(); a[i][j]`. They are
    /// those of `data_ptr`, on the CPU. Throws ShapeError for another number of axes, DeviceError for a
    /// tensor on a GPU, and as `data_ptr`.
    template <class T, size_t N>
    TensorAccessor<T, N> accessor(Location loc = Location::current()) &;
    template <class T, size_t N>
    TensorAccessor<const T, N> accessor(Location loc = Location::current()) const &;
    /// Computes this tensor (and what it needs) and stores it. Returns itself.
    const Tensor &eval(Location loc = Location::current()) const;
    /// PyTorch's way of printing (S64). Computes.
    std::string str(Location loc = Location::current()) const;

    // Gradients (S70; autograd.h has the functions and the guards).
    /// From now on what is computed from this tensor is kept for backward, and its gradients add up in
    /// `grad()`; or, told false, no longer. Returns itself. Throws DTypeError for a tensor that is not of
    /// floats, and StateError where gradients of one that was computed from others are to be turned off (see
    /// `detach`).
    Tensor &requires_grad_(bool requires_grad = true, Location loc = Location::current()) &;
    /// Of a new tensor: `randn({3}).requires_grad_()`.
    [[nodiscard]] Tensor requires_grad_(bool requires_grad = true, Location loc = Location::current()) &&;
    /// Whether a gradient of it can be had: it was asked for here, or of what this was computed from.
    bool requires_grad(Location loc = Location::current()) const;
    /// Whether it was not computed from tensors that require grad.
    bool is_leaf(Location loc = Location::current()) const;
    /// The gradient that backward left here, in this tensor's shape, dtype and device: of a leaf that
    /// requires grad, or after `retain_grad`. Undefined before, and for every other tensor. Valid while this
    /// tensor lives.
    Tensor &grad(Location loc = Location::current()) const;
    /// The same, to be assigned to. Throws StateError for a tensor that keeps no gradient.
    Tensor &mutable_grad(Location loc = Location::current());
    /// Records the gradients of this tensor, which has one element, with respect to all leaves that it was
    /// computed from, and adds them to their `grad()`. Computes nothing: forward, backward and what comes
    /// next are one program. What was saved for backward is let go of. Throws StateError for a tensor without
    /// history, for more than one element, and for a graph that was let go of.
    void backward(Location loc = Location::current()) const;
    /// The same of a tensor of any shape: `gradient` weighs the elements, and may be empty (`{}`) for one
    /// element. With `retain_graph` (left out: as `create_graph`) what was saved stays for another backward;
    /// with `create_graph` gradients can be differentiated in turn. Throws DTypeError, ShapeError,
    /// DeviceError for a gradient that does not fit.
    void backward(const Tensor &gradient, std::optional<bool> retain_graph = std::nullopt,
                  bool create_graph = false, Location loc = Location::current()) const;
    /// A tensor of the same value without a history; no copy. In-place changes of one do not show in the
    /// other
    /// (*different*: in PyTorch both are one memory).
    Tensor detach(Location loc = Location::current()) const;
    /// The value without a history, and the way to change it past backward, as `param.data().mul_(0.9)`: see
    /// TensorData (indexing.h). A Tensor made of it is as of `detach`.
    TensorData data(Location loc = Location::current()) const;
    /// What backward calls for it: `y.grad_fn()->name()`, or null for a leaf.
    std::shared_ptr<const GradFn> grad_fn(Location loc = Location::current()) const;
    /// LibTorch's name of `requires_grad_`.
    const Tensor &set_requires_grad(bool requires_grad, Location loc = Location::current()) const {
        const_cast<Tensor *>(this)->requires_grad_(requires_grad, loc);
        return *this;
    }
    /// Forgets the history, or for a leaf that it requires grad. Returns itself.
    Tensor &detach_(Location loc = Location::current()) &;
    /// From now on this tensor, whoever has a handle of it, has the value of `value`, and with it its shape,
    /// dtype and device; no copy. A leaf that requires grad stays one; its gradient goes to the new dtype and
    /// device with it, or, where the shape is another, is forgotten. Returns itself. Throws StateError for a
    /// tensor with a history (see `detach_`), and DTypeError where a leaf that requires grad would no longer
    /// be of floats.
    Tensor &set_data(const Tensor &value, Location loc = Location::current()) &;
    /// Backward leaves the gradient of this tensor in `grad()`, although it is no leaf. Nothing for a leaf.
    /// Throws StateError for a tensor that does not require grad.
    void retain_grad(Location loc = Location::current()) const;
    /// Whether `retain_grad` was called for it.
    bool retains_grad(Location loc = Location::current()) const;
    /// Calls `hook(gradient)` whenever backward has the whole gradient of this tensor; a defined tensor that
    /// it returns takes the gradient's place. It is called while backward records. Returns a number for
    /// `remove_hook`. Throws StateError for a tensor that does not require grad.
    template <class F>
    unsigned register_hook(F hook, Location loc = Location::current()) const {
        if constexpr (std::is_void_v<std::invoke_result_t<F &, const Tensor &>>)
            return add_hook(
                [hook = std::move(hook)](const Tensor &gradient) mutable {
                    hook(gradient);
                    return Tensor();
                },
                loc);
        else
            return add_hook(std::move(hook), loc);
    }
    /// Takes the hook of this number off. Throws StateError where there is none.
    void remove_hook(unsigned number, Location loc = Location::current()) const;

    /// Writes the value to the part that the index names, which it broadcasts to: `x.at(index) = value`. With
    /// `accumulate` it is added; of places that the index names twice both count, in their order. Returns
    /// itself. Throws as `at`.
    Tensor &index_put_(std::initializer_list<Index> index, Operand value, bool accumulate = false,
                       Location loc = Location::current()) &;
    Tensor &index_put_(std::span<const Index> index, Operand value, bool accumulate = false,
                       Location loc = Location::current()) &;

    // Methods that record (each is the function of the same name in ops.h). `std::move(t).sum()` leaves t
    // empty, as `t.sum()` does not.
#define LZ_UNARY(name, ...)                                                                                  \
    LZ_METHOD(Tensor name(Location loc = Location::current()));                                              \
    Tensor &name##_(Location loc = Location::current()) &;
#define LZ_UNARY_COMPOSED(name) LZ_UNARY(name)
#define LZ_BINARY(name, ...)                                                                                 \
    LZ_METHOD(Tensor name(Operand other, Location loc = Location::current()));                               \
    Tensor &name##_(Operand other, Location loc = Location::current()) &;
#define LZ_COMPARISON(name, ...) LZ_METHOD(Tensor name(Operand other, Location loc = Location::current()));
#include "lazuli/ops/functions.def"
    LZ_METHOD(Tensor add(Operand other, const Scalar &alpha, Location loc = Location::current()));
    LZ_METHOD(Tensor sub(Operand other, const Scalar &alpha, Location loc = Location::current()));
    LZ_METHOD(Tensor isnan(Location loc = Location::current()));
    LZ_METHOD(Tensor isinf(Location loc = Location::current()));
    LZ_METHOD(Tensor isfinite(Location loc = Location::current()));
    LZ_METHOD_OF_TWO(Tensor masked_fill, mask, Operand value, Location loc = Location::current());
    LZ_METHOD(Tensor clamp(const std::optional<Scalar> &lower,
                           const std::optional<Scalar> &upper = std::nullopt,
                           Location loc = Location::current()));
    LZ_METHOD(Tensor lerp(const Tensor &end, Operand weight, Location loc = Location::current()));
    /// As lz::allclose. Sync point.
    bool allclose(const Tensor &other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
                  Location loc = Location::current()) const;
    /// As lz::equal. Sync point.
    bool equal(const Tensor &other, Location loc = Location::current()) const;

    // In-place forms: every handle sees the change; dtype and shape stay. Not of temporaries (S24).
    Tensor &add_(Operand other, const Scalar &alpha, Location loc = Location::current()) &;
    Tensor &sub_(Operand other, const Scalar &alpha, Location loc = Location::current()) &;
    Tensor &addcmul_(const Tensor &a, const Tensor &b, const Scalar &value = 1,
                     Location loc = Location::current()) &;
    Tensor &addcdiv_(const Tensor &a, const Tensor &b, const Scalar &value = 1,
                     Location loc = Location::current()) &;
    Tensor &lerp_(const Tensor &end, Operand weight, Location loc = Location::current()) &;
    Tensor &clamp_(const std::optional<Scalar> &lower, const std::optional<Scalar> &upper = std::nullopt,
                   Location loc = Location::current()) &;
    Tensor &clamp_(const Tensor &lower, const Tensor &upper, Location loc = Location::current()) &;
    Tensor &masked_fill_(const Tensor &mask, Operand value, Location loc = Location::current()) &;
    Tensor &scatter_(int64_t axis, const Tensor &index, Operand source, Location loc = Location::current()) &;
    Tensor &scatter_add_(int64_t axis, const Tensor &index, const Tensor &source,
                         Location loc = Location::current()) &;
    Tensor &index_add_(int64_t axis, const Tensor &index, const Tensor &source,
                       Location loc = Location::current()) &;
    /// The values of `source`, broadcast, cast and moved to where this tensor is.
    Tensor &copy_(const Tensor &source, Location loc = Location::current()) &;
    Tensor &copy_(const Tensor &source, const CopyOptions &options, Location loc = Location::current()) &;
    Tensor &fill_(Operand value, Location loc = Location::current()) &;
    Tensor &zero_(Location loc = Location::current()) &;
    Tensor &uniform_(double from = 0, double to = 1, Location loc = Location::current()) &;
    Tensor &uniform_(double from, double to, Generator &generator, Location loc = Location::current()) &;
    Tensor &normal_(double mean = 0, double std = 1, Location loc = Location::current()) &;
    Tensor &normal_(double mean, double std, Generator &generator, Location loc = Location::current()) &;
    Tensor &bernoulli_(double p = 0.5, Location loc = Location::current()) &;
    // On a new tensor: `empty({2, 3}).normal_()` (S42). The other in-place forms do not take temporaries.
    /// Of a new tensor: uniform in [from, to).
    [[nodiscard]] Tensor uniform_(double from = 0, double to = 1, Location loc = Location::current()) &&;
    /// Of a new tensor: normal.
    [[nodiscard]] Tensor normal_(double mean = 0, double std = 1, Location loc = Location::current()) &&;

    LZ_METHOD(Tensor reshape(const Sizes &sizes, Location loc = Location::current()));
    LZ_METHOD(Tensor view(const Sizes &sizes, Location loc = Location::current()));
    LZ_METHOD(Tensor flatten(int64_t first_axis = 0, int64_t last_axis = -1,
                             Location loc = Location::current()));
    LZ_METHOD(Tensor unflatten(int64_t axis, const Sizes &sizes, Location loc = Location::current()));
    LZ_METHOD(Tensor transpose(int64_t axis0, int64_t axis1, Location loc = Location::current()));
    LZ_METHOD(Tensor permute(const Sizes &axes, Location loc = Location::current()));
    LZ_METHOD(Tensor t(Location loc = Location::current()));
    LZ_METHOD(Tensor mT(Location loc = Location::current()));
    LZ_METHOD(Tensor squeeze(const Sizes &axes = {}, Location loc = Location::current()));
    LZ_METHOD(Tensor unsqueeze(int64_t axis, Location loc = Location::current()));
    LZ_METHOD(Tensor expand(const Sizes &sizes, Location loc = Location::current()));
    LZ_METHOD(Tensor expand_as(const Tensor &like, Location loc = Location::current()));
    LZ_METHOD(Tensor slice(int64_t axis, std::optional<int64_t> start = std::nullopt,
                           std::optional<int64_t> stop = std::nullopt, int64_t step = 1,
                           Location loc = Location::current()));
    LZ_METHOD(Tensor narrow(int64_t axis, int64_t start, int64_t length, Location loc = Location::current()));
    LZ_METHOD(Tensor select(int64_t axis, int64_t index, Location loc = Location::current()));
    LZ_METHOD(Tensor flip(const Sizes &axes, Location loc = Location::current()));
    LZ_METHOD(Tensor diagonal(int64_t offset = 0, int64_t axis0 = 0, int64_t axis1 = 1,
                              Location loc = Location::current()));
    LZ_METHOD(std::vector<Tensor> split(int64_t size, int64_t axis = 0, Location loc = Location::current()));
    LZ_METHOD(std::vector<Tensor> split(std::initializer_list<int64_t> sizes, int64_t axis = 0,
                                        Location loc = Location::current()));
    LZ_METHOD(std::vector<Tensor> chunk(int64_t chunks, int64_t axis = 0,
                                        Location loc = Location::current()));
    LZ_METHOD(std::vector<Tensor> unbind(int64_t axis = 0, Location loc = Location::current()));
    LZ_METHOD(Tensor roll(const Sizes &shifts, const Sizes &axes = {}, Location loc = Location::current()));
    LZ_METHOD(Tensor tril(int64_t diagonal = 0, Location loc = Location::current()));
    LZ_METHOD(Tensor triu(int64_t diagonal = 0, Location loc = Location::current()));
    LZ_METHOD(Tensor repeat(const Sizes &repeats, Location loc = Location::current()));
    LZ_METHOD(Tensor unfold(int64_t axis, int64_t size, int64_t step, Location loc = Location::current()));
    /// In the shape, dtype or both of another one.
    Tensor view_as(const Tensor &other, Location loc = Location::current()) const {
        return view(other.sizes(loc), loc);
    }
    Tensor reshape_as(const Tensor &other, Location loc = Location::current()) const {
        return reshape(other.sizes(loc), loc);
    }
    Tensor type_as(const Tensor &other, Location loc = Location::current()) const {
        return to(other.device(loc), other.dtype(loc), loc);
    }
    /// Of the dtype and on the device that the options name.
    template <std::same_as<TensorOptions> Options>
    Tensor to(const Options &options, Location loc = Location::current()) const {
        const Device there = options.device ? *options.device : device(loc);
        return to(there, options.dtype ? *options.dtype : dtype(loc), loc);
    }
    LZ_METHOD(Tensor clone(Location loc = Location::current()));
    /// Stored values are dense: the tensor itself.
    LZ_METHOD(Tensor contiguous(Location loc = Location::current()));
    LZ_METHOD(Tensor to(DType dtype, Location loc = Location::current()));
    LZ_METHOD(Tensor to(const Device &device, Location loc = Location::current()));
    LZ_METHOD(Tensor to(const Device &device, DType dtype, Location loc = Location::current()));
    LZ_METHOD(Tensor to(const Device &device, const CopyOptions &options,
                        Location loc = Location::current()));
    LZ_METHOD(Tensor to(const Device &device, DType dtype, const CopyOptions &options,
                        Location loc = Location::current()));
    LZ_METHOD(Tensor cpu(Location loc = Location::current()));
    /// On `cuda:index`, or on the current GPU. The tensor itself where it is there already (S08).
    LZ_METHOD(Tensor cuda(int index = -1, Location loc = Location::current()));
    LZ_METHOD(Tensor cuda(const Device &device, Location loc = Location::current()));
    LZ_METHOD(Tensor cuda(int index, const CopyOptions &options, Location loc = Location::current()));
    LZ_METHOD(Tensor cuda(const Device &device, const CopyOptions &options,
                          Location loc = Location::current()));
    /// The same values in page-locked memory; the tensor itself where it has such memory. Throws DeviceError
    /// for a tensor on a GPU, or where there is no GPU.
    LZ_METHOD(Tensor pin_memory(Location loc = Location::current()));

    /// `x.at({0, Slice(1, 5, 2), Ellipsis, None})`: the part as a tensor, which can be assigned to
    /// (indexing.h).
    Part at(std::initializer_list<Index> index, Location loc = Location::current()) const;
    Part at(const Index &index, Location loc = Location::current()) const;
    /// An index that is put together while the program runs: of a std::vector<Index>.
    Part at(std::span<const Index> index, Location loc = Location::current()) const;
    /// As `at` of one index.
    Part operator[](const Index &index) const;
    /// LibTorch's name of `at`.
    Part index(std::initializer_list<Index> index, Location loc = Location::current()) const;
    Part index(std::span<const Index> index, Location loc = Location::current()) const;
    LZ_METHOD(Tensor gather(int64_t axis, const Tensor &index, Location loc = Location::current()));
    /// As lz::multinomial, with the default generator.
    Tensor multinomial(int64_t samples, bool replacement = false, Location loc = Location::current()) const;
    LZ_METHOD(Tensor index_select(int64_t axis, const Tensor &index, Location loc = Location::current()));
    LZ_METHOD_OF_TWO(Tensor take, index, Location loc = Location::current());
    LZ_METHOD(Tensor scatter(int64_t axis, const Tensor &index, Operand source,
                             Location loc = Location::current()));
    LZ_METHOD(Tensor scatter_add(int64_t axis, const Tensor &index, const Tensor &source,
                                 Location loc = Location::current()));

    LZ_METHOD(Tensor sum(const Sizes &axes = {}, bool keepdim = false,
                         std::optional<DType> dtype = std::nullopt, Location loc = Location::current()));
    LZ_METHOD(Tensor prod(const Sizes &axes = {}, bool keepdim = false,
                          std::optional<DType> dtype = std::nullopt, Location loc = Location::current()));
    LZ_METHOD(Tensor mean(const Sizes &axes = {}, bool keepdim = false,
                          std::optional<DType> dtype = std::nullopt, Location loc = Location::current()));
    LZ_METHOD(Tensor var(const Sizes &axes = {}, int64_t correction = 1, bool keepdim = false,
                         Location loc = Location::current()));
    LZ_METHOD(Tensor std(const Sizes &axes = {}, int64_t correction = 1, bool keepdim = false,
                         Location loc = Location::current()));
    LZ_METHOD(Tensor amax(const Sizes &axes = {}, bool keepdim = false, Location loc = Location::current()));
    LZ_METHOD(Tensor amin(const Sizes &axes = {}, bool keepdim = false, Location loc = Location::current()));
    LZ_METHOD(Tensor max(Location loc = Location::current()));
    LZ_METHOD(Tensor min(Location loc = Location::current()));
    LZ_METHOD(ValuesIndices max(int64_t axis, bool keepdim = false, Location loc = Location::current()));
    LZ_METHOD(ValuesIndices min(int64_t axis, bool keepdim = false, Location loc = Location::current()));
    LZ_METHOD(Tensor argmax(std::optional<int64_t> axis = std::nullopt, bool keepdim = false,
                            Location loc = Location::current()));
    LZ_METHOD(Tensor argmin(std::optional<int64_t> axis = std::nullopt, bool keepdim = false,
                            Location loc = Location::current()));
    LZ_METHOD(Tensor any(const Sizes &axes = {}, bool keepdim = false, Location loc = Location::current()));
    LZ_METHOD(Tensor all(const Sizes &axes = {}, bool keepdim = false, Location loc = Location::current()));
    LZ_METHOD(Tensor logsumexp(const Sizes &axes, bool keepdim = false, Location loc = Location::current()));
    LZ_METHOD(Tensor norm(double p = 2, const Sizes &axes = {}, bool keepdim = false,
                          Location loc = Location::current()));
    LZ_METHOD(Tensor softmax(int64_t axis, std::optional<DType> dtype = std::nullopt,
                             Location loc = Location::current()));
    LZ_METHOD(Tensor log_softmax(int64_t axis, std::optional<DType> dtype = std::nullopt,
                                 Location loc = Location::current()));
    LZ_METHOD(Tensor cumsum(int64_t axis, std::optional<DType> dtype = std::nullopt,
                            Location loc = Location::current()));
    LZ_METHOD(Tensor cumprod(int64_t axis, std::optional<DType> dtype = std::nullopt,
                             Location loc = Location::current()));
    LZ_METHOD(ValuesIndices sort(int64_t axis = -1, bool descending = false,
                                 Location loc = Location::current()));
    LZ_METHOD(Tensor argsort(int64_t axis = -1, bool descending = false, Location loc = Location::current()));
    LZ_METHOD(ValuesIndices topk(int64_t k, int64_t axis = -1, bool largest = true,
                                 Location loc = Location::current()));

    LZ_METHOD_OF_TWO(Tensor matmul, other, Location loc = Location::current());
    LZ_METHOD_OF_TWO(Tensor mm, other, Location loc = Location::current());
    LZ_METHOD_OF_TWO(Tensor mv, other, Location loc = Location::current());
    LZ_METHOD_OF_TWO(Tensor dot, other, Location loc = Location::current());
    LZ_METHOD_OF_TWO(Tensor bmm, other, Location loc = Location::current());

#include "lazuli/ops/libtorch_methods.def"

    // With this tensor's dtype and device unless the options say otherwise (S61).
    /// As lz::tensor.
    Tensor new_tensor(const Nested &values, const TensorOptions &options = {},
                      Location loc = Location::current()) const;
    /// As lz::full.
    Tensor new_full(const Sizes &sizes, const Scalar &value, const TensorOptions &options = {},
                    Location loc = Location::current()) const;
    /// As lz::zeros.
    Tensor new_zeros(const Sizes &sizes, const TensorOptions &options = {},
                     Location loc = Location::current()) const;
    /// As lz::ones.
    Tensor new_ones(const Sizes &sizes, const TensorOptions &options = {},
                    Location loc = Location::current()) const;
    /// As lz::empty.
    Tensor new_empty(const Sizes &sizes, const TensorOptions &options = {},
                     Location loc = Location::current()) const;

private:
    friend struct detail::Access;
    explicit Tensor(detail::Cell *cell) noexcept : cell_(cell) {} // takes over one handle

    template <class T>
    static std::optional<DType> dtype_or_any() {
        if constexpr (Element<T>)
            return dtype_of<T>;
        else
            return std::nullopt;
    }
    /// In the place of a cell: this is a Part through a mask that has not been read yet.
    static constexpr uintptr_t kUnread = 1;

    /// Becomes a handle of what the unread part selects.
    void read_copy(const Tensor &part);

    unsigned add_hook(std::function<Tensor(const Tensor &)> hook, Location loc) const;

    Tensor &take(Tensor &other) noexcept {
        std::swap(cell_, other.cell_);
        if (other.defined())
            detail::drop_assigned(std::exchange(other.cell_, nullptr), cell_);
        return *this;
    }

    bool item_bool(Location loc) const;
    double item_double(Location loc) const;
    /// Rounded in the library, whatever the caller's rounding mode and treatment of subnormal numbers are.
    float item_float(Location loc) const;
    /// Throws StateError for what an integer of so many bytes does not have.
    int64_t item_int(bool is_signed, int bytes, Location loc) const;
    const void *read_pointer(std::optional<DType> dtype, Location loc) const;
    /// The same for `to_vector`, of a copy on the CPU if this is on a GPU; `held` keeps the memory.
    const void *host_pointer(DType dtype, Tensor &held, Location loc) const;
    void *write_pointer(std::optional<DType> dtype, Location loc);

    detail::Cell *cell_ = nullptr;
};

template <Element T>
std::vector<T> Tensor::to_vector(Location loc) const {
    Tensor held;
    const T *from = static_cast<const T *>(host_pointer(dtype_of<T>, held, loc));
    return std::vector<T>(from, from + held.numel());
}

/// Prints as `str()`. Computes.
LZ_API std::ostream &operator<<(std::ostream &out, const Tensor &tensor);

/// Computes everything pending on this thread.
LZ_API void sync(Location loc = Location::current());
/// The same, for those who write `using namespace lz`: POSIX has a `sync()`, too.
LZ_API void synchronize(Location loc = Location::current());
/// Computes what these tensors need and stores them.
LZ_API void eval(std::initializer_list<Tensor> tensors, Location loc = Location::current());
LZ_API void eval(std::span<const Tensor> tensors, Location loc = Location::current());
namespace detail {
/// A tensor, and the line at which it was given.
struct TensorAtLine {
    const Tensor &tensor;
    Location loc;
    TensorAtLine(const Tensor &tensor, Location loc = Location::current())
        : tensor(tensor), loc(loc) {} // NOLINT
};
} // namespace detail
/// The same, written `eval(a, b, c)`.
template <std::same_as<Tensor>... More>
void eval(detail::TensorAtLine first, const More &...more) {
    eval({first.tensor, more...}, first.loc);
}

} // namespace lz

#undef LZ_METHOD
#undef LZ_METHOD_OF_TWO

#include "lazuli/ops.h"
