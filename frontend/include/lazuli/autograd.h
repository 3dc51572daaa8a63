#pragma once
/// Gradients: guards that turn them off, and the functions beside Tensor's own (`requires_grad_`, `backward`,
/// `grad`).
///
///     auto w = lz::randn({3}, {.requires_grad = true});
///     (w * w).sum().backward();
///     std::cout << w.grad(); // 2 * w
///
/// What is recorded from a tensor that requires grad is kept for backward, which records the gradients as
/// ordinary operations: nothing runs before a sync, and forward, backward and what follows are fused as one
/// program. Values never change once recorded, so in-place forms are right whatever backward needs (*better*:
/// PyTorch refuses many). Any thread may record and go backward; a thread starts with gradients on.

#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/tensor.h"

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lz {

/// Whether the calling thread keeps operations for backward.
class LZ_API GradMode {
public:
    /// As the guards below left it; true at the start of a thread.
    static bool is_enabled();
    /// From now on.
    static void set_enabled(bool enabled);
};

/// Gradients on or off for this thread until the end of the scope; guards nest.
class LZ_API AutoGradMode {
public:
    /// From here on.
    explicit AutoGradMode(bool enabled) : before_(GradMode::is_enabled()) { GradMode::set_enabled(enabled); }
    ~AutoGradMode() { GradMode::set_enabled(before_); }
    AutoGradMode(const AutoGradMode &) = delete;
    AutoGradMode &operator=(const AutoGradMode &) = delete;

private:
    bool before_;
};

/// Nothing is kept for backward in this scope, and leaves may be changed in place: `NoGradGuard no_grad;`.
class LZ_API NoGradGuard : public AutoGradMode {
public:
    /// From here on.
    NoGradGuard() : AutoGradMode(false) {}
};

/// The same as NoGradGuard: there is nothing more to save here. Told false, gradients are on.
class LZ_API InferenceMode : public AutoGradMode {
public:
    /// From here on.
    explicit InferenceMode(bool enabled = true) : AutoGradMode(!enabled) {}
};

/// What backward calls for a tensor that was computed: `y.grad_fn()->name()`.
class GradFn {
public:
    /// Of this name.
    explicit GradFn(std::string name) : name_(std::move(name)) {}
    /// The function that was called, as PyTorch names it: `MulBackward0`, `LogSoftmaxBackward0`, and
    /// `ClipBackward` of a Function called Clip.
    const std::string &name() const noexcept { return name_; }

private:
    std::string name_;
};

namespace autograd {

// LibTorch has these here, too.
using lz::AutoGradMode;
using lz::GradMode;
using lz::NoGradGuard;

/// The gradients of `outputs` with respect to `inputs`, which need not be leaves; nothing is added to any
/// `grad()`. `grad_outputs` weigh the outputs, as in Tensor::backward; there may be none. Throws what that
/// throws, and StateError for an input that does not require grad, or on which no output depends: with
/// `allow_unused` its gradient is undefined instead.
LZ_API std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                std::span<const Tensor> grad_outputs = {},
                                std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                                bool allow_unused = false, Location loc = Location::current());
LZ_API std::vector<Tensor> grad(std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> inputs,
                                std::initializer_list<Tensor> grad_outputs = {},
                                std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                                bool allow_unused = false, Location loc = Location::current());

/// As Tensor::backward of several tensors at once.
LZ_API void backward(std::span<const Tensor> tensors, std::span<const Tensor> gradients = {},
                     std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                     Location loc = Location::current());
LZ_API void backward(std::initializer_list<Tensor> tensors, std::initializer_list<Tensor> gradients = {},
                     std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                     Location loc = Location::current());

} // namespace autograd
} // namespace lz
