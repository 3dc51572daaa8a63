// Functions with a backward of the user's own, and checkpoints.
#include "lazuli/autograd/function.h"

#include "frontend/autograd/attach.h"
#include "frontend/autograd/backward.h"
#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "lazuli/ops/random.h"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>
#include <string>
#include <typeinfo>

namespace lz {

using autograd::AutogradContext;
using autograd::SavedData;
using autograd::SavedValue;
using autograd::variable_list;

namespace detail {

/// A saved tensor: its value, and the history that it had. A result of the function itself has that of the
/// step, which is not held: the step holds this.
struct SavedTensor {
    Tensor value; ///< without history; undefined if it was
    StepRef history;
    uint16_t result = 0;
    int own_result = -1; ///< which result of the function it is
};

struct SavedTensors {
    variable_list given; ///< while forward runs
    std::vector<SavedTensor> kept;
    std::vector<const Cell *> without_gradient; ///< results, while forward runs
    std::vector<bool> wanted;                   ///< arguments, while backward runs
    Step *step = nullptr;                       ///< likewise
    bool create_graph = false;
    bool materialize = true;
};

struct FunctionAccess {
    static SavedTensors &saved(AutogradContext &context) { return *context.saved_; }
};

} // namespace detail

using detail::Access;
using detail::Cell;
using detail::FunctionAccess;
using detail::RuleCall;
using detail::SavedTensor;
using detail::SavedTensors;
using detail::Step;
using detail::StepRef;

AutogradContext::AutogradContext() : saved_(std::make_unique<SavedTensors>()) {}
AutogradContext::~AutogradContext() = default;

void AutogradContext::save_for_backward(variable_list tensors) {
    saved_->given = std::move(tensors);
}

variable_list AutogradContext::get_saved_variables() const {
    variable_list out;
    for (const SavedTensor &one : saved_->kept) {
        Step *const history = !saved_->create_graph ? nullptr
                              : one.own_result >= 0 ? saved_->step
                                                    : one.history.get();
        if (!one.value.defined())
            out.emplace_back();
        else
            out.push_back(Access::wrap(detail::make_alias(
                Access::node(one.value), history,
                one.own_result >= 0 ? static_cast<uint16_t>(one.own_result) : one.result)));
    }
    return out;
}

void AutogradContext::mark_non_differentiable(const variable_list &results) {
    for (const Tensor &x : results)
        saved_->without_gradient.push_back(Access::cell(x));
}

void AutogradContext::set_materialize_grads(bool value) {
    saved_->materialize = value;
}

bool AutogradContext::needs_input_grad(size_t argument) const {
    return argument < saved_->wanted.size() && saved_->wanted[argument];
}

namespace {

constexpr struct {
    const char *kind, *reader;
} kKinds[] = {{"nothing", nullptr}, {"an integer", "toInt"},   {"a number", "toDouble"},
              {"a bool", "toBool"}, {"a text", "toStringRef"}, {"a tensor", "toTensor"}};

} // namespace

template <class T>
const T &SavedValue::get(const char *function, Location loc) const {
    if (const T *const value = std::get_if<T>(&value_))
        return *value;
    const auto &there = kKinds[value_.index()];
    std::string message = std::string(function) + ": ";
    message += key_.empty() ? "the value" : "saved_data[\"" + key_ + "\"]";
    message += std::string(" holds ") + there.kind;
    if (there.reader)
        message += std::string("; it is read with ") + there.reader;
    throw StateError(message, loc);
}
int64_t SavedValue::toInt(Location loc) const {
    return get<int64_t>("toInt", loc);
}
double SavedValue::toDouble(Location loc) const {
    return get<double>("toDouble", loc);
}
bool SavedValue::toBool(Location loc) const {
    return get<bool>("toBool", loc);
}
const std::string &SavedValue::toStringRef(Location loc) const {
    return get<std::string>("toStringRef", loc);
}
const Tensor &SavedValue::toTensor(Location loc) const {
    return get<Tensor>("toTensor", loc);
}

SavedValue::SavedValue(std::string value) : value_(std::move(value)) {}
SavedValue::SavedValue(const char *value) : value_(std::string(value)) {}
SavedValue::SavedValue(Tensor value) : value_(std::move(value)) {}

void SavedValue::put(bool value) {
    value_ = value;
}
void SavedValue::put(int64_t value) {
    value_ = value;
}
void SavedValue::put(double value) {
    value_ = value;
}

SavedValue &SavedData::operator[](const std::string &key) {
    SavedValue &value = std::map<std::string, SavedValue>::operator[](key);
    value.key_ = key;
    return value;
}

const SavedValue &SavedData::at(const std::string &key, Location loc) const {
    const auto found = find(key);
    if (found == end())
        throw IndexError("saved_data: there is no \"" + key + "\" among " + std::to_string(size()) +
                             (size() == 1 ? " value" : " values"),
                         loc);
    return found->second;
}

namespace {

/// What a step of such a function keeps.
struct Payload {
    std::shared_ptr<AutogradContext> context;
    std::function<variable_list(AutogradContext *, variable_list)> backward;
};

void run_function(RuleCall &call) {
    const auto &payload = *static_cast<const Payload *>(call.payload());
    SavedTensors &saved = FunctionAccess::saved(*payload.context);
    saved.step = &call.step();
    saved.create_graph = call.create_graph();
    saved.wanted.clear();
    for (size_t i = 0; i < call.num_inputs(); ++i)
        saved.wanted.push_back(call.wanted(i));
    variable_list grads;
    for (uint16_t k = 0; k < call.step().num_results; ++k)
        grads.push_back(saved.materialize || call.gradient(k).defined() ? call.g(k).tensor() : Tensor());
    const variable_list given = payload.backward(payload.context.get(), std::move(grads));
    const size_t needed = call.num_inputs();
    bool fits = given.size() >= needed;
    for (size_t i = needed; i < given.size(); ++i) // PyTorch lets what is left over be empty
        fits = fits && !Access::given(given[i]);
    const std::string name(ir::called(call.step().op, call.step().loc));
    if (!fits)
        throw StateError(name + ": backward gave " + std::to_string(given.size()) +
                             " gradients; its forward has " + std::to_string(needed) +
                             " arguments, and each has one (an empty tensor for what is no tensor)",
                         call.loc());
    for (size_t i = 0; i < needed; ++i) {
        if (!call.wanted(i) || !Access::given(given[i]))
            continue;
        const ir::TensorType &type = call.type(i);
        const ir::TensorType &found = detail::checked_type(given[i], name.c_str(), call.loc());
        detail::Shape joined;
        int axis = 0;
        if (!ir::is_float(found.dtype) || !ir::broadcast_shapes(found.shape, type.shape, joined, axis) ||
            !(joined == found.shape))
            throw ShapeError(name + ": backward gave " + detail::text(found) +
                                 " as the gradient of argument " + std::to_string(i) + ", which is " +
                                 detail::text(type),
                             call.loc());
        call.give(i, given[i]);
    }
}

const detail::Rule kFunctionRule{run_function};

/// The class as it is written, without namespaces, and what encloses it.
std::string name_of(const std::type_info &type) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void *)> demangled(
        abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
    std::string name = status == 0 ? demangled.get() : type.name();
    if (const size_t arguments = name.find('<'); arguments != std::string::npos)
        name.resize(arguments);
    if (const size_t space = name.rfind("::"); space != std::string::npos)
        name.erase(0, space + 2);
    return name;
}

/// Where errors of the function belong: to the line that made its first result; and its name.
ir::Location line_of(const variable_list &results, const std::type_info &type, Location loc) {
    ir::Location line = loc.file          ? detail::to_ir(loc)
                        : results.empty() ? ir::Location()
                                          : Access::node(results[0])->loc;
    line.function = ir::intern_function(name_of(type));
    return line;
}

/// No result is empty.
void check_results(const variable_list &results, const variable_list &inputs, const std::type_info &type,
                   Location loc) {
    for (size_t i = 0; i < results.size(); ++i) {
        if (Access::given(results[i]))
            continue;
        const auto first = std::ranges::find_if(inputs, [](const Tensor &x) { return Access::given(x); });
        if (!loc.file && first != inputs.end())
            loc = detail::from_ir(Access::node(*first)->loc);
        const std::string which = results.size() == 1 ? "an empty tensor"
                                                      : "an empty tensor as result " + std::to_string(i) +
                                                            " of " + std::to_string(results.size());
        throw StateError(name_of(type) + ": forward gave " + which + "; each result is a defined tensor",
                         loc);
    }
}

void keep(SavedTensors &saved, const variable_list &results) {
    for (const Tensor &x : std::exchange(saved.given, {})) {
        SavedTensor one;
        if (Access::given(x)) {
            const Cell *const cell = Access::cell(x);
            one.value = Access::wrap(detail::make_alias(Access::node(x)));
            const auto own = std::ranges::find_if(results, [&](const Tensor &r) { return r.same_tensor(x); });
            if (own != results.end()) {
                one.own_result = static_cast<int>(own - results.begin());
            } else {
                one.history = StepRef(cell->history);
                one.result = cell->result;
            }
        }
        saved.kept.push_back(std::move(one));
    }
}

} // namespace

variable_list detail::apply_function(const std::shared_ptr<AutogradContext> &context,
                                     const variable_list &inputs,
                                     const std::function<variable_list()> &forward,
                                     std::function<variable_list(AutogradContext *, variable_list)> backward,
                                     const std::type_info &type, Location loc) {
    variable_list results = forward();
    check_results(results, inputs, type, loc);
    if (!detail::Recorder::current().grad_mode())
        return results;
    SavedTensors &saved = FunctionAccess::saved(*context);
    for (Tensor &r : results) {
        // An argument that is given back is a tensor of its own.
        if (std::ranges::any_of(inputs, [&](const Tensor &x) { return x.defined() && r.same_tensor(x); }))
            r = r.detach(loc);
    }
    keep(saved, results);
    const StepRef made = detail::attach_function(
        kFunctionRule, line_of(results, type, loc), results, inputs,
        [&](const Tensor &r) {
            return std::ranges::find(saved.without_gradient, Access::cell(r)) == saved.without_gradient.end();
        },
        std::make_shared<Payload>(Payload{context, std::move(backward)}));
    saved.without_gradient.clear();
    return results;
}

namespace {

struct Recomputed {
    std::function<Tensor(const variable_list &)> f;
    std::vector<SavedTensor> inputs;
    Generator::State random;
    detail::AutocastMode autocast; ///< as it was
};

/// Numbers are drawn as they were, and then go on where they stood.
class DrawnAgain {
public:
    explicit DrawnAgain(const Generator::State &at) : now_(default_generator().get_state()) {
        default_generator().set_state(at);
    }
    ~DrawnAgain() { default_generator().set_state(now_); }
    DrawnAgain(const DrawnAgain &) = delete;
    DrawnAgain &operator=(const DrawnAgain &) = delete;

private:
    const Generator::State now_;
};

void check_defined(const Tensor &result, Location loc) {
    if (!Access::given(result))
        throw StateError("checkpoint: the function gave an empty tensor; its result is a defined one", loc);
}

/// x again, as a value that is computed once the gradient `g` is: whatever is computed from it comes after
/// that, and is nothing that the forward computed. Without it the passes would merge the second recording
/// with the first, and keep the forward's values until backward reads them. The compiler does not know the
/// condition, a word of the run which is always true; no bit changes.
Tensor once_there(const Tensor &x, const Tensor &g, Location loc) {
    const detail::GradModeScope off(false);
    const ir::TensorType type = detail::type(x);
    if (type.numel() == 0 || detail::type(g).numel() == 0)
        return x.detach(loc);
    Tensor one = g.detach(loc);
    for (int axis = detail::type(g).shape.rank() - 1; axis >= 0; --axis)
        one = detail::cut(one, axis, 0, 1, 1, loc);
    one = detail::reshape_to(one, {}, loc).to(detail::from_ir(type.device), loc);
    const Tensor always = detail::constant(true, ir::DType::Bool, type.device, loc);
    return detail::select(always, x.detach(loc), detail::cast(one, type.dtype, loc), loc);
}

void run_checkpoint(RuleCall &call) {
    const Tensor g = call.g().tensor();
    const auto &payload = *static_cast<const Recomputed *>(call.payload());
    variable_list at, wanted;
    for (size_t i = 0; i < payload.inputs.size(); ++i) {
        const SavedTensor &one = payload.inputs[i];
        // With create_graph it is the tensor itself that is differentiated, and all of it is kept; else a
        // leaf in its place.
        Tensor x =
            !one.value.defined() ? Tensor()
            : call.create_graph() && one.history.get()
                ? Access::wrap(detail::make_alias(Access::node(one.value), one.history.get(), one.result))
            : call.create_graph() ? one.value.detach(call.loc())
                                  : once_there(one.value, g, call.loc());
        if (call.wanted(i)) {
            if (!x.requires_grad())
                x.requires_grad_(true, call.loc());
            wanted.push_back(x);
        }
        at.push_back(std::move(x));
    }
    Tensor result;
    {
        const detail::GradModeScope on(true);
        const detail::AutocastScope autocast(payload.autocast);
        const DrawnAgain numbers(payload.random);
        result = payload.f(at);
    }
    check_defined(result, call.loc());
    if (!result.requires_grad())
        return;
    std::vector<Tensor> gradients = detail::run_backward({&result, 1}, {&g, 1}, wanted,
                                                         {.retain_graph = call.create_graph(),
                                                          .create_graph = call.create_graph(),
                                                          .accumulate = call.accumulates(),
                                                          .allow_unused = true,
                                                          .function = "checkpoint"},
                                                         call.loc());
    size_t k = 0;
    for (size_t i = 0; i < call.num_inputs(); ++i)
        if (call.wanted(i))
            call.give(i, gradients[k++]);
}

const detail::Rule kCheckpointRule{run_checkpoint};

} // namespace

Tensor autograd::checkpoint(const std::function<Tensor(const variable_list &)> &f,
                            const variable_list &inputs, Location loc) {
    loc = detail::in<"checkpoint">(loc);
    const auto wants = [](const Tensor &x) { return x.defined() && detail::has_history(x); };
    if (!detail::Recorder::current().grad_mode() || std::ranges::none_of(inputs, wants)) {
        Tensor result = f(inputs);
        check_defined(result, loc);
        return result;
    }
    auto payload = std::make_shared<Recomputed>();
    payload->f = f;
    payload->random = default_generator().get_state();
    payload->autocast = detail::Autocasting::mode();
    for (const Tensor &x : inputs) {
        SavedTensor one;
        if (Access::given(x)) {
            one.value = x.detach(loc);
            one.history = StepRef(Access::cell(x)->history);
            one.result = Access::cell(x)->result;
        }
        payload->inputs.push_back(std::move(one));
    }
    variable_list results;
    {
        const detail::GradModeScope off(false);
        results.push_back(f(inputs));
    }
    check_defined(results[0], loc);
    if (std::ranges::any_of(inputs, [&](const Tensor &x) { return results[0].same_tensor(x); }))
        results[0] = results[0].detach(loc);
    detail::attach_function(
        kCheckpointRule, detail::to_ir(loc), results, inputs, [](const Tensor &) { return true; }, payload);
    return std::move(results[0]);
}

} // namespace lz
