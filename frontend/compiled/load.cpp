#include "lazuli/program.h"

#include "frontend/autograd/step.h"
#include "frontend/compiled/plan.h"
#include "frontend/compiled/replay.h"
#include "frontend/compiled/signature.h"
#include "frontend/engine/saved/files.h"
#include "frontend/record/access.h"
#include "frontend/record/convert.h"
#include "frontend/record/execution/failures.h"
#include "frontend/record/record.h"
#include "frontend/record/recorder.h"
#include "frontend/record/storage.h"
#include "frontend/record/sync/sync.h"
#include "frontend/tensor/error.h"
#include "ir/op.h"
#include "ir/saved/saved_program.h"
#include "lazuli/core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace lz {
namespace {

using detail::CompiledPlan;

ProgramTensor to_public(const ir::SavedTensor &tensor) {
    return {tensor.name,
            detail::from_ir(tensor.type.dtype),
            {tensor.type.shape.begin(), tensor.type.shape.end()},
            ir::to_string(tensor.type.device)};
}

ProgramSignature signature_of(const ir::SavedPlan &plan) {
    ProgramSignature signature;
    for (const ir::SavedTensor &argument : plan.arguments)
        signature.inputs.push_back(to_public(argument));
    for (const ir::SavedOutput &output : plan.outputs)
        signature.outputs.push_back(to_public(output.tensor));
    for (const ir::SavedNumber &number : plan.numbers)
        signature.numbers.push_back(number.any ? std::nullopt : std::optional(number.value));
    return signature;
}

/// A copy of the program file's memory; the memory itself, where it has an owner.
detail::Storage *storage_of(const ir::SavedConstant &saved, const std::shared_ptr<const void> &owner) {
    if (owner && !saved.bytes.empty()) // which nobody writes
        return detail::Storage::adopt(const_cast<std::byte *>(saved.bytes.data()), saved.type.bytes(),
                                      [owner](void *) {});
    detail::Storage *const storage = detail::Storage::allocate(saved.type.bytes(), {});
    if (!saved.bytes.empty())
        std::memcpy(storage->data(), saved.bytes.data(), saved.bytes.size());
    return storage;
}

Tensor constant_of(const ir::SavedConstant &saved, const std::shared_ptr<const void> &owner, Location loc) {
    detail::Storage *const storage = storage_of(saved, owner);
    ir::TensorType on_host = saved.type;
    on_host.device = ir::kCpu;
    const Tensor constant = detail::make_ready(on_host, storage, {});
    if (saved.type.device == ir::kCpu)
        return constant;
    Tensor there = constant.to(detail::from_ir(saved.type.device), loc);
    detail::materialize_now(detail::Access::node(there), loc);
    return there;
}

CompiledPlan::Word word_of(const ir::SavedWord &saved) {
    using Kind = CompiledPlan::Word::Kind;
    constexpr Kind kKinds[] = {Kind::Seed, Kind::Offset, Kind::Number, Kind::Element};
    return {saved.at, kKinds[static_cast<size_t>(saved.kind)], saved.of, saved.form};
}

/// What a replay does, as `compile` would have found it.
detail::CompiledPlanPtr plan_of(const ir::SavedPlan &saved, engine::SavedLoader &loader,
                                std::span<const Tensor> constants) {
    auto plan = std::make_shared<CompiledPlan>();
    plan->executable = loader.load(saved);
    plan->on_streams = plan->may_fail_later = !engine::Engine::get().cpu_only(*plan->executable);
    plan->number = detail::next_plan_number();
    plan->host_state = CompiledPlan::kAnyHostState;
    for (const ir::SavedNumber &number : saved.numbers)
        plan->numbers.emplace_back(number.value, number.any);
    for (uint32_t i = 0; i < saved.arguments.size(); ++i) {
        CompiledPlan::Source &source = plan->sources.emplace_back();
        source.argument = i;
        source.type = saved.arguments[i].type;
    }
    for (const ir::SavedInput &input : saved.inputs) {
        CompiledPlan::Input &added = plan->inputs.emplace_back();
        added.source = input.argument;
        added.constant = input.constant;
        if (input.constant != ir::kNothing) {
            added.constant = static_cast<uint32_t>(plan->constants.size());
            plan->constants.push_back(constants[input.constant]);
        }
    }
    for (const ir::TensorType &type : saved.results) {
        CompiledPlan::Result &result = plan->results.emplace_back();
        result.type = type;
        result.make_slot_if_small(plan->on_streams);
    }
    for (const ir::SavedValue &value : saved.values) {
        CompiledPlan::Value &added = plan->values.emplace_back();
        added.result = value.result;
        added.source = value.argument;
        added.type = value.type;
        added.loc = value.loc;
    }
    for (const ir::SavedOutput &output : saved.outputs) {
        CompiledPlan::Output &added = plan->outputs.emplace_back();
        added.value = output.value;
        added.same_source = output.argument;
        added.same_output = output.output;
        added.empty =
            output.value == ir::kNothing && output.argument == ir::kNothing && output.output == ir::kNothing;
        if (output.value != ir::kNothing)
            ++plan->values[output.value].places;
    }
    plan->words = saved.words;
    for (const ir::SavedWord &word : saved.again)
        plan->again.push_back(word_of(word));
    for (const int64_t words : saved.draws)
        plan->draws.push_back({words, 0, 0});
    for (const ir::SavedOperation &operation : saved.operations)
        plan->operations.push_back({*ir::op_from_name(operation.op), operation.loc});
    plan->note_simple();
    return plan;
}

} // namespace

struct Program::Impl {
    std::string name, description;
    std::vector<ProgramSignature> signatures;
    std::vector<detail::CompiledPlanPtr> plans; ///< one a signature

    /// The first plan that takes these, or null.
    const detail::CompiledPlanPtr *find(std::span<const Tensor> inputs,
                                        std::span<const double> numbers) const;
    [[noreturn]] void refuse(std::span<const Tensor> inputs, std::span<const double> numbers,
                             Location loc) const;
    [[noreturn]] void refuse(const std::string &input, const ir::TensorType &wanted,
                             const ir::TensorType &given, Location loc) const;
    [[noreturn]] void refuse_numbers(std::span<const double> numbers, Location loc) const;
    std::string others() const;
};

namespace {

/// How many of the first inputs fit.
size_t fitting(const CompiledPlan &plan, std::span<const Tensor> inputs) {
    size_t i = 0;
    while (i < inputs.size() && i < plan.sources.size() &&
           detail::same_type(detail::Access::node(inputs[i])->type, plan.sources[i].type))
        ++i;
    return i;
}
/// How near they are to what the plan takes; 0: there are more of them, or fewer.
size_t closeness(const CompiledPlan &plan, std::span<const Tensor> inputs) {
    if (inputs.size() != plan.sources.size())
        return 0;
    const size_t fits = fitting(plan, inputs);
    if (fits == inputs.size())
        return 4 * fits + 4;
    const ir::TensorType &given = detail::Access::node(inputs[fits])->type, &wanted = plan.sources[fits].type;
    return 4 * fits + 1 + 2 * static_cast<size_t>(given.dtype == wanted.dtype) +
           static_cast<size_t>(given.shape.rank() == wanted.shape.rank());
}
bool takes(const CompiledPlan &plan, std::span<const Tensor> inputs) {
    return inputs.size() == plan.sources.size() && fitting(plan, inputs) == inputs.size();
}
bool takes(const CompiledPlan &plan, std::span<const double> numbers) {
    if (numbers.size() != plan.numbers.size())
        return false;
    for (size_t k = 0; k < numbers.size(); ++k)
        if (!plan.numbers[k].takes(numbers[k]))
            return false;
    return true;
}

} // namespace

const detail::CompiledPlanPtr *Program::Impl::find(std::span<const Tensor> inputs,
                                                   std::span<const double> numbers) const {
    for (const detail::CompiledPlanPtr &plan : plans)
        if (takes(*plan, inputs) && takes(*plan, numbers))
            return &plan;
    return nullptr;
}

std::string Program::Impl::others() const {
    return signatures.size() == 1
               ? ""
               : fmt::format(", or what one of its {} signatures takes", signatures.size());
}

void Program::Impl::refuse(const std::string &input, const ir::TensorType &wanted,
                           const ir::TensorType &given, Location loc) const {
    const std::string type = ir::to_string(wanted);
    const std::string text =
        fmt::format("{}: its input `{}` is {}, and has to be {} on {}{}", name, input, ir::to_string(given),
                    type.substr(0, type.find(" @")), ir::to_string(wanted.device), others());
    if (given.dtype != wanted.dtype)
        throw DTypeError(text, loc);
    if (given.device != wanted.device)
        throw DeviceError(text, loc);
    throw ShapeError(text, loc);
}

void Program::Impl::refuse_numbers(std::span<const double> numbers, Location loc) const {
    const ProgramSignature &first = signatures.front();
    if (numbers.size() != first.numbers.size())
        throw StateError(fmt::format("{}: it takes {} numbers, and got {}{}", name, first.numbers.size(),
                                     numbers.size(), others()),
                         loc);
    for (size_t k = 0; k < numbers.size(); ++k)
        if (first.numbers[k] && !detail::same_bits(*first.numbers[k], numbers[k]))
            throw StateError(
                fmt::format("{}: number {} is {}, and was {} when the program was recorded: with other "
                            "numbers it does something else, or it was not called with any{}",
                            name, k, numbers[k], *first.numbers[k], others()),
                loc);
    throw StateError(fmt::format("{}: it was not recorded with these numbers", name), loc);
}

/// Throws what is wrong with a call that fits no signature, by the signature that fits up to the latest
/// argument.
void Program::Impl::refuse(std::span<const Tensor> inputs, std::span<const double> numbers,
                           Location loc) const {
    if (std::ranges::any_of(plans, [&](const auto &plan) { return takes(*plan, inputs); }))
        refuse_numbers(numbers, loc);
    size_t best = 0, closest = 0;
    for (size_t p = 0; p < plans.size(); ++p)
        if (const size_t near = closeness(*plans[p], inputs); near > closest) {
            best = p;
            closest = near;
        }
    const ProgramSignature &signature = signatures[best];
    if (closest == 0)
        throw StateError(fmt::format("{}: it takes {} tensors, and got {}{}", name, signature.inputs.size(),
                                     inputs.size(), others()),
                         loc);
    const size_t misfit = fitting(*plans[best], inputs);
    refuse(signature.inputs[misfit].name, plans[best]->sources[misfit].type,
           detail::Access::node(inputs[misfit])->type, loc);
}

const Program::Impl &Program::impl() const {
    if (!impl_)
        throw StateError("this Program is empty: load_program gives one", {});
    return *impl_;
}

const std::vector<ProgramSignature> &Program::signatures() const {
    return impl().signatures;
}
const std::string &Program::name() const {
    return impl().name;
}
std::string Program::explain() const {
    std::string text = impl().description;
    for (const detail::CompiledPlanPtr &plan : impl().plans)
        text += engine::Engine::get().explain(*plan->executable);
    return text;
}

std::vector<Tensor> Program::operator()(std::span<const Tensor> inputs, std::span<const double> numbers,
                                        Location loc) const {
    const Impl &program = impl();
    const detail::Recorder &recorder = detail::Recorder::current();
    if (recorder.trace())
        keep_uncompiled("calls a program that was loaded from a file", loc);
    detail::CompiledArguments arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const detail::Node *const node = detail::node_of(inputs[i], program.name.c_str(), loc);
        static_cast<void>(node);
        const detail::Cell *const cell = detail::Access::cell(inputs[i]);
        if (recorder.grad_mode() && cell->history && cell->history->wants_gradient())
            throw StateError(
                fmt::format("{}: input {} requires a gradient, and programs from files have none: "
                            "call it under a NoGradGuard, or with detach()",
                            program.name, i),
                loc);
        arguments.tensors.push_back(&inputs[i]);
    }
    for (const double number : numbers)
        arguments.numbers.push_back(number);
    const detail::CompiledPlanPtr *const plan = program.find(inputs, numbers);
    if (!plan)
        program.refuse(inputs, numbers, loc);
    if ((*plan)->on_streams)
        try {
            engine::check_peers(*(*plan)->executable);
        } catch (const ir::Failure &failure) {
            detail::throw_public(
                ir::Failure(failure.kind(), fmt::format("{}: {}", program.name, failure.message())), loc);
        }
    detail::CompiledResults results;
    if (!detail::replay(**plan, arguments, results)) {
        for (const Tensor &input : inputs) // one that failed says so; one that is on its way arrives
            detail::materialize_now(detail::Access::node(input), loc);
        if (!detail::replay(**plan, arguments, results))
            throw OutOfMemoryError(fmt::format("{}: {}", program.name, detail::kNoMemoryToRun), loc);
    }
    return {std::make_move_iterator(results.data()), std::make_move_iterator(results.data() + results.count)};
}

std::vector<Tensor> Program::operator()(std::initializer_list<Tensor> inputs,
                                        std::initializer_list<double> numbers, Location loc) const {
    return (*this)(std::span(inputs.begin(), inputs.size()), std::span(numbers.begin(), numbers.size()), loc);
}

Program load_program(const std::string &path, const LoadProgramOptions &options, Location loc) {
    try {
        const std::vector<std::byte> file = engine::read_file(path, options.from_anybody);
        ir::SavedProgram saved = ir::read_saved(file);
        const std::vector<std::shared_ptr<const void>> owners =
            engine::find_weights(saved, path, options.weights, options.check_weights, options.map_weights);
        auto impl = std::make_shared<Program::Impl>();
        impl->name = saved.name;
        impl->description = ir::describe(saved);
        engine::SavedLoader loader(saved);
        std::vector<Tensor> constants;
        for (size_t c = 0; c < saved.constants.size(); ++c)
            constants.push_back(constant_of(saved.constants[c], owners[c], loc));
        for (const ir::SavedPlan &plan : saved.plans) {
            impl->signatures.push_back(signature_of(plan));
            impl->plans.push_back(plan_of(plan, loader, constants));
        }
        Program program;
        program.impl_ = std::move(impl);
        return program;
    } catch (const ir::Failure &failure) {
        detail::throw_public(
            ir::Failure(failure.kind(), fmt::format("load_program: \"{}\" {}", path, failure.message())),
            loc);
    }
}

} // namespace lz
