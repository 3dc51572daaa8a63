#include "ir/program/verify.h"

#include "ir/diagnostic.h"
#include "ir/kernel/verify.h"
#include "ir/text/text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace lz::ir {

namespace {

class ProgramVerifier {
public:
    explicit ProgramVerifier(const Program &program) : p_(program) {}

    void run() {
        for (const Kernel &kernel : p_.kernels) {
            verify(kernel);
            checks_.push_back(static_cast<size_t>(std::ranges::count_if(
                kernel.instrs, [](const Instr &i) { return info(i.op).cls == KOpClass::Check; })));
        }
        for (const StreamRef s : p_.user_streams) {
            where_ = "the user's streams";
            check(s.device.kind == DeviceKind::Cuda && s.stream >= kFirstUserStream && s.stream < kMaxStreams,
                  "there can be no {}", to_string(s));
        }
        for (size_t i = 0; i < p_.arenas.size(); ++i)
            verify_arena(i);
        for (size_t i = 0; i < p_.buffers.size(); ++i)
            verify_buffer(i);
        for (size_t i = 0; i < p_.steps.size(); ++i) {
            where_ = fmt::format("step {}", i);
            verify_step(p_.steps[i]);
        }
        where_ = "its heading";
        check(p_.num_runtime_words != kNone && p_.num_events != kNone, "it has {} words and {} events",
              p_.num_runtime_words, p_.num_events);
        where_ = "the results";
        for (const uint32_t result : p_.results)
            buffer(result);
        if (p_.stage == Stage::Final)
            verify_final();
        else
            verify_draft();
    }

private:
    bool at_least(Stage stage) const { return p_.stage >= stage; }

    template <class... Args>
    void check(bool good, fmt::format_string<Args...> what, Args &&...args) const {
        if (good) [[likely]]
            return;
        throw Failure(ErrorKind::Internal,
                      fmt::format("The program is malformed, in {}: {}.\n{}", where_,
                                  fmt::format(what, std::forward<Args>(args)...), print(p_)));
    }

    void buffer(uint32_t b) const {
        check(b < p_.buffers.size(), "it names buffer b{} of {}", b, p_.buffers.size());
    }
    void word(uint32_t w) const {
        check(w < p_.num_runtime_words, "it reads runtime word w{} of {}", w, p_.num_runtime_words);
    }
    void arg(const ArgSpec &a) const {
        for (const ArgSpec::Term &t : a.terms)
            word(t.word);
    }

    void device(Device d) const {
        check(d.kind != DeviceKind::Cpu || d.index == 0, "there is one CPU, and it names that of index {}",
              d.index);
    }
    void stream(Device on, int32_t s) const {
        device(on);
        check(s >= 0 && s < (on.kind == DeviceKind::Cpu ? kHostStream + 1 : kMaxStreams),
              "{} has no stream {} in a program", to_string(on), s);
    }

    void verify_arena(size_t i) {
        const ArenaDesc &a = p_.arenas[i];
        where_ = fmt::format("arena a{}", i);
        check(a.bytes >= 0, "it has {} bytes", a.bytes);
        device(a.device);
        if (a.pinned)
            check(a.device == kCpu, "it is pinned memory of {}; that is the host's", to_string(a.device));
        else
            check(a.home_device == a.device, "its home is a stream of {}, its memory is on {}",
                  to_string(a.home_device), to_string(a.device));
        stream(a.home_device, a.home);
    }

    void verify_buffer(size_t i) {
        const BufferDesc &b = p_.buffers[i];
        where_ = fmt::format("buffer b{}", i);
        check(b.bytes >= 0, "it has {} bytes", b.bytes);
        device(b.device);
        check(b.donor >= -1 && b.storage >= -1, "its donor is {} and its memory {}; without one it is -1",
              b.donor, b.storage);
        check(is_symbolic(b.kind) == !at_least(Stage::Planned) || b.kind == BufferKind::Input,
              "it {} memory, {} plan_memory", is_symbolic(b.kind) ? "has no" : "has",
              at_least(Stage::Planned) ? "after" : "before");
        if (is_symbolic(b.kind))
            check((b.kind == BufferKind::Value) == (b.value != kNone) && b.index == 0 &&
                      (b.kind != BufferKind::Staging || b.device == kCpu),
                  "it stands for a value of the graph, scratch, or a block of the host's");
        if (b.kind == BufferKind::Arena)
            check(b.index == 0 && b.arena != kNone && b.offset >= 0,
                  "it is at {} of arena a{}, with the index {}", b.offset, b.arena, b.index);
        else
            check(b.index != kNone && b.arena == 0 && b.offset == 0,
                  "it has index {} and is in no arena, but at {} of a{}", b.index, b.offset, b.arena);
        if (b.kind == BufferKind::Arena && b.bytes > 0) {
            check(b.arena < p_.arenas.size(), "it is in arena a{} of {}", b.arena, p_.arenas.size());
            check(p_.arenas[b.arena].device == b.device, "it is on {}, and arena a{} is on {}",
                  to_string(b.device), b.arena, to_string(p_.arenas[b.arena].device));
            const int64_t arena = p_.arenas[b.arena].bytes;
            check(b.bytes <= arena && b.offset <= arena - b.bytes,
                  "bytes [{}, {} + {}) are not in the arena of {} bytes", b.offset, b.offset, b.bytes, arena);
        }
        check(!b.guarded || b.donor >= 0, "it is guarded and takes over no memory");
        check(b.storage < 0 || b.kind == BufferKind::Input, "only inputs share memory by number, it has {}",
              b.storage);
        if (b.donor >= 0) {
            const auto donor = static_cast<size_t>(b.donor);
            check(b.kind == BufferKind::Result, "only a result takes over memory, of b{} here", b.donor);
            check(donor < p_.buffers.size() && p_.buffers[donor].kind == BufferKind::Input,
                  "its donor b{} is not an input", b.donor);
            check(p_.buffers[donor].bytes >= b.bytes && p_.buffers[donor].device == b.device,
                  "its donor b{} has {} bytes on {}, it needs {} on {}", b.donor, p_.buffers[donor].bytes,
                  to_string(p_.buffers[donor].device), b.bytes, to_string(b.device));
        }
    }

    void verify_segment(const Segment &s, const Kernel &kernel, size_t checks) const {
        const auto same = [&](size_t found, size_t wanted, std::string_view what) {
            check(found == wanted, "a segment has {} {}, its kernel @{} wants {}", found, what, kernel.name,
                  wanted);
        };
        same(s.buffers.size(), kernel.buffers.size(), "buffers");
        same(s.args.size(), kernel.args.size(), "arguments");
        same(s.scalars.size(), kernel.scalars.size(), "scalars");
        same(s.items.size(), kernel.phases.size(), "counts of work items");
        if (!s.checks.empty())
            same(s.checks.size(), checks, "checks");
        for (size_t i = 0; i < s.buffers.size(); ++i) {
            const bool worker = kernel.buffers[i].mode == BufferMode::Worker;
            check(worker == (s.buffers[i] == kNone),
                  "buffer b{} of kernel @{} has to be none exactly when it is a worker's", i, kernel.name);
            if (!worker)
                buffer(s.buffers[i]);
        }
        for (const ArgSpec &a : s.args)
            arg(a);
        for (const ScalarSpec &v : s.scalars)
            word(v.word);
        for (const int64_t items : s.items)
            check(items >= 0, "a phase has {} work items", items);
    }

    void verify_copy(const Step &s) const {
        check(s.operands.size() == 2, "a copy has {} buffers, not 2", s.operands.size());
        const BufferDesc &from = p_.buffers[s.operands[0]], &to = p_.buffers[s.operands[1]];
        const auto inside = [&](int64_t begin, const BufferDesc &b) {
            check(
                begin >= 0 && s.copy.bytes >= 0 && s.copy.bytes <= b.bytes && begin <= b.bytes - s.copy.bytes,
                "it copies bytes [{}, {} + {}) of a buffer that has {}", begin, begin, s.copy.bytes, b.bytes);
        };
        inside(s.copy.from_begin, from);
        inside(s.copy.to_begin, to);
        check(s.ints.size() <= 1, "a copy has {} numbers, not one at most", s.ints.size());
        check(s.device == from.device || s.device == to.device, "it copies from {} to {} on a stream of {}",
              to_string(from.device), to_string(to.device), to_string(s.device));
    }

    void verify_step(const Step &s) const {
        const bool launch = s.kind == StepKind::Launch;
        check(launch == (s.kernel != kNone), "a step has a kernel exactly when it is a launch");
        if (launch) {
            check(s.kernel < p_.kernels.size(), "it launches kernel k{} of {}", s.kernel, p_.kernels.size());
            check(!s.segments.empty(), "it launches nothing");
        }
        check(launch || s.segments.empty(), "it has segments and is no launch");
        for (const Segment &segment : s.segments)
            verify_segment(segment, p_.kernels[s.kernel], checks_[s.kernel]);
        check((s.kind == StepKind::Library) == !s.symbol.empty(),
              "a step has a symbol exactly when it is a library call");
        for (const uint32_t b : s.operands)
            buffer(b);
        check(s.scratch == kNone || s.kind == StepKind::Library, "it has scratch and is no library call");
        if (s.scratch != kNone) {
            buffer(s.scratch);
            check(p_.buffers[s.scratch].device == s.device, "its scratch b{} is on {}, and it is on {}",
                  s.scratch, to_string(p_.buffers[s.scratch].device), to_string(s.device));
        }
        if (s.kind == StepKind::Copy)
            verify_copy(s);
        else
            check(s.copy.bytes == 0 && s.copy.from_begin == 0 && s.copy.to_begin == 0,
                  "it moves {} bytes and is no copy", s.copy.bytes);
        check(s.bytes >= 0 && s.flops >= 0, "it is estimated to touch {} bytes in {} operations", s.bytes,
              s.flops);
        for (const ArgSpec &a : s.ints)
            arg(a);
        const bool event = s.kind == StepKind::RecordEvent || s.kind == StepKind::WaitEvent;
        check(event || s.event == kNone, "it has an event and neither records nor awaits one");
        check(s.event == kNone || s.event < p_.num_events, "it names event e{} of {}", s.event,
              p_.num_events);
        arg(s.effect);
        check(has_effect(s) || (s.effect.terms.empty() && s.effect.constant == 0),
              "it has an effect and is none of the user's");
        if (at_least(Stage::Streamed))
            stream(s.device, s.stream);
        else
            check(s.stream == kNoStream, "it is on stream {}, and assign_streams has not run", s.stream);
        device(s.device);
        check(s.rounds >= 1 && (launch || s.rounds == 1), "its segments take turns in {} rounds", s.rounds);
        check(s.worker_bytes >= 0, "its workers have {} bytes of scratch", s.worker_bytes);
        for (const ByteRange &r : s.accesses) {
            buffer(r.buffer);
            check(r.begin >= 0 && r.begin <= r.end && r.end <= p_.buffers[r.buffer].bytes,
                  "it touches bytes [{}, {}) of b{}, which has {}", r.begin, r.end, r.buffer,
                  p_.buffers[r.buffer].bytes);
        }
    }

    void verify_final() {
        const Draft &d = p_.draft;
        where_ = "its draft";
        check(d.steps.empty() && d.buffers.empty() && d.reuses.empty() && d.live_bytes.empty() &&
                  d.bytes_saved == 0 && d.in_place_bytes == 0,
              "it is there, and the program is final");
    }

    void verify_draft() {
        const Draft &d = p_.draft;
        where_ = "its draft";
        check(d.steps.size() == p_.steps.size() && d.buffers.size() == p_.buffers.size(),
              "it has {} steps and {} buffers, the program {} and {}", d.steps.size(), d.buffers.size(),
              p_.steps.size(), p_.buffers.size());
        check(d.bytes_saved >= 0 && d.in_place_bytes >= 0, "it counts {} and {} bytes", d.bytes_saved,
              d.in_place_bytes);
        check(at_least(Stage::Planned)
                  ? d.live_bytes.size() == p_.arenas.size()
                  : p_.arenas.empty() && d.live_bytes.empty() && d.reuses.empty() && d.in_place_bytes == 0,
              "there are {} arenas, {} numbers of live bytes and {} reuses", p_.arenas.size(),
              d.live_bytes.size(), d.reuses.size());
        for (const int64_t bytes : d.live_bytes)
            check(bytes >= 0, "{} bytes are live", bytes);
        for (const Reuse &reuse : d.reuses) {
            buffer(reuse.before);
            buffer(reuse.after);
        }
        check(at_least(Stage::Ordered) || p_.num_events == 0, "it has {} events before insert_syncs",
              p_.num_events);
        for (size_t i = 0; i < d.buffers.size(); ++i)
            verify_buffer_draft(i);
        for (size_t i = 0; i < d.steps.size(); ++i)
            verify_step_draft(i);
    }

    void verify_buffer_draft(size_t i) {
        const BufferDraft &b = p_.draft.buffers[i];
        where_ = fmt::format("buffer b{}", i);
        const bool input = p_.buffers[i].kind == BufferKind::Input;
        check(!input || p_.buffers[i].index == i, "inputs come first, and it is input {}",
              p_.buffers[i].index);
        check(input || !b.donated, "only inputs are donated");
        check(b.donated_to == kNone || (b.donated && b.donated_to < p_.results.size()),
              "it is left to result {} of {}", b.donated_to, p_.results.size());
        check(!b.kept || b.donated_to != kNone, "it is kept should a result fail, and left to none");
        if (b.replaces == kNone)
            return;
        check(b.replaces < i && p_.buffers[i].kind != BufferKind::Input, "it replaces b{}", b.replaces);
        const BufferDesc &old = p_.buffers[b.replaces];
        check(old.bytes == p_.buffers[i].bytes && old.device == p_.buffers[i].device,
              "it replaces b{}, which has {} bytes on {}", b.replaces, old.bytes, to_string(old.device));
    }

    void verify_step_draft(size_t i) {
        const StepDraft &d = p_.draft.steps[i];
        const Step &s = p_.steps[i];
        where_ = fmt::format("step {}", i);
        check(s.accesses.empty(), "it says which bytes it touches, before build_program");
        check(s.event == kNone || at_least(Stage::Ordered), "it has event e{} before insert_syncs", s.event);
        const bool has_modes = s.kind != StepKind::Launch && s.kind != StepKind::Copy;
        check(d.modes.size() == (has_modes ? s.operands.size() : 0), "it has {} modes for {} operands",
              d.modes.size(), s.operands.size());
        for (const BufferMode mode : d.modes)
            check(mode <= BufferMode::InOut, "an operand is scratch");
        for (const uint32_t before : d.after)
            check(before < i && !at_least(Stage::Ordered), "it comes after step {}", before);
        for (const NodeId node : d.nodes)
            check(node != kNone, "a node of it is none");
        check(d.user_stream >= kNoStream, "the user put it on stream {}", d.user_stream);
        check(d.bytes_written >= 0 && d.bytes_written <= s.bytes, "it writes {} of {} bytes", d.bytes_written,
              s.bytes);
        check(d.begin >= 0 && d.begin <= d.end && d.end < HUGE_VAL, "it runs from {} to {}", d.begin, d.end);
        check(at_least(Stage::Streamed) || d.end == 0, "it ends at {}, and assign_streams has not run",
              d.end);
        check(!d.for_memory || (s.kind == StepKind::WaitEvent && s.event != kNone),
              "it is there for memory and waits for no event");
    }

    const Program &p_;
    std::vector<size_t> checks_; // instructions of class Check, by kernel
    std::string where_;
};

} // namespace

void verify(const Program &program) {
    ProgramVerifier(program).run();
}

} // namespace lz::ir
