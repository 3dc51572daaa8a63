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

/// Recorded indices; an operation that a pass made has none.
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
        if (p_.stage != Stage::Final)
            line("stage {}", word(kStages, p_.stage));
        if (p_.num_runtime_words != 0)
            line("words {}", p_.num_runtime_words);
        if (p_.num_events != 0)
            line("events {}", p_.num_events);
        for (const StreamRef s : p_.user_streams)
            line("stream {} @{}", s.stream, to_string(s.device));
        if (p_.draft.bytes_saved != 0)
            line("saved {}", p_.draft.bytes_saved);
        if (p_.draft.in_place_bytes != 0)
            line("inplace {}", p_.draft.in_place_bytes);
        for (size_t i = 0; i < p_.arenas.size(); ++i)
            print(i, p_.arenas[i]);
        for (size_t i = 0; i < p_.buffers.size(); ++i)
            print(i, p_.buffers[i]);
        for (const Reuse &reuse : p_.draft.reuses)
            line("reuse b{} before b{}", reuse.before, reuse.after);
        for (const Kernel &kernel : p_.kernels)
            out_ += print_kernel_block(kernel, depth_, options_.locations);
        for (size_t i = 0; i < p_.steps.size(); ++i)
            print(i, p_.steps[i]);
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
        if (i < p_.draft.live_bytes.size())
            text += fmt::format(" live {}", p_.draft.live_bytes[i]);
        line("{}", text);
    }

    void print(size_t i, const BufferDesc &b) {
        std::string text = fmt::format("buffer b{}: {}", i, word(kBufferKinds, b.kind));
        if (!is_symbolic(b.kind))
            text += fmt::format(" {}", b.kind == BufferKind::Arena ? b.offset : int64_t{b.index});
        text += fmt::format(" bytes {} @{}", b.bytes, to_string(b.device));
        if (b.kind == BufferKind::Arena)
            text += fmt::format(" in a{}", b.arena);
        if (b.donor >= 0)
            text += fmt::format(" donor b{}", b.donor);
        if (b.guarded)
            text += " guarded";
        if (b.storage >= 0)
            text += fmt::format(" storage {}", b.storage);
        if (b.value != kNone)
            text += fmt::format(" value {}", b.value);
        if (i < p_.draft.buffers.size())
            print(p_.draft.buffers[i], text);
        line("{}", text);
    }

    static void print(const BufferDraft &b, std::string &text) {
        if (b.node != kNone)
            text += fmt::format(" node {}", b.node);
        if (b.recorded != kNone)
            text += fmt::format(" recorded {}", b.recorded);
        if (b.donated)
            text += " donated";
        if (b.donated_to != kNone)
            text += fmt::format(" to {}", b.donated_to);
        if (b.kept)
            text += " kept";
        if (b.replaces != kNone)
            text += fmt::format(" replaces b{}", b.replaces);
    }

    void print(const StepDraft &s) {
        if (s.user_stream != kNoStream)
            line("user {}", s.user_stream);
        many("after", list(s.after, [](uint32_t step) { return fmt::format("s{}", step); }));
        many("nodes", numbers(s.nodes));
        if (s.bytes_written != 0)
            line("written {}", s.bytes_written);
        if (s.begin != 0 || s.end != 0)
            line("seconds {} to {}", shortest(s.begin), shortest(s.end));
        if (s.for_memory)
            line("memory");
    }

    /// `in b0, out b1` where the modes are said.
    std::string operands(size_t step, const Step &s) const {
        if (step >= p_.draft.steps.size() || s.kind == StepKind::Copy)
            return list(s.operands, buffer_text);
        const std::vector<BufferMode> &modes = p_.draft.steps[step].modes;
        std::string all;
        for (size_t k = 0; k < s.operands.size(); ++k)
            all += fmt::format("{}{} {}", k == 0 ? "" : ", ",
                               k < modes.size() ? word(kOperandModes, modes[k]) : "?",
                               buffer_text(s.operands[k]));
        return all;
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

    void print(size_t i, const Step &s) {
        std::string head = fmt::format("step {}", word(kStepKinds, s.kind));
        if (s.kernel != kNone)
            head += fmt::format(" k{}", s.kernel);
        if (!s.symbol.empty())
            head += " " + quoted(s.symbol);
        if (s.event != kNone)
            head += fmt::format(" e{}", s.event);
        head += fmt::format(" @{}", to_string(s.device));
        if (s.stream != (p_.stage == Stage::Lowered ? kNoStream : 0))
            head += fmt::format(" stream {}", s.stream);
        if (s.node != kNone)
            head += fmt::format(" node {}", s.node);
        line("{} {{", head);
        depth_ += 2;
        if (!s.label.empty())
            line("label {}", quoted(s.label));
        many("recorded", numbers(s.recorded));
        if (i < p_.draft.steps.size())
            print(p_.draft.steps[i]);
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
        many("operands", operands(i, s));
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

std::string_view name(Stage stage) {
    return word(kStages, stage);
}

std::string print(const Program &program, const PrintOptions &options) {
    return ProgramPrinter(program, options).take();
}

} // namespace lz::ir
