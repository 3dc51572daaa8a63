/// The parser of Programs. What it returns has passed `verify`.

#include "ir/diagnostic.h"
#include "ir/kernel/text.h"
#include "ir/program/text.h"
#include "ir/program/verify.h"
#include "ir/text/scanner.h"
#include "ir/text/text.h"

#include <algorithm>
#include <charconv>

namespace lz::ir {

namespace {

class ProgramParser {
public:
    explicit ProgramParser(TextScanner &scanner) : s_(scanner) {}

    Program run() {
        const size_t at = s_.position();
        s_.expect_word("program");
        s_.expect('@');
        p_.name =
            s_.peek() == '"' ? s_.string("the program's name") : std::string(s_.word("the program's name"));
        s_.expect('{');
        if (s_.accept_word("stage"))
            p_.stage = choose<Stage>(kStages, "a stage");
        if (s_.accept_word("words"))
            p_.num_runtime_words = count("a number of words");
        if (s_.accept_word("events"))
            p_.num_events = count("a number of events");
        while (s_.accept_word("stream"))
            user_stream();
        if (s_.accept_word("saved"))
            p_.draft.bytes_saved = size("bytes that are saved");
        if (s_.accept_word("inplace"))
            p_.draft.in_place_bytes = size("bytes that are written in place");
        while (s_.accept_word("arena"))
            arena();
        while (s_.accept_word("buffer"))
            buffer();
        while (s_.accept_word("reuse"))
            reuse();
        while (peek_word("kernel"))
            p_.kernels.push_back(parse_kernel_block(s_));
        while (s_.accept_word("step"))
            step();
        many("results", [&] { p_.results.push_back(id('b', "a buffer")); });
        while (s_.accept_word("note"))
            p_.notes.push_back(s_.string("a note"));
        s_.expect('}');
        try {
            verify(p_);
        } catch (const Failure &failure) {
            s_.fail_at(at, failure.message());
        }
        return std::move(p_);
    }

private:
    bool is_draft() const { return p_.stage != Stage::Final; }

    bool peek_word(std::string_view word) {
        if (s_.peek() != word[0])
            return false;
        TextScanner ahead = s_;
        return ahead.accept_word(word);
    }

    uint32_t count(std::string_view what) { return static_cast<uint32_t>(s_.integer_in(what, 0, kNone - 1)); }
    uint32_t recorded() { return s_.accept_word("none") ? kNone : count("a recorded index"); }
    int64_t size(std::string_view what) { return s_.integer_in(what, 0, INT64_MAX); }

    uint32_t id(char prefix, std::string_view what) {
        const size_t at = s_.position();
        const std::string_view text = s_.word(what);
        uint32_t number = 0;
        const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
        if (text[0] != prefix || error != std::errc() || end != text.data() + text.size() || number == kNone)
            s_.fail_at(at, "`" + std::string(text) + "` is not " + std::string(what) + ": expected `" +
                               prefix + "` and a number");
        return number;
    }

    template <class E, size_t N>
    E choose(const std::array<std::string_view, N> &names, std::string_view what) {
        const size_t at = s_.position();
        const std::string_view text = s_.word(what);
        const auto found = std::ranges::find(names, text);
        if (found == names.end())
            s_.fail_at(at, "`" + std::string(text) + "` is not " + std::string(what));
        return static_cast<E>(found - names.begin());
    }

    template <class F>
    void many(std::string_view what, F item) {
        if (!s_.accept_word(what))
            return;
        do
            item();
        while (s_.accept(','));
    }

    Device device() {
        s_.expect('@');
        if (s_.accept_word("cpu"))
            return kCpu;
        s_.expect_word("cuda");
        s_.expect(':');
        return {DeviceKind::Cuda, static_cast<uint8_t>(s_.integer_in("a device index", 0, 255))};
    }

    void arena() {
        const size_t at = s_.position();
        if (id('a', "the next arena") != p_.arenas.size())
            s_.fail_at(at, "the arenas are not numbered in order");
        s_.expect(':');
        ArenaDesc a;
        a.bytes = size("bytes of an arena");
        a.device = a.home_device = device();
        a.pinned = s_.accept_word("pinned");
        if (s_.accept_word("home"))
            a.home = stream();
        if (a.pinned)
            a.home_device = device();
        if (s_.accept_word("live"))
            p_.draft.live_bytes.push_back(size("bytes that are live"));
        p_.arenas.push_back(a);
    }

    void user_stream() {
        const int32_t number = stream();
        p_.user_streams.emplace_back(device(), number);
    }

    int32_t stream() { return static_cast<int32_t>(s_.integer_in("a stream", 0, INT32_MAX)); }

    void buffer() {
        const size_t at = s_.position();
        if (id('b', "the next buffer") != p_.buffers.size())
            s_.fail_at(at, "the buffers are not numbered in order");
        s_.expect(':');
        BufferDesc b{};
        b.kind = choose<BufferKind>(kBufferKinds, "a kind of buffer");
        if (b.kind == BufferKind::Arena)
            b.offset = size("an offset");
        else if (!is_symbolic(b.kind))
            b.index = count("an index");
        s_.expect_word("bytes");
        b.bytes = size("bytes of a buffer");
        b.device = device();
        if (b.kind == BufferKind::Arena) {
            s_.expect_word("in");
            b.arena = id('a', "an arena");
        }
        if (s_.accept_word("donor"))
            b.donor = static_cast<int32_t>(std::min<uint32_t>(id('b', "a buffer"), INT32_MAX));
        b.guarded = s_.accept_word("guarded");
        if (s_.accept_word("storage"))
            b.storage = static_cast<int32_t>(s_.integer_in("a number of memory", 0, INT32_MAX));
        if (s_.accept_word("value"))
            b.value = count("a value of the graph");
        p_.buffers.push_back(b);
        if (is_draft())
            buffer_draft();
    }

    void buffer_draft() {
        BufferDraft &b = p_.draft.buffers.emplace_back();
        if (s_.accept_word("node"))
            b.node = count("a node of the graph");
        if (s_.accept_word("recorded"))
            b.recorded = count("a recorded index");
        b.donated = s_.accept_word("donated");
        if (s_.accept_word("to"))
            b.donated_to = count("a result");
        b.kept = s_.accept_word("kept");
        if (s_.accept_word("replaces"))
            b.replaces = id('b', "a buffer");
    }

    void reuse() {
        Reuse r{};
        r.before = id('b', "a buffer");
        s_.expect_word("before");
        r.after = id('b', "a buffer");
        p_.draft.reuses.push_back(r);
    }

    ArgSpec arg() {
        ArgSpec a;
        a.constant = s_.integer("an argument");
        while (s_.accept('+')) {
            ArgSpec::Term t{};
            t.coefficient = s_.integer("a coefficient");
            s_.expect('*');
            t.word = id('w', "a runtime word");
            a.terms.push_back(t);
        }
        return a;
    }

    Segment segment() {
        Segment s;
        s_.expect('{');
        many("buffers", [&] { s.buffers.push_back(s_.accept_word("none") ? kNone : id('b', "a buffer")); });
        many("args", [&] { s.args.push_back(arg()); });
        many("scalars", [&] {
            const uint32_t word = id('w', "a runtime word");
            const size_t at = s_.position();
            const auto dtype = dtype_from_name(s_.word("a dtype"));
            if (!dtype)
                s_.fail_at(at, "expected a dtype");
            s.scalars.push_back({word, *dtype});
        });
        many("items", [&] { s.items.push_back(size("work items")); });
        many("checks", [&] { s.checks.push_back(recorded()); });
        s_.expect('}');
        return s;
    }

    void range(Step &s, bool write) {
        ByteRange r{};
        r.write = write;
        r.buffer = id('b', "a buffer");
        s_.expect('[');
        r.begin = size("the first byte");
        s_.expect(',');
        r.end = size("the byte after the last");
        s_.expect(']');
        s.accesses.push_back(r);
    }

    void step_draft(StepDraft &s) {
        if (s_.accept_word("user"))
            s.user_stream = stream();
        many("after", [&] { s.after.push_back(id('s', "a step")); });
        many("nodes", [&] { s.nodes.push_back(count("a node of the graph")); });
        if (s_.accept_word("written"))
            s.bytes_written = size("bytes that are written");
        if (s_.accept_word("seconds")) {
            s.begin = s_.real("the moment of its beginning");
            s_.expect_word("to");
            s.end = s_.real("the moment of its end");
        }
        s.for_memory = s_.accept_word("memory");
    }

    void operand(Step &s) {
        if (is_draft() && s.kind != StepKind::Copy)
            p_.draft.steps.back().modes.push_back(
                choose<BufferMode>(kOperandModes, "what is done with an operand"));
        s.operands.push_back(id('b', "a buffer"));
    }

    void step() {
        Step s;
        s.kind = choose<StepKind>(kStepKinds, "a kind of step");
        if (s_.peek() == 'k')
            s.kernel = id('k', "a kernel");
        if (s_.peek() == '"')
            s.symbol = s_.string("a symbol");
        if (s_.peek() == 'e')
            s.event = id('e', "an event");
        s.device = device();
        s.stream = p_.stage == Stage::Lowered ? kNoStream : 0;
        if (s_.accept_word("stream"))
            s.stream = stream();
        if (s_.accept_word("node"))
            s.node = count("a node of the graph");
        s_.expect('{');
        if (s_.accept_word("label"))
            s.label = s_.string("a label");
        many("recorded", [&] { s.recorded.push_back(recorded()); });
        if (is_draft())
            step_draft(p_.draft.steps.emplace_back());
        if (s_.accept_word("cost"))
            s.cost = s_.integer("a cost");
        if (s_.accept_word("bytes"))
            s.bytes = size("bytes");
        if (s_.accept_word("flops"))
            s.flops = size("operations");
        if (s_.accept_word("rounds"))
            s.rounds = s_.integer_in("rounds", 1, INT64_MAX);
        if (s_.accept_word("worker"))
            s.worker_bytes = size("bytes of a worker's scratch");
        many("operands", [&] { operand(s); });
        if (s_.accept_word("scratch"))
            s.scratch = id('b', "a buffer");
        if (s.kind == StepKind::Copy) {
            s_.expect_word("moves");
            s.copy.bytes = size("bytes of a copy");
            s_.expect_word("from");
            s.copy.from_begin = size("the first byte");
            s_.expect_word("to");
            s.copy.to_begin = size("the first byte");
        }
        many("ints", [&] { s.ints.push_back(arg()); });
        if (has_effect(s)) {
            s_.expect_word("effect");
            s.effect = arg();
        }
        while (s_.accept_word("segment"))
            s.segments.push_back(segment());
        while (!s_.accept('}')) {
            const bool write = s_.accept_word("writes");
            if (!write)
                s_.expect_word("reads");
            range(s, write);
        }
        p_.steps.push_back(std::move(s));
    }

    TextScanner &s_;
    Program p_;
};

} // namespace

Program parse_program(std::string_view text) {
    TextScanner scanner(text);
    if (scanner.accept_word("lazuli"))
        scanner.integer_in("the version", 1, 1);
    Program program = ProgramParser(scanner).run();
    if (!scanner.at_end())
        scanner.fail("expected the end of the text");
    return program;
}

} // namespace lz::ir
