#include "passes/traced/program_template.h"

#include "ir/text/text.h"
#include "passes/traced/fields.h"
#include "passes/traced/forms.h"

#include <exception>

namespace lz::traced {

std::unique_ptr<ProgramTemplate> ProgramTemplate::make(const GraphForm &graph, const ir::Target &target,
                                                       const ir::Program &program, std::string *why,
                                                       bool with_origins) {
    const auto refused = [&](std::string reason) {
        if (why)
            *why = std::move(reason);
        return nullptr;
    };
    std::unique_ptr<ProgramTemplate> made(new ProgramTemplate(with_origins));
    TracedProgram traced;
    try {
        traced = compile_traced(graph, write_target(target), made->tape_);
    } catch (const std::exception &e) {
        return refused(e.what());
    }
    made->program_ = program;
    made->program_.notes.clear();
    if (traced.text != ir::print(made->program_))
        return refused("the passes of the second build made another Program:\n" + traced.text);
    uint32_t count = 0;
    bool same = true;
    for_each_number(made->program_, [&](int64_t value) {
        same = same && count < traced.numbers.size() && traced.numbers[count].value == value;
        if (same && traced.numbers[count].expression != kConstant)
            made->computed_.push_back({count, traced.numbers[count].expression});
        ++count;
    });
    if (!same || count != traced.numbers.size())
        return refused("the passes of the second build computed other numbers");
    std::vector<Expression *> kept;
    for (Computed &c : made->computed_)
        kept.push_back(&c.expression);
    made->tape_.finish(kept);
    return made;
}

std::optional<ir::Program> ProgramTemplate::instantiate(std::span<const int64_t> parameters) const {
    static thread_local std::vector<int64_t> values;
    if (!tape_.play(parameters, values))
        return std::nullopt;
    std::optional<ir::Program> program(program_);
    auto next = computed_.begin();
    uint32_t count = 0;
    for_each_number(*program, [&](int64_t &number) {
        if (next != computed_.end() && next->number == count)
            number = values[next++->expression];
        ++count;
    });
    return program;
}

} // namespace lz::traced
