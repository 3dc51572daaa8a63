// A program's other runs in one process: what was compiled is bound to other numbers and other sizes.
#include "generate.h"

#include <algorithm>
#include <cmath>

namespace lz::test::calls {

namespace {

/// How a statement went on the oracle.
struct Outcome {
    std::string why;
    std::optional<ErrorType> type;
    bool late = false;
    friend bool operator==(const Outcome &, const Outcome &) = default;
};

Outcome outcome(Oracle &oracle, const Statement &s) {
    Outcome out;
    out.why = perform(oracle, s, &out.type, &out.late).empty() ? "" : "throws";
    return out;
}

/// What the statement looks at is as well known as it was: a mask that is not decides about shapes.
bool as_known(const Oracle &before, const Oracle &now, const Statement &s) {
    const auto known = [](const Oracle &o, int h) {
        return h < 0 || !o.defined(h) || o.value(h).trust == Trust::Exact;
    };
    const auto alike = [&](int h) { return !known(before, h) || known(now, h); };
    return std::ranges::all_of(s.args, [&](const Arg &arg) { return alike(arg.handle); }) &&
           std::ranges::all_of(s.index, [&](const Entry &e) { return alike(e.handle); });
}

bool same_shapes(const Oracle &a, const Oracle &b) {
    for (int h = 0; h < a.handles(); ++h)
        if (a.defined(h) && a.value(h).shape != b.value(h).shape)
            return false;
    return true;
}

/// The state of the oracle at the beginning of a program.
Oracle beginning(const Program &program) {
    Oracle oracle(program.handles);
    oracle.random_seed = program.random_seed;
    return oracle;
}

/// The program as it is, and the run that is made of it, side by side.
class Runner {
public:
    explicit Runner(const Program &program) : was(beginning(program)), now(beginning(program)) {}

    /// The first of these that goes as `original` does; the oracles stand behind it then.
    bool take_first(const Statement &original, const std::vector<Statement> &candidates, Program &out) {
        const Oracle before = was.copy();
        const Outcome wanted = outcome(was, original);
        for (const Statement &s : candidates) {
            if (!as_known(before, now, s))
                continue;
            Oracle next = now.copy();
            if (outcome(next, s) != wanted || !defined_alike(next))
                continue;
            now = std::move(next);
            out.statements.push_back(s);
            return true;
        }
        return false;
    }

    Oracle was, now;

private:
    bool defined_alike(const Oracle &next) const {
        for (int h = 0; h < was.handles(); ++h)
            if (was.defined(h) != next.defined(h) ||
                (was.defined(h) && (was.value(h).dtype != next.value(h).dtype ||
                                    was.value(h).shape.size() != next.value(h).shape.size() ||
                                    was.value(h).device != next.value(h).device)))
                return false;
        return true;
    }
};

// --- numbers

/// Another number of the same category, and of those that every dtype has if it is one. 0, 1 and -1 stay:
/// they may be neutral.
Scalar other(Maker &m, const Scalar &x) {
    if (x.category() == Scalar::Category::Bool)
        return x;
    if (!x.is_float()) {
        const int64_t n = x.to_int();
        return n >= 2 && n <= 100 ? Scalar(2 + (n - 2 + m.between(1, 98)) % 99) : x;
    }
    const double y = x.to_double();
    if (!std::isfinite(y) || std::fabs(y) > 1e5 || y == 0 || std::fabs(y) == 1)
        return x;
    return y + static_cast<double>(m.between(2, 9)) * std::copysign(0.25, y);
}

/// Other data of the same kind (rows/handle_rows.cpp: the first word of the seed says which).
uint64_t other_seed(Maker &m, uint64_t seed) {
    const auto palette = [](uint64_t s) { return std::mt19937_64(s)() % 10; };
    uint64_t now = m.word();
    while (palette(now) != palette(seed))
        now = m.word();
    return now;
}

/// A slice of as many elements that begins elsewhere, another position.
void move_index(Maker &m, Statement &s) {
    const Extents &shape = m.oracle.value(s.args[0]).shape;
    size_t axis = 0;
    for (Entry &e : s.index) {
        if (e.kind == Entry::Kind::None)
            continue;
        if (e.kind == Entry::Kind::Ellipsis || e.kind == Entry::Kind::Tensor || axis >= shape.size())
            return;
        const int64_t extent = shape[axis++];
        if (e.kind == Entry::Kind::Integer && e.integer >= 0 && e.integer < extent)
            e.integer = m.below(extent);
        if (e.kind == Entry::Kind::Slice && e.start && e.stop && *e.start > 0 && *e.stop < extent &&
            *e.start < *e.stop && e.step.value_or(1) > 0) {
            const int64_t by = m.between(1, extent - (*e.stop - *e.start) - 1) - *e.start;
            *e.start += by;
            *e.stop += by;
        }
    }
}

/// Which data may be other data: integers and bools say where and how many.
enum class Data : uint8_t { All, Floats, None };

Statement with_other_numbers(const Statement &original, Oracle &oracle, Data data) {
    Statement s = original;
    Maker m(s.id ^ 0x5bd1e995, oracle);
    if (s.row->text.find("pow") == std::string::npos) { // whose exponent is compiled in
        for (Arg &arg : s.args)
            if (arg.handle < 0)
                arg.number = other(m, arg.number);
        if (!s.row->vary)
            for (Scalar &x : s.numbers)
                x = other(m, x);
    }
    if (s.row->text == "DATA" && (data == Data::All || (data == Data::Floats && is_float(s.dtype))))
        s.seed = other_seed(m, s.seed);
    if (!s.index.empty() && !s.args.empty() && oracle.defined(s.args[0].handle))
        move_index(m, s);
    const bool there =
        std::ranges::all_of(s.args, [&](const Arg &a) { return a.handle < 0 || oracle.defined(a.handle); });
    if (s.row->vary && there)
        s.row->vary(m, s);
    return s;
}

std::optional<Run> other_numbers(const Program &program, Data data) {
    Run run{"with_other_numbers", program, false};
    run.program.random_seed = program.random_seed * 3 + 1;
    run.program.statements.clear();
    Runner runner(program);
    runner.now.random_seed = run.program.random_seed;
    for (const Statement &s : program.statements) {
        if (!runner.take_first(s, {with_other_numbers(s, runner.now, data), s}, run.program))
            return std::nullopt;
        run.compiles |= !same_shapes(runner.was, runner.now);
    }
    return run;
}

// --- extents

int64_t mapped(int64_t extent, int64_t from, int64_t to) {
    return extent == from ? to : extent;
}

/// The statement with extents that follow, the likeliest first.
std::vector<Statement> with_other_extents(const Statement &original, int64_t from, int64_t to) {
    std::vector<Statement> out;
    const std::string &text = original.row->text;
    const bool reshapes = text.find("reshape") != std::string::npos || text.find("view") != std::string::npos;
    const bool makes = original.args.empty() || text.find("expand") != std::string::npos;
    if ((makes || reshapes) && !original.sizes.empty()) {
        Statement s = original;
        for (Extents &sizes : s.sizes)
            for (int64_t &extent : sizes)
                extent = mapped(extent, from, to);
        out.push_back(s);
    }
    if (text.find("arange") != std::string::npos) {
        Statement s = original;
        const int64_t start = s.numbers[0].to_int();
        s.numbers[1] = start + mapped(s.numbers[1].to_int() - start, from, to);
        out.push_back(s);
    }
    out.push_back(original);
    if (reshapes && std::ranges::find(original.sizes[0], -1) == original.sizes[0].end())
        for (size_t a = 0; a < original.sizes[0].size(); ++a) {
            out.push_back(original);
            out.back().sizes[0][a] = -1;
        }
    return out;
}

/// Two to sixteen times as much memory, no more.
constexpr int64_t kMostElements = 6000;

std::optional<Run> other_extents(const Program &program) {
    std::vector<int64_t> extents;
    for (const Statement &s : program.statements)
        if (s.args.empty())
            for (const Extents &sizes : s.sizes)
                std::ranges::copy_if(sizes, std::back_inserter(extents), [](int64_t e) { return e > 1; });
    if (extents.empty())
        return std::nullopt;
    std::mt19937_64 random(program.seed ^ 0x2545F491);
    const int64_t from = extents[random() % extents.size()];
    const int64_t to = std::vector<int64_t>{from + 1, 2 * from, from + 3, 3 * from}[random() % 4];
    Run run{"with_other_extents", program, true};
    run.program.statements.clear();
    Runner runner(program);
    bool differs = false;
    for (const Statement &s : program.statements) {
        if (!runner.take_first(s, with_other_extents(s, from, to), run.program))
            return std::nullopt;
        differs |= !same_shapes(runner.was, runner.now);
        for (int h = 0; h < program.handles; ++h)
            if (runner.now.defined(h) && count(runner.now.value(h).shape) > kMostElements)
                return std::nullopt;
    }
    return differs ? std::optional(run) : std::nullopt;
}

} // namespace

std::vector<Run> runs_of(const Program &program) {
    std::vector<Run> out = {{"first", program, true}};
    if (!program.again)
        return out;
    const DefaultMode mode;
    std::optional<Run> numbers;
    for (const Data data : {Data::All, Data::Floats, Data::None})
        if (numbers = other_numbers(program, data); numbers)
            break;
    if (numbers)
        out.push_back(std::move(*numbers));
    if (std::optional<Run> sizes = other_extents(program))
        out.push_back(std::move(*sizes));
    out.push_back({"first", program, false});
    return out;
}

} // namespace lz::test::calls
