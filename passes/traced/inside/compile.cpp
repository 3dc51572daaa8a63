/// The passes of the second build, for who is outside of it.

#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "passes/traced/fields.h"
#include "passes/traced/read_graph.h"

#include <type_traits>

namespace lz::traced {

using namespace ir;

namespace {

/// Numbers are written on a tape while one lives.
class Writing {
public:
    explicit Writing(lz_numbers::Tape &tape) : before_(lz_numbers::current_tape) {
        lz_numbers::current_tape = &tape;
    }
    ~Writing() { lz_numbers::current_tape = before_; }
    Writing(const Writing &) = delete;
    Writing &operator=(const Writing &) = delete;

private:
    lz_numbers::Tape *before_;
};

// ---- the library, which is the first build's

thread_local const lz_numbers::TargetForm *target_form = nullptr;

constexpr size_t kMostFunctions = 32;
struct Known {
    std::string kind, symbol;
    LibraryRule rule;
    lz_numbers::TargetForm::Scratch scratch;
};
thread_local std::deque<Known> known_functions; // elements of a deque never move
thread_local const Target *compiled_for = nullptr;

template <size_t K>
int64_t scratch_bytes(std::span<const int64_t> ints, const DeviceInfo &device) {
    std::vector<lz_numbers::Tape::Argument> arguments;
    std::vector<int_fast64_t> plain;
    bool same = true; // for all extents
    for (const int64_t i : ints) {
        arguments.push_back({i.expression(), i.value()});
        plain.push_back(i.value());
        same = same && i.expression() == lz_numbers::kConstant;
    }
    const auto at = static_cast<size_t>(&device - compiled_for->devices.data());
    const lz_numbers::TargetForm::Scratch &scratch = known_functions[K].scratch;
    if (same)
        return scratch(plain, at);
    return {scratch(plain, at),
            lz_numbers::current_tape->call(
                [scratch, at](auto given, auto result) { result[0] = scratch(given, at); }, arguments)};
}
template <size_t... K>
constexpr auto scratch_functions(std::index_sequence<K...>) {
    return std::array{&scratch_bytes<K>...};
}

const LibraryRule *find_rule(std::string_view kind, std::string_view symbol) {
    for (const Known &k : known_functions)
        if (k.kind == kind && k.symbol == symbol)
            return &k.rule;
    const auto found = target_form->function(kind, symbol);
    if (!found)
        return nullptr;
    LZ_CHECK(known_functions.size() < kMostFunctions, "a graph calls too many functions of libraries");
    static constexpr auto kScratch = scratch_functions(std::make_index_sequence<kMostFunctions>());
    Known &k = known_functions.emplace_back(std::string(kind), std::string(symbol), LibraryRule{}, *found);
    k.rule = {k.symbol, *found ? kScratch[known_functions.size() - 1] : nullptr};
    return &k.rule;
}
constexpr LibraryRules kRules[] = {
    {"cpu", [](std::string_view symbol) { return find_rule("cpu", symbol); }},
    {"cuda", [](std::string_view symbol) { return find_rule("cuda", symbol); }},
};

// ---- the target

struct FieldReader {
    const lz_numbers::TargetForm &form;
    size_t number = 0, real = 0, text = 0;

    template <class T>
    void operator()(T &field) {
        if constexpr (std::is_same_v<T, std::string>)
            field = form.texts[text++];
        else if constexpr (std::is_same_v<T, double>)
            field = form.reals[real++];
        else
            field = static_cast<T>(form.numbers[number++]);
    }
};

Target read_target(const lz_numbers::TargetForm &form) {
    Target target;
    FieldReader read{form};
    for_each_field(
        target, read,
        [&](DeviceInfo &d) {
            std::string kind;
            read(kind);
            for (const LibraryRules &rules : kRules)
                if (rules.kind == kind)
                    d.library = &rules;
        },
        [&](DeviceInfo &d) {
            bool cuda = false;
            read(cuda);
            if (cuda)
                d.limits = CudaLimits();
        });
    return target;
}

} // namespace
} // namespace lz::traced

namespace lz::ir {

std::string_view function_name(uint16_t number) {
    return lz_numbers::plain_function_name(number);
}
std::string to_string(const Location &loc) {
    return lz_numbers::plain_line_text(loc.file, loc.line);
}

} // namespace lz::ir

namespace lz_numbers_inside = lz::traced;

lz_numbers::TracedProgram lz_numbers::compile_traced(const GraphForm &graph, const ExtentPattern &pattern,
                                                     const TargetForm &target_form, Tape &tape) {
    using namespace lz_numbers_inside;
    lz_numbers_inside::target_form = &target_form;
    known_functions.clear();
    auto target = read_target(target_form);
    LZ_CHECK(target.fingerprint() == target_form.fingerprint, "not every field of the target was taken over");
    target.modes.verify = false;
    compiled_for = &target;
    lz_traced::ir::Program program;
    TracedProgram traced;
    {
        const Writing writing(tape);
        std::vector<Int> extents;
        for (size_t k = 0; k < graph.extents.size(); ++k)
            extents.emplace_back(graph.extents[k],
                                 pattern[k] == kFixed ? kConstant : tape.parameter(pattern[k]));
        auto read = lz_numbers_inside::read_graph(graph, extents);
        program =
            lz_traced::passes::compile(std::move(read), target, nullptr, lz_traced::passes::Explained::No)
                .program;
        for (auto &kernel : program.kernels)
            for (auto &loop : kernel.loops)
                loop.chunk = loop.chunk.pinned();
    }
    for_each_number(program, [&](const Int &n) { traced.numbers.push_back({n.value(), n.expression()}); });
    traced.text = lz_traced::ir::print(program);
    return traced;
}
