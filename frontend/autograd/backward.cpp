#include "frontend/autograd/backward.h"

#include "frontend/autograd/attach.h"
#include "frontend/autograd/walk.h"
#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "frontend/record/trace.h"

#include <array>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>

namespace lz::detail {
namespace {

/// Names of what backward records, for messages: "gradient of mul (backward at train.cpp:40)".
class Names {
public:
    Names(const char *function, Location loc) : function_(function), loc_(loc) {}

    /// Of the walk itself.
    uint16_t walk() {
        return name(0, [&] { return text(); });
    }
    uint16_t of(const Step &step) {
        const uint32_t key = step.loc.function != 0 ? uint32_t{step.loc.function} << 8 | 1
                                                    : static_cast<uint32_t>(step.op) << 8 | 2;
        return name(key, [&] {
            return "gradient of " + std::string(ir::called(step.op, step.loc)) + " (" + text() + ")";
        });
    }

private:
    std::string text() const { return std::string(function_) + " at " + ir::to_string(to_ir(loc_)); }

    /// Steps of one operation have one name: what was looked for lately is found without the map.
    template <class F>
    uint16_t name(uint32_t key, F &&make) {
        Latest &latest = latest_[(key >> 8 ^ key << 4) % std::size(latest_)];
        if (latest.key != key + 1)
            latest = {key + 1, look_up(key, make)};
        return latest.name;
    }

    template <class F>
    uint16_t look_up(uint32_t key, F &&make) {
        struct Key {
            const char *file;
            uint32_t line, operation;
            const char *function;
            bool operator==(const Key &) const = default;
        };
        struct Hash {
            size_t operator()(const Key &k) const {
                return (reinterpret_cast<uintptr_t>(k.file) ^ reinterpret_cast<uintptr_t>(k.function) ^
                        (uint64_t{k.line} << 32 | k.operation)) *
                       0x9e3779b97f4a7c15u;
            }
        };
        thread_local std::unordered_map<Key, uint16_t, Hash> known;
        const auto [at, added] = known.try_emplace({loc_.file, loc_.line, key, function_});
        if (added)
            at->second = ir::intern_function(make());
        return at->second;
    }

    struct Latest {
        uint32_t key; ///< one more than it, so that 0 is none
        uint16_t name;
    };
    std::array<Latest, 64> latest_{};
    const char *function_;
    Location loc_;
};

/// What backward does to the streams that the thread names (S44): each step has those of its forward, and the
/// thread its own again at the end.
class Streams {
public:
    explicit Streams(Recorder &recorder) : recorder_(recorder) {
        for (size_t i = 0; recorder.names_streams() && i < recorder.devices_with_streams(); ++i) {
            const ir::Device gpu{ir::DeviceKind::Cuda, static_cast<uint8_t>(i)};
            if (const int32_t stream = recorder.stream(gpu); stream != ir::kNoStream)
                before_.push_back({gpu, stream, recorder.stream_handle(gpu)});
        }
        for (const Named &one : before_)
            recorder_.set_stream(one.device, ir::kNoStream, nullptr);
    }
    ~Streams() {
        leave();
        for (Named &one : before_)
            recorder_.set_stream(one.device, one.number, std::move(one.handle));
    }
    Streams(const Streams &) = delete;
    Streams &operator=(const Streams &) = delete;

    void enter(const Step &step) {
        leave();
        if (!step.extras || step.extras->stream == ir::kNoStream) [[likely]]
            return;
        now_ = step.extras->stream_device;
        named_ = true;
        recorder_.set_stream(now_, step.extras->stream, step.extras->stream_handle);
    }
    void leave() {
        if (std::exchange(named_, false))
            recorder_.set_stream(now_, ir::kNoStream, nullptr);
    }

private:
    struct Named {
        ir::Device device;
        int32_t number;
        std::shared_ptr<void> handle;
    };
    Recorder &recorder_;
    std::vector<Named> before_;
    ir::Device now_;
    bool named_ = false;
};

Edge history_of(const Tensor &x) {
    const Cell *const cell = Access::cell(x);
    return {cell->history, cell->result};
}

/// An output has a history, and its gradient its shape and device: the gradient, in its dtype.
Tensor seed_of(const Tensor &output, const Tensor *gradient, const char *function, Location loc) {
    const ir::TensorType &to = checked_type(output, function, loc);
    const std::string what(function);
    if (!ir::is_float(to.dtype))
        throw DTypeError(what + ": the tensor is " + text(to) + "; there are gradients of floats only", loc);
    if (!has_history(output) || !Access::cell(output)->history->wants_gradient()) {
        const ir::Location made = origin_of(Access::node(output));
        throw StateError(
            what + ": the tensor " + text(to) + ", made by " + std::string(ir::function_name(made.function)) +
                " at " + ir::to_string(made) +
                ", has no history: it was not computed from a tensor that requires grad, or gradients "
                "were off (NoGradGuard) where it was",
            loc);
    }
    if (!gradient || !Access::given(*gradient)) {
        if (to.numel() != 1)
            throw StateError(
                what + ": the tensor " + text(to) + " has " + std::to_string(to.numel()) +
                    " elements; give the gradient of each, or make one number of them, as sum() does",
                loc);
        return record_literal(from_ir(to.dtype), 1, to.shape, to.device, loc);
    }
    const ir::TensorType &from = checked_type(*gradient, function, loc);
    if (!(from.shape == to.shape))
        throw ShapeError(what + ": the gradient is " + text(from) + " and the tensor " + text(to) +
                             "; both must have the same shape",
                         loc);
    if (!ir::is_float(from.dtype))
        throw DTypeError(what + ": the gradient is " + text(from) + "; it must have a floating dtype", loc);
    if (from.device != to.device)
        throw DeviceError(what + ": the gradient is on " + ir::to_string(from.device) +
                              " and the tensor on " + ir::to_string(to.device) + "; move it with to()",
                          loc);
    return cast(*gradient, to.dtype, loc);
}

/// What a hook gives instead of a gradient has to be of its type.
Tensor hooked(const StepExtras::Hook &hook, const Tensor &g, const ir::TensorType &type, Location loc) {
    const Tensor other = hook.function(g);
    if (!Access::given(other))
        return g;
    const ir::TensorType &given = checked_type(other, "register_hook", loc);
    if (!(given == type))
        throw StateError("register_hook: the hook gave " + ir::to_string(given) +
                             " in the place of a gradient of " + ir::to_string(type) +
                             "; it must give the same type, or an empty tensor to leave it",
                         loc);
    return other;
}

/// A gradient that somebody will be able to ask for.
struct Delivery {
    Step *step;
    uint16_t result;
    Tensor gradient;
};

/// The same value as a tensor of its own, so that nobody who has another handle sees what is added to it
/// later.
Tensor own(const Tensor &g, bool with_history) {
    const Edge history = with_history ? history_of(g) : Edge();
    return Access::wrap(make_alias(Access::node(g), history.step, history.result));
}

void deliver(const Delivery &d, bool create_graph, Location loc) {
    const StepLock lock(*d.step);
    StepExtras::Kept *const kept = d.step->kept(d.result);
    if (!kept)
        return;
    if (Trace *const trace = Recorder::current().trace()) [[unlikely]]
        trace->note_gradient(d.step, d.result);
    if (!kept->grad.defined() || !d.step->is_leaf()) {
        kept->grad = own(d.gradient, create_graph);
    } else {
        const Tensor sum = binary(Op::Add, kept->grad, d.gradient, loc);
        if (create_graph || has_history(kept->grad))
            kept->grad = sum;
        else
            replace(kept->grad, sum);
    }
}

class Backward {
public:
    Backward(std::span<const Edge> roots, std::span<const Tensor> inputs, const BackwardOptions &options,
             Location loc)
        : options_(options), loc_(loc), inputs_(inputs), names_(options.function, loc),
          walk_(roots, options.function, loc, [&](const Walk::Visit &v) { return is_wanted(*v.step); }),
          slots_(walk_.num_slots()), captured_(inputs.size()) {}

    void add_seed(const Edge &root, const Tensor &seed) {
        Tensor &slot = slots_[walk_.visit(walk_.find(root.step)).first_slot + root.result];
        slot = slot.defined() ? binary(Op::Add, slot, seed, loc_) : seed;
    }

    void run() {
        const GradModeScope mode(options_.create_graph);
        const AutocastScope dtypes_of_forward;
        Streams streams(Recorder::current());
        const std::span<const uint32_t> order = walk_.order();
        for (size_t i = order.size(); i-- > 0;) {
            Walk::Visit &visit = walk_.visit(order[i]);
            const size_t results = visit.step->num_results;
            if (visit.needed)
                go_through(visit, streams);
            for (size_t k = 0; k < results; ++k)
                slots_[visit.first_slot + k] = Tensor();
            // A step that nobody else has goes at once, and what is recorded next gets its memory. Those are
            // kept that are asked for afterwards: with a gradient to be delivered, or among the inputs.
            if (inputs_.empty() && !visit.step->extras)
                visit.step = StepRef();
        }
        streams.leave();
        for (const Delivery &d : deliveries_)
            deliver(d, options_.create_graph, loc_);
    }

    /// Throws StateError for an input that no output depends on, or finds that it has none.
    void check_inputs() {
        for (size_t i = 0; i < inputs_.size(); ++i) {
            const Edge input = history_of(inputs_[i]);
            if (walk_.find(input.step) == Walk::kNone && !options_.allow_unused)
                throw StateError(std::string(options_.function) + ": no output depends on input " +
                                     std::to_string(i) + ", a tensor " + text(type(inputs_[i])) +
                                     "; with allow_unused its gradient is an empty tensor",
                                 loc_);
        }
    }

    /// Of an input on which only what has no slope depends: zeros.
    std::vector<Tensor> captured() && {
        for (size_t i = 0; i < inputs_.size(); ++i)
            if (!captured_[i].defined() && walk_.find(history_of(inputs_[i]).step) != Walk::kNone) {
                const ir::TensorType &t = type(inputs_[i]);
                captured_[i] = record_literal(from_ir(t.dtype), 0, t.shape, t.device, loc_);
            }
        return std::move(captured_);
    }

private:
    bool is_wanted(const Step &step) const {
        if (step.is_leaf() && options_.accumulate && step.wants_gradient())
            return true;
        for (const Tensor &input : inputs_)
            if (Access::cell(input)->history == &step)
                return true;
        return false;
    }

    void go_through(Walk::Visit &visit, Streams &streams) {
        Step &step = *visit.step;
        const std::span<Tensor> gradients = std::span(slots_).subspan(visit.first_slot, step.num_results);
        Location at = from_ir(step.loc);
        at.function = names_.of(step);
        at.call = static_cast<uint16_t>(Recorder::current().recorded());
        streams.enter(step);
        bool any = false;
        for (uint16_t k = 0; k < step.num_results; ++k) {
            if (gradients[k].defined() && step.extras)
                call_hooks(step, k, gradients[k], at);
            capture(step, k, gradients[k]);
            any |= gradients[k].defined();
        }
        if (step.is_leaf() && options_.accumulate && step.wants_gradient() && !any) { // only through zeros
            const ir::TensorType &type = step.results()[0];
            deliveries_.push_back(
                {&step, 0, record_literal(from_ir(type.dtype), 0, type.shape, type.device, at)});
        }
        if (step.is_leaf() || !any)
            return;
        RuleCall call(step, scratch_, options_, names_.walk(), at);
        for (uint16_t k = 0; k < step.num_results; ++k)
            call.set_gradient(k, std::move(gradients[k]));
        for (size_t i = 0; i < call.num_inputs(); ++i)
            if (const uint32_t child = walk_.child(visit, i);
                child != Walk::kNone && walk_.visit(child).needed)
                call.want(i, slots_[walk_.visit(child).first_slot + call.edge(i).result]);
        step.rule->run(call);
    }

    void call_hooks(Step &step, uint16_t result, Tensor &g, Location at) {
        // A hook may register another one.
        const std::vector<StepExtras::Hook> hooks = step.extras->hooks;
        for (const StepExtras::Hook &hook : hooks)
            if (hook.result == result)
                g = hooked(hook, g, step.results()[result], at);
        if (step.kept(result) && (!step.is_leaf() || (options_.accumulate && step.wants_gradient())))
            deliveries_.push_back({&step, result, g});
    }

    void capture(const Step &step, uint16_t result, const Tensor &g) {
        for (size_t i = 0; i < inputs_.size(); ++i) {
            const Cell *const cell = Access::cell(inputs_[i]);
            if (cell->history == &step && cell->result == result)
                captured_[i] = g;
        }
    }

    const BackwardOptions &options_;
    const Location loc_;
    const std::span<const Tensor> inputs_;
    Names names_;
    Walk walk_;
    std::vector<Tensor> slots_; ///< gradients gathered so far, by result
    std::vector<Tensor> captured_;
    std::vector<Delivery> deliveries_;
    RuleCall::Scratch scratch_;
};

} // namespace

std::vector<Tensor> run_backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
                                 std::span<const Tensor> inputs, const BackwardOptions &options,
                                 Location loc) {
    std::vector<Edge> roots;
    std::vector<Tensor> seeds;
    for (size_t i = 0; i < outputs.size(); ++i) {
        seeds.push_back(
            seed_of(outputs[i], i < gradients.size() ? &gradients[i] : nullptr, options.function, loc));
        roots.push_back(history_of(outputs[i]));
    }
    Backward backward(roots, inputs, options, loc);
    backward.check_inputs();
    {
        const GradModeScope mode(options.create_graph);
        for (size_t i = 0; i < roots.size(); ++i)
            backward.add_seed(roots[i], seeds[i]);
    }
    backward.run();
    return std::move(backward).captured();
}

} // namespace lz::detail
