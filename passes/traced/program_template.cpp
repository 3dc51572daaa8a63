#include "passes/traced/program_template.h"

#include "ir/text/text.h"
#include "passes/traced/fields.h"
#include "passes/traced/forms.h"

#include <algorithm>
#include <exception>
#include <map>

namespace lz::traced {

void SeenExtents::add(std::span<const int64_t> extents) {
    if (class_of_.empty()) {
        class_of_.assign(extents.size(), 0);
        differed_.assign(extents.size(), false);
        last_.assign(extents.begin(), extents.end());
    }
    std::map<std::pair<uint32_t, int64_t>, uint32_t> classes;
    for (size_t k = 0; k < extents.size(); ++k) {
        class_of_[k] = classes.try_emplace({class_of_[k], extents[k]}, static_cast<uint32_t>(classes.size()))
                           .first->second;
        differed_[k] = differed_[k] || extents[k] != last_[k];
        last_[k] = extents[k];
    }
}

ExtentPattern SeenExtents::pattern() const {
    std::map<uint32_t, uint32_t> parameters;
    ExtentPattern pattern(class_of_.size(), kFixed);
    for (size_t k = 0; k < pattern.size(); ++k)
        if (differed_[k])
            pattern[k] =
                parameters.try_emplace(class_of_[k], static_cast<uint32_t>(parameters.size())).first->second;
    return pattern;
}

ExtentPattern pattern_of_all(std::span<const int64_t> extents) {
    std::map<int64_t, uint32_t> parameters;
    ExtentPattern pattern;
    for (const int64_t e : extents)
        pattern.push_back(parameters.try_emplace(e, static_cast<uint32_t>(parameters.size())).first->second);
    return pattern;
}

std::unique_ptr<ProgramTemplate> ProgramTemplate::make(const GraphForm &graph, ExtentPattern pattern,
                                                       const ir::Target &target, const ir::Program &program,
                                                       std::string *why, bool with_origins) {
    const auto refused = [&](std::string reason) {
        if (why)
            *why = std::move(reason);
        return nullptr;
    };
    std::unique_ptr<ProgramTemplate> made(new ProgramTemplate(with_origins));
    TracedProgram traced;
    try {
        traced = compile_traced(graph, pattern, write_target(target), made->tape_);
    } catch (const std::exception &e) {
        return refused(e.what());
    }
    for (const uint32_t p : pattern)
        if (p != kFixed)
            made->parameters_ = std::max(made->parameters_, p + 1);
    made->pattern_ = std::move(pattern);
    made->extents_ = graph.extents;
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

bool ProgramTemplate::parameters(std::span<const int64_t> extents, std::vector<int64_t> &found) const {
    constexpr int64_t kUnknown = -1;
    found.assign(parameters_, kUnknown);
    for (size_t k = 0; k < extents.size(); ++k) {
        if (pattern_[k] == kFixed) {
            if (extents[k] != extents_[k])
                return false;
            continue;
        }
        int64_t &known = found[pattern_[k]];
        if (known == kUnknown)
            known = extents[k];
        else if (known != extents[k])
            return false;
    }
    return true;
}

std::optional<ir::Program> ProgramTemplate::instantiate(std::span<const int64_t> extents) const {
    static thread_local std::vector<int64_t> found, values;
    if (!parameters(extents, found) || !tape_.play(found, values))
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

std::string ProgramTemplate::broken_condition(std::span<const int64_t> extents) const {
    std::vector<int64_t> found;
    return parameters(extents, found) ? tape_.first_broken(found) : "other extents are equal, or the same";
}

} // namespace lz::traced
