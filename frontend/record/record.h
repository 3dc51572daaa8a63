#pragma once
/// Recording: the one way by which operations come into being. Every function of the public API ends in
/// `record`.

#include "frontend/device/device.h"
#include "frontend/record/convert.h"
#include "frontend/record/node.h"
#include "frontend/record/storage.h"
#include "frontend/tensor/error.h"
#include "ir/diagnostic.h"
#include "ir/graph/graph.h"
#include "lazuli/core/error.h"
#include "lazuli/tensor.h"

#include <initializer_list>
#include <memory>
#include <span>

namespace lz::detail {

/// Records one operation and returns a handle of its (first) result. Computes nothing; types are checked by
/// the op's rule, whose failure is thrown as the public error with `loc`. Operands must be defined: an empty
/// handle throws StateError naming the operation, as do more than 65,535 operands or words. Elementwise
/// operands must have one dtype already; shapes broadcast. Attribute words as in ir/op.h.
Tensor record(ir::Op op, std::span<const Tensor *const> operands, std::span<const int64_t> structural,
              std::span<const int64_t> runtime, Location loc);
inline Tensor record(ir::Op op, std::initializer_list<const Tensor *> operands,
                     std::initializer_list<int64_t> structural, std::initializer_list<int64_t> runtime,
                     Location loc) {
    return record(op, std::span(operands.begin(), operands.size()),
                  std::span(structural.begin(), structural.size()),
                  std::span(runtime.begin(), runtime.size()), loc);
}
/// The same for elementwise operations without attributes; sooner where the operands are floats.
Tensor record_elementwise(ir::Op op, const Tensor &x, Location loc);
Tensor record_elementwise(ir::Op op, const Tensor &a, const Tensor &b, Location loc);
/// A Constant without axes; the word is a value of the dtype, which is no part of a program.
Tensor record_number(DType dtype, int64_t word, ir::Device device, Location loc);
/// The same as a Literal, which `simplify` sees.
Tensor record_literal_number(DType dtype, int64_t word, ir::Device device, Location loc);
/// An UpdateSlice of x whose starts are those of the pending Slice `like`, which `update` is computed from.
/// Where both are computed together the compiler knows that they are one part, and works in its memory.
Tensor record_update(const Tensor &x, const Tensor &update, Node *like, std::span<const int64_t> structural,
                     std::span<const int64_t> runtime, Location loc);
/// The same for an operation with several results (sort): handles of all of them.
std::vector<Tensor> record_many(ir::Op op, std::span<const Tensor *const> operands,
                                std::span<const int64_t> structural, std::span<const int64_t> runtime,
                                Location loc);

/// Records an effect on a stream of the user's (kNoStream: the default one) of a GPU. `payload` is what the
/// runtime words refer to.
/// `operand`: what it waits for, or null.
void record_effect(ir::Op op, ir::StreamRef stream, std::span<const int64_t> structural,
                   std::span<const int64_t> runtime, std::shared_ptr<void> payload, Location loc,
                   Node *operand = nullptr);

/// A ready tensor that owns `storage` (one reference is taken over, whatever is thrown).
Tensor make_ready(const ir::TensorType &type, Storage *storage, Location loc);

/// A scalar of the user's (an argument of kernels: another value never compiles again).
Tensor record_constant(DType dtype, double value, const ir::Shape &shape, ir::Device device, Location loc);
Tensor record_constant_int(DType dtype, int64_t value, const ir::Shape &shape, ir::Device device,
                           Location loc);
/// What is recorded depends on these numbers, which may be the user's, in a way that no word of it shows (it
/// is cut to an integer, makes a size, or is computed with): a compiled function is recorded for each value
/// of them.
void note_on_host(std::initializer_list<double> numbers);
/// Whoever records refuses such a number below `low` and above `high`: no replay may take one.
void note_limits(double number, double low, double high);
/// A number that one of our own compositions writes; `simplify` sees it.
Tensor record_literal(DType dtype, double value, const ir::Shape &shape, ir::Device device, Location loc);

/// A new tensor with the value of x: for functions that have nothing to do but must not return x's own
/// handle.
Tensor fresh(const Tensor &x, Location loc);

/// Makes `target`'s cell show `value` from now on (in-place forms). `value` must have target's shape, dtype
/// and device; the caller has cast and checked.
void replace(Tensor &target, const Tensor &value);

/// While a form that overwrites a tensor is recorded. Under S25 it is launched when `replace` has been
/// called, and not while the tensor shows its old value still: the new one may then have that one's memory.
/// Such forms may be made of each other.
class Overwriting {
public:
    explicit Overwriting(Location loc);
    ~Overwriting();
    Overwriting(const Overwriting &) = delete;
    Overwriting &operator=(const Overwriting &) = delete;

    /// Under S25 launches it, and throws what failed. After `replace`, when the caller has let go of all that
    /// the new value is made of; else nothing is launched.
    void launch();

private:
    const Location loc_;
    const bool inner_; ///< a part of another one
};

/// The node behind a handle; throws StateError("`operation`: a tensor that was moved from ...") for an empty
/// one.
Node *node_of(const Tensor &tensor, const char *operation, Location loc);
/// Where a value was made and, as the location's function, what the user called there. What the user brought
/// bears the name of the function that took it.
ir::Location origin_of(const Node *node);
/// Its type without a check.
const ir::TensorType &type_of(const Tensor &tensor);

/// Turns what f throws into public errors.
template <class F>
decltype(auto) translated(Location loc, F &&f);

template <class F>
decltype(auto) translated(Location loc, F &&f) {
    try {
        return f();
    } catch (const ir::Failure &failure) {
        throw_public(failure, loc);
    }
}

} // namespace lz::detail
