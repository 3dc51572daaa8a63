#pragma once
/// GradScaler: keeps the small gradients of f16 from becoming 0, as PyTorch's:
///
///     lz::GradScaler scaler;
///     for (auto [x, y] : loader) {
///         optimizer.zero_grad();
///         lz::Tensor loss;
///         {
///             const lz::AutocastGuard half(lz::f16);
///             loss = lz::cross_entropy(net(x), y);
///         }
///         scaler.scale(loss).backward();
///         scaler.step(optimizer); // changes nothing where a gradient is infinite or NaN
///         scaler.update();
///     }
///
/// The loss is multiplied by a scale that is halved whenever a gradient was too large, and doubled when none
/// was for long. Whether a step was skipped is decided where the gradients are: nothing here waits, and the
/// host does not know (*better*: PyTorch reads a flag in every step).

#include "lazuli/optim/optimizer.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace lz {

/// What GradScaler is made of.
struct GradScalerOptions {
    double init_scale = 65536;      ///< the first scale
    double growth_factor = 2;       ///< times which the scale is after growth_interval steps without a skip
    double backoff_factor = 0.5;    ///< times which it is after a skip
    int64_t growth_interval = 2000; ///< in steps
    bool enabled = true;            ///< false: losses and steps as they are
};

/// Scales losses, and gradients back. May be used by one thread at a time.
class LZ_API GradScaler {
public:
    /// Throws StateError for a growth_factor that is not above 1, a backoff_factor not within (0, 1), or a
    /// growth_interval below 1.
    explicit GradScaler(const GradScalerOptions &options = {}, Location loc = Location::current());
    /// The same scale; from here on each has its own.
    GradScaler(const GradScaler &other);
    /// The other one is empty after it.
    GradScaler(GradScaler &&other) noexcept = default;
    /// The same scale, as if copied or moved.
    GradScaler &operator=(GradScaler other) noexcept;
    ~GradScaler() = default;

    /// outputs * scale, of any shape. Throws DTypeError for f16, whose range ends at 65504: losses are f32
    /// under autocast.
    Tensor scale(const Tensor &outputs, Location loc = Location::current());
    /// Divides the optimizer's gradients by the scale, in place: for what looks at them before `step`, as
    /// nn::utils::clip_grad_norm_. Throws StateError where `scale` was never called, if it was done since the
    /// last `update`, and for an optimizer without gradients; DTypeError for gradients of f16.
    void unscale_(optim::Optimizer &optimizer, Location loc = Location::current());
    /// Records a step of the optimizer that changes no parameter and no state where one of its gradients is
    /// infinite or NaN; calls `unscale_` before, if it was not called. A skipped step is not counted, so that
    /// the bias corrections of Adam are those of PyTorch; the host does not know of it. Throws StateError for
    /// the second step since `update`, and what `unscale_` and the step throw.
    void step(optim::Optimizer &optimizer, Location loc = Location::current());
    /// The next scale, by what all steps since the last call have found; or this one. Throws StateError where
    /// there was no step.
    void update(std::optional<double> new_scale = std::nullopt, Location loc = Location::current());

    /// The scale, f32 and 0-dim; later ones do not show in it.
    Tensor get_scale() const;
    /// Whether the optimizer's gradients are infinite or NaN: bool and 0-dim; empty before `unscale_` or
    /// `step`, and after `update`.
    Tensor found_inf(const optim::Optimizer &optimizer) const;
    /// Whether it scales.
    bool is_enabled() const { return options_.enabled; }

    /// PyTorch's names: scale, growth_factor, backoff_factor, growth_interval, _growth_tracker. Empty where
    /// it is not enabled.
    StateDict state_dict() const;
    /// Throws StateError that names what is missing or is no number; nothing was loaded then. Sync point.
    void load_state_dict(const StateDict &state, Location loc = Location::current());

private:
    struct Seen {
        const optim::Optimizer *optimizer;
        Tensor found_inf; ///< bool, 0-dim
        bool stepped = false;
    };
    Seen *seen(const optim::Optimizer &optimizer);

    GradScalerOptions options_;
    Tensor scale_;   ///< f32, 0-dim, on the CPU until the first loss comes
    Tensor tracker_; ///< i32, 0-dim, beside it: steps without a skip
    bool has_scaled_ = false;
    std::vector<Seen> seen_; ///< since the last update
};

} // namespace lz
