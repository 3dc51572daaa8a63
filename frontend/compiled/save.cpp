#include "lazuli/program.h"

#include "frontend/compiled/core.h"
#include "frontend/compiled/replay.h"
#include "frontend/engine/saved/files.h"
#include "frontend/engine/saved/program_code.h"
#include "frontend/record/access.h"
#include "frontend/record/convert.h"
#include "frontend/record/recording/key.h"
#include "frontend/record/storage.h"
#include "frontend/record/sync/sync.h"
#include "frontend/tensor/error.h"
#include "ir/op.h"
#include "ir/saved/saved_program.h"
#include "lazuli/core/error.h"
#include "lazuli/version.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace lz::detail {
namespace {

/// What of the signatures is saved, in the order in which they were used last.
struct Chosen {
    Signature signature;
    std::vector<CompiledPlanPtr> plans;
};

class ProgramSaver {
public:
    ProgramSaver(std::string path, const CompiledCore &core, const SaveProgramOptions &options, Location loc)
        : path_(std::move(path)), core_(core), options_(options), loc_(loc) {
        saved_.name = options.name.empty() ? core.options.name : options.name;
    }

    void run() {
        for (const Chosen &chosen : choose())
            for (const CompiledPlanPtr &plan : plans_of(chosen))
                add(chosen.signature, *plan);
        saved_.made_by = fmt::format("Lazuli {}, {}", version(), engine::made_by());
        code_.give(saved_);
        if (!options_.weights.empty())
            engine::refer_to_weights(saved_, path_, options_.weights);
        engine::write_file(path_, saved_);
    }

private:
    [[noreturn]] void refuse(const std::string &why) const {
        throw StateError(fmt::format("save_program: {} cannot be saved: {}", core_.options.name, why), loc_);
    }
    [[noreturn]] void refuse(const char *why, const ir::Location &where) const {
        refuse(where.known() ? fmt::format("{}, at {}", why, ir::to_string(where)) : std::string(why));
    }

    /// Signatures that can be replayed now, and that calls of the file can tell apart.
    std::vector<Chosen> choose() {
        const uint32_t target = engine::Engine::get().target_number();
        const uint64_t host_state = host_state_now();
        std::vector<Chosen> chosen;
        std::string why;
        const std::lock_guard lock(core_.mutex);
        for (const CompiledEntry *const entry : core_.sorted_entries()) {
            if (!entry->why.empty())
                why = entry->why;
            if (entry->signature.modes().target != target)
                continue;
            std::vector<CompiledPlanPtr> plans = entry->plans;
            std::erase_if(plans, [&](const CompiledPlanPtr &plan) { return plan->host_state != host_state; });
            if (!plans.empty() && is_new(entry->signature, chosen))
                chosen.push_back({entry->signature, std::move(plans)});
        }
        if (core_.dropped > 0)
            refuse(fmt::format(
                "it has forgotten what it knew of a signature or a size {} times, and {} are kept: let "
                "CompiledOptions::signatures or sizes be more (plans take at most 64 MiB), or clear() what "
                "is "
                "not to be saved",
                core_.dropped, core_.entries.size()));
        if (chosen.empty())
            refuse(fmt::format("two calls have to record the same before there is something to save, under "
                               "the modes of now{}{}",
                               why.empty() ? "" : "; the last call was not kept because ", why));
        return chosen;
    }

    /// False: the same call with gradients on or off, or with temporaries for named arguments.
    bool is_new(const Signature &signature, const std::vector<Chosen> &chosen) const {
        for (const Chosen &other : chosen) {
            const auto same = [](const Signature::Argument &a, const Signature::Argument &b) {
                return a.defined == b.defined && same_type(a.type, b.type);
            };
            if (!std::ranges::equal(signature.arguments(), other.signature.arguments(), same))
                continue;
            RecordingModes modes = signature.modes();
            modes.grad = other.signature.modes().grad;
            if (!(modes == other.signature.modes()) || !signature.same_but_for_temporaries(other.signature))
                refuse(
                    fmt::format("it was called with {} in two ways that a file does not tell apart (a bool, "
                                "an integer, a key, how tensors are grouped, or a mode differs): call "
                                "clear(), and then only what is to be saved",
                                signature.text()));
            return false;
        }
        return true;
    }

    /// One for each numbers that it takes, the last used.
    std::vector<CompiledPlanPtr> plans_of(const Chosen &chosen) const {
        std::vector<CompiledPlanPtr> plans;
        for (const CompiledPlanPtr &plan : chosen.plans) {
            const auto covers = [&](const CompiledPlanPtr &other) {
                for (size_t k = 0; k < plan->numbers.size(); ++k)
                    if (!other->numbers[k].is_any() &&
                        (plan->numbers[k].is_any() ||
                         !same_bits(plan->numbers[k].value(), other->numbers[k].value())))
                        return false;
                return true;
            };
            if (std::ranges::none_of(plans, covers))
                plans.push_back(plan);
        }
        return plans;
    }

    /// What a file cannot do.
    void check(const Signature &signature, const CompiledPlan &plan) const {
        const std::span<const Signature::Argument> arguments = signature.arguments();
        for (uint32_t i = 0; i < arguments.size(); ++i) {
            if (!arguments[i].defined)
                refuse(fmt::format("argument {} was an empty tensor", i));
            if (arguments[i].same_as != i)
                refuse(fmt::format("arguments {} and {} were the same tensor", arguments[i].same_as, i));
        }
        for (const CompiledPlan::Source &source : plan.sources) {
            if (source.gradient != CompiledPlan::kNone)
                refuse("it reads a gradient that was there before");
            if (source.replaced)
                refuse(source.argument != CompiledPlan::kNone
                           ? "it changes an argument in place"
                           : "it changes a tensor that it captures: take it as an "
                             "argument, and give the new one");
        }
        for (const CompiledPlan::GradientChange &gradient : plan.gradients)
            if (gradient.is_set)
                refuse("it sets gradients", gradient.step.get()->loc);
        if (!plan.work.empty())
            refuse("it asks the host for work or a number at each call");
        if (!plan.executable)
            refuse("it computes nothing");
        if (const std::string called = engine::called_function(*plan.executable); !called.empty())
            refuse(fmt::format("it calls {}, a function of this process", called));
        for (const CompiledPlan::Result &result : plan.results)
            if (result.donor >= 0)
                refuse("it writes over what it reads");
    }

    std::string name_of(const std::vector<std::string> &names, const char *kind, size_t i,
                        size_t count) const {
        if (names.empty())
            return fmt::format("{}{}", kind, i);
        if (names.size() != count)
            refuse(fmt::format("{} names are given for its {}s, and it has {}", names.size(), kind, count));
        return names[i];
    }

    void add(const Signature &signature, const CompiledPlan &plan) {
        check(signature, plan);
        ir::SavedPlan &to = saved_.plans.emplace_back();
        const std::span<const Signature::Argument> arguments = signature.arguments();
        for (size_t i = 0; i < arguments.size(); ++i)
            to.arguments.push_back(
                {name_of(options_.inputs, "input", i, arguments.size()), arguments[i].type});
        for (const KnownNumber &number : plan.numbers)
            to.numbers.push_back({number.value(), number.is_any()});
        for (const CompiledPlan::Input &input : plan.inputs)
            to.inputs.push_back(input_of(plan, input));
        for (const CompiledPlan::Result &result : plan.results)
            to.results.push_back(result.type);
        for (const CompiledPlan::Value &value : plan.values)
            to.values.push_back(value_of(plan, value));
        for (size_t i = 0; i < plan.outputs.size(); ++i) {
            ir::SavedOutput &output = to.outputs.emplace_back(output_of(plan, plan.outputs[i], to));
            output.tensor.name = name_of(options_.outputs, "output", i, plan.outputs.size());
        }
        for (const Trace::Draw &draw : plan.draws)
            to.draws.push_back(draw.words);
        add_words(plan, to);
        for (const CompiledPlan::Operation &operation : plan.operations)
            to.operations.push_back({std::string(ir::name(operation.op)), operation.loc});
        for (const ir::SavedTensor &argument : to.arguments)
            code_.add_device(argument.type.device);
        for (const ir::TensorType &result : to.results)
            code_.add_device(result.device);
        to.graph = engine::graph_text(*plan.executable);
        to.variants = code_.variants_of(*plan.executable, to.words);
    }

    ir::SavedInput input_of(const CompiledPlan &plan, const CompiledPlan::Input &input) {
        if (input.constant != CompiledPlan::kNone)
            return {ir::kNothing, constant(plan.constants[input.constant])};
        const CompiledPlan::Source &source = plan.sources[input.source];
        if (source.argument != CompiledPlan::kNone)
            return {source.argument, ir::kNothing};
        return {ir::kNothing, constant(source.tensor.get())};
    }

    /// The number of a tensor among the constants, each of which is saved once.
    uint32_t constant(const Tensor &tensor) {
        const Storage *const storage = materialize_now(node_of(tensor), loc_);
        const ir::TensorType &type = node_of(tensor)->type;
        const auto [known, is_new] =
            constants_.try_emplace(storage, static_cast<uint32_t>(saved_.constants.size()));
        if (!is_new && saved_.constants[known->second].type == type)
            return known->second;
        held_.push_back(tensor);
        const Storage *on_host = storage;
        if (type.device != ir::kCpu) {
            held_.push_back(tensor.detach().cpu());
            on_host = materialize_now(node_of(held_.back()), loc_);
        }
        saved_.constants.push_back(
            {type, {static_cast<const std::byte *>(on_host->data()), static_cast<size_t>(type.bytes())}});
        return static_cast<uint32_t>(saved_.constants.size() - 1);
    }
    static Node *node_of(const Tensor &tensor) { return Access::node(tensor); }

    ir::SavedValue value_of(const CompiledPlan &plan, const CompiledPlan::Value &value) const {
        if (value.result != CompiledPlan::kNone)
            return {value.result, ir::kNothing, value.type, value.loc};
        const CompiledPlan::Source &source = plan.sources[value.source];
        if (source.argument == CompiledPlan::kNone || value.reshaped)
            refuse(value.reshaped ? "it gives a view of a tensor that was there before"
                                  : "it gives a tensor that it captures",
                   value.loc);
        return {ir::kNothing, source.argument, value.type, value.loc};
    }

    ir::SavedOutput output_of(const CompiledPlan &plan, const CompiledPlan::Output &output,
                              const ir::SavedPlan &to) const {
        ir::SavedOutput saved;
        if (output.empty)
            return saved;
        if (output.same_source != CompiledPlan::kNone) {
            saved.argument = plan.sources[output.same_source].argument;
            if (saved.argument == CompiledPlan::kNone)
                refuse("it gives a tensor that it captures");
            saved.tensor.type = to.arguments[saved.argument].type;
        } else if (output.same_output != CompiledPlan::kNone) {
            saved.output = output.same_output;
            saved.tensor.type = to.outputs[output.same_output].tensor.type;
        } else {
            saved.value = output.value;
            saved.tensor.type = plan.values[output.value].type;
        }
        return saved;
    }

    void add_words(const CompiledPlan &plan, ir::SavedPlan &to) const {
        using Kind = CompiledPlan::Word::Kind;
        to.words = plan.words;
        for (const CompiledPlan::Word &word : plan.again) {
            ir::SavedWord saved{word.at, ir::SavedWord::Kind::Seed, word.of, word.form};
            switch (word.kind) {
            case Kind::Seed:
                break;
            case Kind::Offset:
                saved.kind = ir::SavedWord::Kind::Offset;
                break;
            case Kind::Number:
                saved.kind = ir::SavedWord::Kind::Number;
                break;
            case Kind::Again:
                refuse("it asks the host for a number at each call");
            case Kind::Element: {
                const CompiledPlan::Source &source = plan.sources[word.of];
                if (source.argument == CompiledPlan::kNone) { // a captured number is what it is now
                    Node *const node = node_of(source.tensor.get());
                    to.words[word.at] =
                        word_of_element(materialize_now(node, loc_)->data(), node->type.dtype);
                    continue;
                }
                saved.kind = ir::SavedWord::Kind::Element;
                saved.of = source.argument;
                break;
            }
            }
            to.again.push_back(saved);
        }
    }

    const std::string path_;
    const CompiledCore &core_;
    const SaveProgramOptions &options_;
    const Location loc_;
    ir::SavedProgram saved_;
    engine::ProgramCode code_;
    std::unordered_map<const Storage *, uint32_t> constants_;
    std::vector<Tensor> held_; ///< whose memory the constants are
};

} // namespace

void save_program(const std::string &path, const CompiledFunction &function,
                  const SaveProgramOptions &options, Location loc) {
    try {
        ProgramSaver(path, function.core(), options, loc).run();
    } catch (const ir::Failure &failure) {
        throw_public(
            ir::Failure(failure.kind(), failure.kind() == ir::ErrorKind::Io
                                            ? fmt::format("save_program: \"{}\" {}", path, failure.message())
                                            : fmt::format("save_program: {}", failure.message())),
            loc);
    }
}

} // namespace lz::detail
