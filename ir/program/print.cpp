#include "ir/kernel/text.h"
#include "ir/program/text.h"
#include "ir/text/scanner.h"
#include "ir/text/text.h"

#include <fmt/format.h>
#include <iterator>

namespace lz::ir {

namespace {

template <size_t N, class E>
std::string_view word(const std::array<std::string_view, N> &names, E value) {
    const auto i = static_cast<size_t>(value);
    return i < N ? names[i] : std::string_view("?");
}

std::string buffer_text(uint32_t b) {
    return b == kNone ? "none" : fmt::format("b{}", b);
}

std::string arg_text(const ArgSpec &a) {
    std::string text = fmt::format("{}", a.constant);
    for (const ArgSpec::Term &t : a.terms)
        text += fmt::format(" + {} * w{}", t.coefficient, t.word);
    return text;
}

template <class T, class F>
std::string list(const std::vector<T> &items, F text) {
    std::string all;
    for (const T &item : items) {
        if (!all.empty())
            all += ", ";
        all += text(item);
    }
    return all;
}

/// Recorded indices, which an operation that a pass made has none of.
std::string numbers(const std::vector<uint32_t> &items) {
    return list(items, [](uint32_t v) { return v == kNone ? "none" : fmt::format("{}", v); });
}

class ProgramPrinter {
public:
    ProgramPrinter(const Program &program, const PrintOptions &options) : p_(program), options_(options) {}

    std::string take() {
        if (options_.header)
            out_ += "lazuli 1\n";
        line("program @{} {{", is_word(p_.name) ? p_.name : quoted(p_.name));
        depth_ = 2;
        if (p_.num_runtime_words != 0)
            line("words {}", p_.num_runtime_words);
        if (p_.num_events != 0)
            line("events {}", p_.num_events);
        for (const StreamRef s : p_.user_streams)
            line("stream {} @{}", s.stream, to_string(s.device));
        for (size_t i = 0; i < p_.arenas.size(); ++i)
            print(i, p_.arenas[i]);
        for (size_t i = 0; i < p_.buffers.size(); ++i)
            print(i, p_.buffers[i]);
        for (const Kernel &kernel : p_.kernels)
            out_ += print_kernel_block(kernel, depth_, options_.locations);
        for (const Step &step : p_.steps)
            print(step);
        many("results", list(p_.results, buffer_text));
        for (const std::string &note : p_.notes)
            line("note {}", quoted(note));
        depth_ = 0;
        line("}}");
        return std::move(out_);
    }

private:
    template <class... Args>
    void line(fmt::format_string<Args...> format, Args &&...args) {
        out_.append(static_cast<size_t>(depth_), ' ');
        fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
        out_ += '\n';
    }
    void many(std::string_view what, const std::string &items) {
        if (!items.empty())
            line("{} {}", what, items);
    }

    void print(size_t i, const ArenaDesc &a) {
        std::string text = fmt::format("arena a{}: {} @{}", i, a.bytes, to_string(a.device));
        if (a.pinned)
            text += " pinned";
        if (a.pinned || a.home != kDefaultStream)
            text += fmt::format(" home {}", a.home);
        if (a.pinned)
            text += fmt::format(" @{}", to_string(a.home_device));
        line("{}", text);
    }

    void print(size_t i, const BufferDesc &b) {
        std::string text = fmt::format("buffer b{}: {} {}", i, word(kBufferKinds, b.kind),
                                       b.kind == BufferKind::Arena ? b.offset : int64_t{b.index});
        text += fmt::format(" bytes {} @{}", b.bytes, to_string(b.device));
        if (b.kind == BufferKind::Arena)
            text += fmt::format(" in a{}", b.arena);
        if (b.donor >= 0)
            text += fmt::format(" donor b{}", b.donor);
        if (b.storage >= 0)
            text += fmt::format(" storage {}", b.storage);
        if (b.value != kNone)
            text += fmt::format(" value {}", b.value);
        line("{}", text);
    }

    void print(const Segment &s) {
        line("segment {{");
        depth_ += 2;
        many("buffers", list(s.buffers, buffer_text));
        many("args", list(s.args, arg_text));
        many("scalars", list(s.scalars, [](const ScalarSpec &v) {
                 return fmt::format("w{} {}", v.word, ir::name(v.dtype));
             }));
        many("items", list(s.items, [](int64_t v) { return fmt::format("{}", v); }));
        many("checks", numbers(s.checks));
        depth_ -= 2;
        line("}}");
    }

    void print(const Step &s) {
        std::string head = fmt::format("step {}", word(kStepKinds, s.kind));
        if (s.kernel != kNone)
            head += fmt::format(" k{}", s.kernel);
        if (!s.symbol.empty())
            head += " " + quoted(s.symbol);
        if (s.event != kNone)
            head += fmt::format(" e{}", s.event);
        head += fmt::format(" @{}", to_string(s.device));
        if (s.stream != 0)
            head += fmt::format(" stream {}", s.stream);
        if (s.node != kNone)
            head += fmt::format(" node {}", s.node);
        line("{} {{", head);
        depth_ += 2;
        if (!s.label.empty())
            line("label {}", quoted(s.label));
        many("recorded", numbers(s.recorded));
        if (s.cost != 0)
            line("cost {}", s.cost);
        if (s.bytes != 0)
            line("bytes {}", s.bytes);
        if (s.flops != 0)
            line("flops {}", s.flops);
        if (s.rounds != 1)
            line("rounds {}", s.rounds);
        if (s.worker_bytes != 0)
            line("worker {}", s.worker_bytes);
        many("operands", list(s.operands, buffer_text));
        if (s.scratch != kNone)
            line("scratch b{}", s.scratch);
        if (s.kind == StepKind::Copy)
            line("moves {} from {} to {}", s.copy.bytes, s.copy.from_begin, s.copy.to_begin);
        many("ints", list(s.ints, arg_text));
        if (has_effect(s))
            line("effect {}", arg_text(s.effect));
        for (const Segment &segment : s.segments)
            print(segment);
        for (const ByteRange &r : s.accesses)
            line("{} b{}[{}, {}]", r.write ? "writes" : "reads", r.buffer, r.begin, r.end);
        depth_ -= 2;
        line("}}");
    }

    const Program &p_;
    const PrintOptions &options_;
    int depth_ = 0;
    std::string out_;
};

} // namespace

std::string print(const Program &program, const PrintOptions &options) {
    return ProgramPrinter(program, options).take();
}

} // namespace lz::ir
