#include "passes/verify/verify_schedule.h"

#include "ir/diagnostic.h"
#include "passes/verify/verify_schedule_accesses.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

namespace lz::passes {

using namespace ir;

namespace {

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

/// By StepKind: what a step without a label is called.
constexpr std::array<std::string_view, 6> kKindNames = {"launch", "library", "copy",
                                                        "record", "wait",    "callback"};

class Verifier {
public:
    Verifier(const Program &program, std::span<const Location> lines) : program_(program), lines_(lines) {}

    void run() {
        for (uint32_t s = 0; s < program_.steps.size(); ++s)
            check_stream(s);
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
    void check_stream(uint32_t s) const {
        const Step &step = program_.steps[s];
        const StreamRef stream{step.device, step.stream};
        if (step.device == kCpu)
            return; // `verify` of Programs knows that it has one
        if (step.stream < 0 || step.stream >= kMaxStreams)
            fail(s, fmt::format("is on {}, which is not there", to_string(stream)));
        if (step.stream >= kFirstUserStream &&
            std::ranges::find(program_.user_streams, stream) == program_.user_streams.end())
            fail(s, fmt::format("is on {}, and the user named {}", to_string(stream), user_streams()));
    }
    std::string user_streams() const {
        std::string text;
        for (const StreamRef stream : program_.user_streams)
            text += (text.empty() ? "" : ", ") + to_string(stream);
        return text.empty() ? "no stream" : text;
    }

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
        if (step.kind == StepKind::RecordEvent && step.event != kNone) {
            if (events_[step.event])
                fail(s, fmt::format("records event {} again", step.event));
            events_[step.event] = clock;
        }
        check_declared(s);
        // Reads before writes: a step may read bytes that it then overwrites.
        for (const ByteRange &a : step.accesses)
            if (!a.write && a.begin < a.end)
                read(s, a);
        for (const ByteRange &a : step.accesses)
            if (a.write && a.begin < a.end)
                write(s, a);
    }

    /// What the step touches is among what it says it touches.
    void check_declared(uint32_t s) {
        const Step &step = program_.steps[s];
        switch (step.kind) {
        case StepKind::Launch:
            check_launch(s);
            break;
        case StepKind::Copy:
            check_range(s, step.operands[0], copied_from(step), false);
            check_range(s, step.operands[1], {step.copy.to_begin, step.copy.to_begin + step.copy.bytes},
                        true);
            break;
        case StepKind::Library:
        case StepKind::HostCallback:
            for (const uint32_t b : step.operands)
                check_touched(s, b);
            if (step.scratch != kNone)
                check_range(s, step.scratch, {0, program_.buffers[step.scratch].bytes}, true);
            break;
        case StepKind::RecordEvent:
        case StepKind::WaitEvent:
            break;
        }
    }

    /// Any part of the buffer where the run says from where on.
    Bytes copied_from(const Step &step) const {
        if (step.copy.bytes > 0 && !step.ints.empty())
            return {0, program_.buffers[step.operands[0]].bytes};
        return {step.copy.from_begin, step.copy.from_begin + step.copy.bytes};
    }

    void check_launch(uint32_t s) {
        const Step &step = program_.steps[s];
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

    /// A library may read or write all of an operand.
    void check_touched(uint32_t s, uint32_t buffer) {
        const int64_t bytes = program_.buffers[buffer].bytes;
        const auto covers = [&](const ByteRange &a) {
            return a.buffer == buffer && a.begin <= 0 && bytes <= a.end;
        };
        if (bytes > 0 && std::ranges::none_of(program_.steps[s].accesses, covers))
            fail(s, fmt::format("has buffer {} as an operand and does not say that it touches it", buffer));
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
        const BufferDesc &input =
            desc.kind == BufferKind::Input ? desc : program_.buffers[static_cast<uint32_t>(desc.donor)];
        return input.storage >= 0 ? shared_[input.storage] : inputs_[input.index];
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

    /// `step 3 (softmax row: max, exp) at train.cpp:31`.
    std::string name_of(uint32_t s) const {
        const Step &step = program_.steps[s];
        const std::string_view label =
            !step.label.empty() ? std::string_view(step.label) : kKindNames[static_cast<size_t>(step.kind)];
        std::string text = fmt::format("step {} ({})", s, label);
        for (const uint32_t recorded : step.recorded)
            if (recorded < lines_.size() && lines_[recorded].known())
                return text + " at " + to_string(lines_[recorded]);
        return text;
    }
    [[noreturn]] void fail(uint32_t s, const std::string &what) const {
        throw Failure(ErrorKind::Internal, fmt::format("verify-schedule: {} {}.", name_of(s), what));
    }
    [[noreturn]] void fail_order(uint32_t s, const ByteRange &range, const Touch &other,
                                 std::string_view does, std::string_view did) const {
        fail(s,
             fmt::format("{} bytes [{}, {}) of buffer {}, and nothing orders it after {}, which {} them as "
                         "buffer {}",
                         does, range.begin, range.end, range.buffer, name_of(other.step), did, other.buffer));
    }

    const Program &program_;
    std::span<const Location> lines_; // by recorded index
    size_t streams_ = 0;
    std::map<std::tuple<DeviceKind, uint8_t, int32_t>, size_t> stream_ids_;
    std::vector<Clock> now_;                          // by stream
    std::vector<std::optional<Clock>> events_;        // what had happened when it was recorded
    std::vector<std::pair<size_t, uint32_t>> clocks_; // by step: its stream and its place in it
    std::map<uint32_t, History> arenas_, inputs_, results_;
    std::map<int32_t, History> shared_; // inputs, by the number of their memory
};

} // namespace

void verify_schedule(const Program &program, std::span<const Location> lines) {
    Verifier(program, lines).run();
}

} // namespace lz::passes
