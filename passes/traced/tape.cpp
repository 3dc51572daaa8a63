#include "passes/traced/tape.h"

#include "passes/traced/real.h"

#include <execinfo.h>

#include <fmt/format.h>

namespace lz::traced {
namespace {

/// Frames that are kept of who asked: enough to come from a comparison inside the standard library to a pass.
constexpr int kFrames = 12;

constexpr std::string_view kSigns[] = {"",  "",    "+",   "-",    "*",      "/",    "%",   "<<", ">>", "&",
                                       "|", "^",   "min", "max",  "gcd",    "real", "int", "+",  "-",  "*",
                                       "/", "min", "max", "call", "result", "==",   "<",   "==", "<",  "<="};

bool is_condition(Operation operation) {
    return operation >= Operation::Equal;
}

} // namespace

thread_local Tape *current_tape = nullptr;

Tape::Tape(bool with_origins) : with_origins_(with_origins) {
    entries_.push_back({Operation::Constant}); // kConstant is no expression
}

size_t Tape::Hash::operator()(const Key &key) const {
    uint64_t h = static_cast<uint64_t>(key.operation) * 0x9e3779b97f4a7c15u;
    h = (h ^ key.a) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 32 ^ key.b) * 0xc4ceb9fe1a85ec53u;
    h = (h ^ h >> 29 ^ static_cast<uint64_t>(key.value)) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

Expression Tape::place(const Key &key) {
    const auto [at, is_new] = known_.try_emplace(key, static_cast<Expression>(entries_.size()));
    if (is_new)
        entries_.push_back({key.operation, key.a, key.b, key.value});
    return at->second;
}

Expression Tape::parameter(uint32_t number) {
    return place({Operation::Parameter, 0, 0, number});
}

Expression Tape::of(Expression e, int64_t value) {
    return e != kConstant ? e : place({Operation::Constant, 0, 0, value});
}

Expression Tape::add(Operation operation, Expression a, int64_t a_value, Expression b, int64_t b_value) {
    const bool by_one = b == kConstant && b_value == 1;
    const bool by_zero = b == kConstant && b_value == 0;
    if ((by_one && (operation == Operation::Multiply || operation == Operation::Divide)) ||
        (by_zero && (operation == Operation::Add || operation == Operation::Subtract)))
        return a;
    if ((a == kConstant && a_value == 1 && operation == Operation::Multiply) ||
        (a == kConstant && a_value == 0 && operation == Operation::Add))
        return b;
    if ((by_zero || (a == kConstant && a_value == 0)) && operation == Operation::Multiply)
        return kConstant;
    if (a == b && operation == Operation::Subtract)
        return kConstant;
    if (a == b && (operation == Operation::Minimum || operation == Operation::Maximum))
        return a;
    Expression left = of(a, a_value), right = of(b, b_value);
    const bool commutes = operation == Operation::Add || operation == Operation::Multiply ||
                          operation == Operation::RealAdd || operation == Operation::RealMultiply;
    if (commutes && left > right)
        std::swap(left, right);
    return place({operation, left, right, 0});
}

Expression Tape::call(Function function, std::span<const Argument> arguments, uint32_t results) {
    Called called{std::move(function), {}};
    for (const Argument &a : arguments)
        called.arguments.push_back(of(a.expression, a.value));
    const auto first = static_cast<Expression>(entries_.size());
    entries_.push_back({Operation::Call, static_cast<Expression>(calls_.size()), 0, results});
    calls_.push_back(std::move(called));
    for (uint32_t r = 1; r < results; ++r)
        entries_.push_back({Operation::Result, first});
    return first;
}

void Tape::note(Operation question, Expression a, int64_t a_value, Expression b, int64_t b_value,
                bool answer) {
    Expression left = of(a, a_value), right = of(b, b_value);
    if ((question == Operation::Equal || question == Operation::RealEqual) && left > right)
        std::swap(left, right);
    const size_t before = entries_.size();
    const Expression condition = place({question, left, right, answer});
    if (entries_.size() == before)
        return;
    ++conditions_;
    if (with_origins_) {
        void *frames[kFrames];
        const int found = backtrace(frames, kFrames);
        origins_[condition].assign(frames, frames + found);
    }
}

void Tape::finish(std::span<Expression *const> kept) {
    std::vector<bool> needed(entries_.size());
    for (const Expression *e : kept)
        needed[*e] = true;
    for (size_t e = entries_.size(); e-- > 1;) {
        const Entry &entry = entries_[e];
        needed[e] = needed[e] || is_condition(entry.operation);
        if (!needed[e] || entry.operation <= Operation::Parameter)
            continue;
        if (entry.operation != Operation::Call) {
            needed[entry.a] = needed[entry.b] = true;
            continue;
        }
        for (const Expression a : calls_[entry.a].arguments)
            needed[a] = true;
        for (size_t r = 1; r < static_cast<size_t>(entry.value); ++r)
            needed[e + r] = true;
    }
    std::vector<Expression> now(entries_.size(), kConstant);
    std::vector<Entry> entries{entries_[0]};
    std::unordered_map<Expression, std::vector<void *>> origins;
    for (Expression e = 1; e < entries_.size(); ++e) {
        if (!needed[e])
            continue;
        now[e] = static_cast<Expression>(entries.size());
        Entry &entry = entries.emplace_back(entries_[e]);
        if (entry.operation == Operation::Call) {
            for (Expression &a : calls_[entry.a].arguments)
                a = now[a];
        } else {
            entry.a = now[entry.a];
            entry.b = now[entry.b];
        }
        if (const auto at = origins_.find(e); at != origins_.end())
            origins[now[e]] = std::move(at->second);
    }
    for (Expression *e : kept)
        *e = now[*e];
    entries.shrink_to_fit();
    entries_ = std::move(entries);
    origins_ = std::move(origins);
    known_ = {};
}

bool Tape::play(std::span<const int64_t> parameters, std::vector<int64_t> &values) const {
    values.resize(entries_.size());
    for (size_t e = 0; e < entries_.size(); ++e) {
        const Entry &entry = entries_[e];
        switch (entry.operation) {
        case Operation::Constant:
            values[e] = entry.value;
            break;
        case Operation::Parameter:
            values[e] = parameters[static_cast<size_t>(entry.value)];
            break;
        case Operation::Call: {
            const Called &called = calls_[entry.a];
            std::vector<int64_t> arguments;
            for (const Expression a : called.arguments)
                arguments.push_back(values[a]);
            called.function(arguments, std::span(values).subspan(e, static_cast<size_t>(entry.value)));
            break;
        }
        case Operation::Result:
            break;
        default:
            values[e] = apply(entry.operation, values[entry.a], values[entry.b]);
            if (is_condition(entry.operation) && values[e] != entry.value)
                return false;
        }
    }
    return true;
}

std::string Tape::text(Expression e, std::span<const int64_t> values, int depth) const {
    const Entry &entry = entries_[e];
    if (entry.operation == Operation::Constant)
        return std::to_string(entry.value);
    if (entry.operation == Operation::Parameter)
        return fmt::format("p{}", entry.value);
    if (depth == 0 || entry.operation == Operation::Call || entry.operation == Operation::Result)
        return fmt::format("[{}]", values[e]);
    return fmt::format("({} {} {})", text(entry.a, values, depth - 1),
                       kSigns[static_cast<size_t>(entry.operation)], text(entry.b, values, depth - 1));
}

std::string Tape::first_broken(std::span<const int64_t> parameters) const {
    std::vector<int64_t> values;
    if (play(parameters, values))
        return {};
    for (Expression e = 0; e < entries_.size(); ++e) {
        const Entry &entry = entries_[e];
        if (!is_condition(entry.operation) || values[e] == entry.value)
            continue;
        std::string line = fmt::format("{} was {}", text(e, values, 6), entry.value != 0);
        if (const auto at = origins_.find(e); at != origins_.end())
            for (void *frame : at->second)
                line += fmt::format(" {}", frame);
        return line;
    }
    return {};
}

Int Int::written(Operation operation, Int a, Int b) {
    const int64_t value = apply(operation, a.value_, b.value_);
    if (!current_tape)
        return value;
    return {value, current_tape->add(operation, a.expression_, a.value_, b.expression_, b.value_)};
}

void Int::noted(Operation question, Int a, Int b, bool answer) {
    if (current_tape)
        current_tape->note(question, a.expression_, a.value_, b.expression_, b.value_, answer);
}

Real Real::converted(Int number) {
    const auto value = static_cast<double>(number.value());
    if (!current_tape)
        return value;
    return {value, current_tape->add(Operation::ToReal, number.expression(), number.value(), kConstant, 0)};
}

Int Real::rounded_down() const {
    const auto value = static_cast<int64_t>(value_);
    if (!current_tape)
        return value;
    return {value, current_tape->add(Operation::ToInt, expression_, bits(*this), kConstant, 0)};
}

Real Real::written(Operation operation, Real a, Real b) {
    const double value = std::bit_cast<double>(apply(operation, bits(a), bits(b)));
    if (!current_tape)
        return value;
    return {value, current_tape->add(operation, a.expression_, bits(a), b.expression_, bits(b))};
}

void Real::noted(Operation question, Real a, Real b, bool answer) {
    if (current_tape)
        current_tape->note(question, a.expression_, bits(a), b.expression_, bits(b), answer);
}

} // namespace lz::traced
