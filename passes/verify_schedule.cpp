#include "passes/verify_schedule.h"

#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace lz::passes {

using namespace ir;

namespace {

// ---- which bytes a step touches, from its kernel

struct Bytes {
    int64_t begin = INT64_MAX, end = INT64_MIN;
    bool empty() const { return begin >= end; }
    void add(int64_t from, int64_t to) {
        begin = std::min(begin, from);
        end = std::max(end, to);
    }
};

struct Touched {
    Bytes read, written;
};

/// A known integer, or nothing where a runtime word decides.
std::optional<int64_t> known(const Segment &segment, ArgId arg, int64_t absent) {
    if (arg == kNoArg)
        return absent;
    const ArgSpec &spec = segment.args[arg];
    return spec.terms.empty() ? std::optional(spec.constant) : std::nullopt;
}

/// The elements that an access can reach: the corners of its affine map, or the whole buffer where the map is
/// not known before the run. Gathered indices are checked by the kernel itself, within the buffer.
std::optional<Bytes> reach(const Kernel &kernel, const Segment &segment, const Access &access) {
    if (!access.terms.empty())
        return std::nullopt;
    const auto offset = known(segment, access.offset, 0);
    if (!offset)
        return std::nullopt;
    int64_t low = *offset, high = *offset;
    for (const AxisStride &s : access.strides) {
        const auto stride = known(segment, s.stride, 1),
                   extent = known(segment, kernel.axes[s.axis].extent, 0);
        if (!stride || !extent)
            return std::nullopt;
        if (*extent == 0)
            return Bytes{};
        const int64_t span = *stride * (*extent - 1);
        (span < 0 ? low : high) += span;
    }
    const int64_t size = size_of(kernel.buffers[access.buffer].dtype);
    return Bytes{low * size, (high + 1) * size};
}

/// Everything one segment touches, by kernel buffer.
std::vector<Touched> touched_by(const Program &program, const Kernel &kernel, const Segment &segment) {
    std::vector<Touched> touched(kernel.buffers.size());
    const auto add = [&](const Access &access, bool write) {
        const uint32_t buffer = segment.buffers[access.buffer];
        if (buffer == kNone)
            return;
        const int64_t whole = program.buffers[buffer].bytes;
        if (whole ==
            0) // an axis of extent 0 is walked, which an access that does not move along it cannot tell
            return;
        Bytes bytes = reach(kernel, segment, access).value_or(Bytes{0, whole});
        if (bytes.empty())
            return;
        // With a predicate the corners may lie outside; the elements that are touched do not.
        if (access.predicate != kNoValue)
            bytes = {std::clamp<int64_t>(bytes.begin, 0, whole), std::clamp<int64_t>(bytes.end, 0, whole)};
        Touched &t = touched[access.buffer];
        (write ? t.written : t.read).add(bytes.begin, bytes.end);
    };
    for (const Instr &instr : kernel.instrs)
        if (instr.op == KOp::Load || instr.op == KOp::Store)
            add(kernel.accesses[instr.access], instr.op == KOp::Store);
    for (const Phase &phase : kernel.phases)
        if (phase.contraction) {
            add(phase.contraction->lhs, false);
            add(phase.contraction->rhs, false);
        }
    return touched;
}

// ---- who touched each byte last

using Clock = std::vector<uint32_t>; // by stream: steps of it that have happened

struct Touch {
    uint32_t step = kNone;
    uint32_t buffer = kNone;
};

/// What is known about a run of bytes.
struct Cell {
    int64_t end = 0;
    Touch writer;
    std::vector<Touch> readers; // since the last write, the latest of each stream
};

/// The history of one memory: an input's, a result's, or an arena. Cells do not overlap; bytes outside of all
/// of them have not been touched.
using History = std::map<int64_t, Cell>;

class Verifier {
public:
    explicit Verifier(const Program &program) : program_(program) {}

    void run() {
        for (const Step &step : program_.steps)
            streams_ = std::max(streams_, stream_of(step) + 1);
        now_.assign(streams_, Clock(streams_, 0));
        events_.resize(program_.num_events);
        clocks_.resize(program_.steps.size());
        for (uint32_t s = 0; s < program_.steps.size(); ++s)
            visit(s);
        for (uint32_t r : program_.results)
            check_result(r);
    }

private:
    /// Streams of different devices are different streams.
    size_t stream_of(const Step &step) {
        const auto key = std::tuple(step.device.kind, step.device.index, step.stream);
        return stream_ids_.try_emplace(key, stream_ids_.size()).first->second;
    }

    void visit(uint32_t s) {
        const Step &step = program_.steps[s];
        const size_t stream = stream_of(step);
        Clock &clock = now_[stream];
        if (step.kind == StepKind::WaitEvent && step.event != kNone) {
            if (!events_[step.event])
                fail(s, fmt::format("waits for event {}, which nothing before it records", step.event));
            for (size_t k = 0; k < streams_; ++k)
                clock[k] = std::max(clock[k], (*events_[step.event])[k]);
        }
        ++clock[stream];
        clocks_[s] = {stream, clock[stream]};
        if (step.kind == StepKind::RecordEvent && step.event != kNone)
            events_[step.event] = clock;
        check_declared(s);
        // Reads before writes: a step may read bytes that it then overwrites.
        for (const ByteRange &a : step.accesses)
            if (!a.write)
                read(s, a);
        for (const ByteRange &a : step.accesses)
            if (a.write)
                write(s, a);
    }

    /// What the kernel touches is among what the step says it touches.
    void check_declared(uint32_t s) {
        const Step &step = program_.steps[s];
        if (step.kind != StepKind::Launch)
            return;
        const Kernel &kernel = program_.kernels[step.kernel];
        for (const Segment &segment : step.segments) {
            const std::vector<Touched> touched = touched_by(program_, kernel, segment);
            for (size_t b = 0; b < touched.size(); ++b) {
                if (segment.buffers[b] == kNone)
                    continue;
                check_range(s, segment.buffers[b], touched[b].written, true);
                // What the step itself wrote, or carried over from the buffer that it updates in place, it
                // may also read.
                check_range(s, segment.buffers[b], touched[b].read, kernel.buffers[b].mode != BufferMode::In);
            }
        }
    }

    void check_range(uint32_t s, uint32_t buffer, const Bytes &bytes, bool write) {
        if (bytes.empty())
            return;
        if (bytes.begin < 0 || bytes.end > program_.buffers[buffer].bytes)
            fail(s, fmt::format("touches bytes [{}, {}) of buffer {}, which has {}", bytes.begin, bytes.end,
                                buffer, program_.buffers[buffer].bytes));
        const auto covers = [&](const ByteRange &a) {
            return a.buffer == buffer && a.write == write && a.begin <= bytes.begin && bytes.end <= a.end;
        };
        if (std::ranges::none_of(program_.steps[s].accesses, covers))
            fail(s, fmt::format("{} bytes [{}, {}) of buffer {} without saying so",
                                write ? "writes" : "reads", bytes.begin, bytes.end, buffer));
    }

    History &history_of(uint32_t buffer) {
        const BufferDesc &desc = program_.buffers[buffer];
        if (desc.kind == BufferKind::Arena)
            return arenas_[desc.arena];
        if (desc.kind == BufferKind::Result && desc.donor < 0)
            return results_[desc.index];
        return inputs_[desc.kind == BufferKind::Input
                           ? desc.index
                           : program_.buffers[static_cast<uint32_t>(desc.donor)].index];
    }

    int64_t base_of(uint32_t buffer) const {
        const BufferDesc &desc = program_.buffers[buffer];
        return desc.kind == BufferKind::Arena ? desc.offset : 0;
    }

    /// Cuts cells so that [begin, end) is a whole number of cells, with untouched bytes as cells without a
    /// writer.
    static void cut(History &history, int64_t begin, int64_t end) {
        const auto split = [&](int64_t at) {
            auto it = history.upper_bound(at);
            if (it == history.begin())
                return;
            --it;
            if (it->first == at || it->second.end <= at)
                return;
            Cell right = it->second;
            it->second.end = at;
            history.emplace(at, std::move(right));
        };
        split(begin);
        split(end);
        for (int64_t at = begin; at < end;) {
            const auto it = history.lower_bound(at);
            const int64_t next = it == history.end() ? end : std::min(end, it->first);
            if (next > at)
                history.emplace(at, Cell{next, {}, {}});
            at = next == at ? it->second.end : next;
        }
    }

    bool happens_before(uint32_t a, uint32_t b) const {
        const auto [stream, tick] = clocks_[a];
        return a == b || now_[clocks_[b].first][stream] >= tick;
    }

    void read(uint32_t s, const ByteRange &range) {
        const int64_t base = base_of(range.buffer);
        History &history = history_of(range.buffer);
        cut(history, base + range.begin, base + range.end);
        for (auto it = history.lower_bound(base + range.begin);
             it != history.end() && it->first < base + range.end; ++it) {
            Cell &cell = it->second;
            const bool input = program_.buffers[range.buffer].kind == BufferKind::Input;
            if (cell.writer.step == kNone ? !input : cell.writer.buffer != range.buffer)
                fail(s, fmt::format("reads bytes [{}, {}) of buffer {}, which {}", it->first - base,
                                    cell.end - base, range.buffer,
                                    cell.writer.step == kNone
                                        ? std::string("nothing has written")
                                        : fmt::format("step {} has overwritten with buffer {}",
                                                      cell.writer.step, cell.writer.buffer)));
            if (cell.writer.step != kNone && !happens_before(cell.writer.step, s))
                fail_order(s, range, cell.writer, "reads", "writes");
            const size_t stream = clocks_[s].first;
            std::erase_if(cell.readers, [&](const Touch &a) { return clocks_[a.step].first == stream; });
            cell.readers.push_back({s, range.buffer});
        }
    }

    void write(uint32_t s, const ByteRange &range) {
        const int64_t base = base_of(range.buffer);
        History &history = history_of(range.buffer);
        cut(history, base + range.begin, base + range.end);
        for (auto it = history.lower_bound(base + range.begin);
             it != history.end() && it->first < base + range.end;) {
            const Cell &cell = it->second;
            if (cell.writer.step == s && cell.writer.buffer != range.buffer)
                fail(s, fmt::format("writes buffers {} and {}, which share bytes", cell.writer.buffer,
                                    range.buffer));
            if (cell.writer.step != kNone && !happens_before(cell.writer.step, s))
                fail_order(s, range, cell.writer, "writes", "writes");
            for (const Touch &reader : cell.readers)
                if (!happens_before(reader.step, s))
                    fail_order(s, range, reader, "writes", "reads");
            it = history.erase(it);
        }
        history[base + range.begin] = Cell{base + range.end, {s, range.buffer}, {}};
    }

    /// Every byte of a result was written for it, by the end.
    void check_result(uint32_t buffer) {
        const int64_t bytes = program_.buffers[buffer].bytes, base = base_of(buffer);
        if (bytes == 0 || program_.buffers[buffer].kind == BufferKind::Input)
            return;
        History &history = history_of(buffer);
        cut(history, base, base + bytes);
        for (auto it = history.lower_bound(base); it != history.end() && it->first < base + bytes; ++it)
            if (it->second.writer.step == kNone || it->second.writer.buffer != buffer)
                throw Failure(
                    ErrorKind::Internal,
                    fmt::format("verify-schedule: bytes [{}, {}) of result buffer {} {}.", it->first - base,
                                it->second.end - base, buffer,
                                it->second.writer.step == kNone
                                    ? std::string("are never written")
                                    : fmt::format("hold buffer {} at the end", it->second.writer.buffer)));
    }

    [[noreturn]] void fail(uint32_t s, const std::string &what) const {
        throw Failure(ErrorKind::Internal,
                      fmt::format("verify-schedule: step {} ({}) {}.", s, program_.steps[s].label, what));
    }
    [[noreturn]] void fail_order(uint32_t s, const ByteRange &range, const Touch &other,
                                 std::string_view does, std::string_view did) const {
        fail(s, fmt::format(
                    "{} bytes [{}, {}) of buffer {}, and nothing orders it after step {} ({}), which {} them "
                    "as buffer {}",
                    does, range.begin, range.end, range.buffer, other.step, program_.steps[other.step].label,
                    did, other.buffer));
    }

    const Program &program_;
    size_t streams_ = 0;
    std::map<std::tuple<DeviceKind, uint8_t, int32_t>, size_t> stream_ids_;
    std::vector<Clock> now_;                          // by stream
    std::vector<std::optional<Clock>> events_;        // what had happened when it was recorded
    std::vector<std::pair<size_t, uint32_t>> clocks_; // by step: its stream and its place in it
    std::map<uint32_t, History> arenas_, inputs_, results_;
};

} // namespace

void verify_schedule(const Program &program) {
    Verifier(program).run();
}

} // namespace lz::passes
