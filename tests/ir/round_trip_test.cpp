/// Whatever the verifiers accept is read back from its text: every field of Programs and kernels is set to
/// every value that may be special (sentinels, limits, names that need quotes), alone and beside others.

#include "ir/diagnostic.h"
#include "ir/graph/verify.h"
#include "ir/kernel/verify.h"
#include "ir/program/program.h"
#include "ir/program/verify.h"
#include "ir/text/text.h"
#include "tests/support/samples/kernels.h"

#include <gtest/gtest.h>

#include <concepts>
#include <functional>
#include <limits>
#include <random>

namespace lz::ir {
namespace {

/// Calls a visitor with each field; it may change them.
template <class Visitor>
struct Fields {
    Visitor visit;

    void operator()(ArgSpec &a) {
        visit(a.constant);
        for (ArgSpec::Term &t : a.terms) {
            visit(t.word);
            visit(t.coefficient);
        }
    }
    void operator()(ArenaDesc &a) {
        (*this)(a.device);
        visit(a.pinned);
        visit(a.home);
        (*this)(a.home_device);
        visit(a.bytes);
    }
    void operator()(Device &d) {
        visit.choose(d.kind, 2);
        visit(d.index);
    }
    void operator()(BufferDesc &b) {
        visit.choose(b.kind, 6);
        visit(b.index);
        visit(b.offset);
        visit(b.arena);
        visit(b.bytes);
        (*this)(b.device);
        visit(b.donor);
        visit.choose(b.guarded, 2);
        visit(b.storage);
        visit(b.value);
    }
    void operator()(Segment &s) {
        each(s.buffers);
        for (ArgSpec &a : s.args)
            (*this)(a);
        for (ScalarSpec &v : s.scalars) {
            visit(v.word);
            visit.choose(v.dtype, kNumDTypes);
        }
        each(s.items);
        each(s.checks);
    }
    void operator()(Step &s) {
        visit.choose(s.kind, 6);
        (*this)(s.device);
        visit(s.stream);
        visit(s.kernel);
        for (Segment &segment : s.segments)
            (*this)(segment);
        visit(s.worker_bytes);
        visit(s.cost);
        visit(s.bytes);
        visit(s.flops);
        visit(s.symbol);
        each(s.operands);
        visit(s.scratch);
        visit(s.copy.from_begin);
        visit(s.copy.to_begin);
        visit(s.copy.bytes);
        for (ArgSpec &a : s.ints)
            (*this)(a);
        visit(s.event);
        (*this)(s.effect);
        for (ByteRange &r : s.accesses) {
            visit(r.buffer);
            visit(r.begin);
            visit(r.end);
            visit(r.write);
        }
        visit(s.node);
        each(s.recorded);
        visit(s.label);
    }
    void operator()(double &seconds) {
        const double ns = seconds * 1e9; // the ends of the range came from what `visit` tries
        int64_t bits = ns >= 9.2e18 ? INT64_MAX : ns <= -9.2e18 ? INT64_MIN : static_cast<int64_t>(ns);
        visit(bits);
        seconds = static_cast<double>(bits) * 1e-9;
    }
    void operator()(StepDraft &s) {
        visit(s.user_stream);
        for (BufferMode &mode : s.modes)
            visit.choose(mode, 5);
        each(s.after);
        each(s.nodes);
        visit(s.bytes_written);
        (*this)(s.begin);
        (*this)(s.end);
        visit.choose(s.for_memory, 2);
    }
    void operator()(BufferDraft &b) {
        visit(b.node);
        visit(b.recorded);
        visit.choose(b.donated, 2);
        visit(b.donated_to);
        visit.choose(b.kept, 2);
        visit(b.replaces);
    }
    void operator()(Draft &d) {
        for (StepDraft &s : d.steps)
            (*this)(s);
        for (BufferDraft &b : d.buffers)
            (*this)(b);
        visit(d.bytes_saved);
        for (Reuse &r : d.reuses) {
            visit(r.before);
            visit(r.after);
        }
        each(d.live_bytes);
        visit(d.in_place_bytes);
    }
    void operator()(Program &p) {
        visit(p.name);
        visit.choose(p.stage, 5);
        for (Kernel &k : p.kernels)
            (*this)(k);
        for (BufferDesc &b : p.buffers)
            (*this)(b);
        for (Step &s : p.steps)
            (*this)(s);
        for (ArenaDesc &a : p.arenas)
            (*this)(a);
        each(p.results);
        visit(p.num_runtime_words);
        visit(p.num_events);
        each(p.notes);
        (*this)(p.draft);
    }

    void operator()(Access &a) {
        visit(a.buffer);
        visit(a.offset);
        for (AxisStride &s : a.strides) {
            visit(s.axis);
            visit.choose(s.cls, 3);
            visit(s.stride);
        }
        for (IndexTerm &t : a.terms) {
            visit(t.index);
            visit(t.stride);
        }
        visit(a.predicate);
    }
    void operator()(Kernel &k) {
        visit(k.name);
        for (KArg &a : k.args)
            visit.choose(a.role, 5);
        for (KScalar &s : k.scalars)
            visit.choose(s.dtype, kNumDTypes);
        for (KBuffer &b : k.buffers) {
            visit.choose(b.dtype, kNumDTypes);
            visit.choose(b.mode, 5);
            visit(b.worker_offset);
        }
        for (KAxis &a : k.axes)
            visit(a.extent);
        for (Instr &i : k.instrs) {
            visit.choose(i.dtype, kNumDTypes);
            for (int o = 0; o < info(i.op).operands; ++o)
                visit(i.operands[o]);
            if (i.op == KOp::Const || i.op == KOp::LoopResult)
                visit(i.bits);
            if (i.op == KOp::Scalar || i.op == KOp::Arg || i.op == KOp::Axis || i.op == KOp::LoopResult)
                visit(i.index);
            visit(i.source);
        }
        for (Access &a : k.accesses)
            (*this)(a);
        for (Loop &l : k.loops) {
            visit(l.axis);
            visit.choose(l.order, 2);
            visit(l.chunk);
            visit(l.begin);
            visit(l.end);
            for (Reduction &r : l.reductions) {
                visit.choose(r.op, 6);
                visit.choose(r.dtype, kNumDTypes);
                visit(r.value);
                visit(r.index);
            }
        }
        for (Phase &p : k.phases) {
            each(p.grid);
            visit(p.vector_grid);
            if (auto &c = p.contraction) {
                visit(c->m);
                visit(c->n);
                visit(c->k);
                visit.choose(c->dtype, kNumDTypes);
                visit.choose(c->accumulate, kNumDTypes);
                (*this)(c->lhs);
                (*this)(c->rhs);
                for (auto *digits : {&c->lhs_digits, &c->rhs_digits})
                    for (ContractionDigit &d : *digits) {
                        visit(d.axis);
                        visit(d.extent);
                        visit(d.stride);
                    }
            }
            if (auto *cpu = std::get_if<CpuSchedule>(&p.schedule)) {
                visit.choose(cpu->inner, 2);
                visit.choose(cpu->stores, 2);
                visit(cpu->block);
                visit(cpu->tile_axis);
                visit(cpu->tile_block);
                visit(cpu->one_chunk);
                visit(cpu->partials);
                visit(cpu->mr);
                visit(cpu->nr);
                visit(cpu->blocks);
                visit(cpu->scratch);
            }
            if (auto *cuda = std::get_if<CudaSchedule>(&p.schedule)) {
                visit.choose(cuda->shape, 4);
                visit.choose(cuda->segments, 4);
                visit.choose(cuda->stores, 2);
                visit(cuda->index32);
                visit(cuda->threads);
                visit(cuda->vector);
                visit(cuda->unroll);
                visit.choose(cuda->tier, 3);
                visit(cuda->row_threads);
                visit(cuda->row_elements);
                visit(cuda->scratch);
                visit(cuda->scratch_bytes);
                visit(cuda->most_blocks);
                visit(cuda->cluster_blocks);
                visit(cuda->tile_axis);
                visit(cuda->tile_m);
                visit(cuda->tile_n);
            }
        }
    }

private:
    template <class T>
    void each(std::vector<T> &items) {
        for (T &item : items)
            visit(item);
    }
};

/// Everything in order, to compare.
struct Collect {
    std::vector<int64_t> numbers;
    std::vector<std::string> strings;
    template <std::integral T>
    void operator()(T &field) {
        numbers.push_back(static_cast<int64_t>(field));
    }
    void operator()(std::string &field) { strings.push_back(field); }
    template <class E>
    void choose(E &field, int) {
        numbers.push_back(static_cast<int64_t>(field));
    }
    friend bool operator==(const Collect &, const Collect &) = default;
};
template <class Module>
Collect fields_of(Module module) {
    Fields<Collect> fields{{}};
    fields(module);
    return std::move(fields.visit);
}

constexpr int64_t kSpecial[] = {0,
                                1,
                                2,
                                3,
                                7,
                                255,
                                256,
                                4096,
                                4097,
                                UINT16_MAX,
                                INT32_MAX,
                                int64_t{INT32_MAX} + 1,
                                int64_t{UINT32_MAX} - 1,
                                UINT32_MAX, // no value, no kernel, no event...
                                int64_t{UINT32_MAX} + 1,
                                INT64_MAX,
                                -1,
                                -2,
                                INT32_MIN,
                                INT64_MIN};
const std::string kStrings[] = {"",
                                "a b",
                                "\n",
                                "\"",
                                "\\",
                                "none",
                                "kernel",
                                "@x",
                                "step",
                                "4294967",
                                "a.b1",
                                "\xc3\xa4",
                                std::string(1, '\0'),
                                "// x",
                                "}"};

/// Sets the field of one number to one of the values.
struct Set {
    size_t wanted, choice;
    size_t next = 0;
    bool done = false; ///< there is such a field, and it has so many values
    template <std::integral T>
    void operator()(T &field) {
        if (next++ != wanted || choice >= std::size(kSpecial))
            return;
        field = static_cast<T>(kSpecial[choice]);
        done = true;
    }
    void operator()(std::string &field) {
        if (next++ != wanted || choice >= std::size(kStrings))
            return;
        field = kStrings[choice];
        done = true;
    }
    template <class E>
    void choose(E &field, int count) {
        if (next++ != wanted || choice >= static_cast<size_t>(count))
            return;
        field = static_cast<E>(choice);
        done = true;
    }
};
template <class Module>
bool set(Module &module, size_t field, size_t choice) {
    Fields<Set> fields{{field, choice}};
    fields(module);
    return fields.visit.done;
}
template <class Module>
size_t count(Module module) {
    Fields<Set> fields{{SIZE_MAX, 0}};
    fields(module);
    return fields.visit.next;
}

Program read(const Program &, const std::string &text) {
    return parse_program(text);
}
Kernel read(const Kernel &, const std::string &text) {
    return parse_kernel(text);
}

/// False when the verifier refuses the module.
template <class Module>
bool round_trip(const Module &module) {
    try {
        verify(module);
    } catch (const Failure &failure) {
        EXPECT_EQ(failure.kind(), ErrorKind::Internal) << failure.message();
        return false;
    }
    const std::string text = print(module);
    try {
        EXPECT_EQ(fields_of(read(module, text)), fields_of(module)) << text;
    } catch (const Failure &failure) {
        ADD_FAILURE() << failure.message() << " in\n" << text;
    }
    return true;
}

template <class Module>
void every_value_of_every_field(const Module &sample) {
    ASSERT_TRUE(round_trip(sample));
    const size_t fields = count(sample);
    size_t accepted = 0, refused = 0;
    for (size_t field = 0; field < fields; ++field)
        for (size_t choice = 0;; ++choice) {
            Module changed = sample;
            if (!set(changed, field, choice))
                break;
            ++(round_trip(changed) ? accepted : refused);
            ASSERT_FALSE(testing::Test::HasFailure()) << "field " << field << ", value " << choice;
        }
    std::mt19937 random(1);
    for (int i = 0; i < 2000; ++i) {
        Module changed = sample;
        for (size_t k = 1 + random() % 3; k > 0;) {
            Module more = changed;
            if (!set(more, random() % fields, random() % std::size(kSpecial)))
                continue;
            --k;
            if (round_trip(more))
                changed = std::move(more);
            ASSERT_FALSE(testing::Test::HasFailure());
        }
    }
    EXPECT_GT(accepted, fields);
    EXPECT_GT(refused, fields / 2);
}

Program sample() {
    constexpr Device cuda0{DeviceKind::Cuda, 0};
    Program p;
    p.kernels = {test::softmax(), test::gather()};
    p.num_runtime_words = 4;
    p.num_events = 1;
    p.arenas = {{.bytes = 4096},
                {.device = cuda0, .home = kCopyInStream, .home_device = cuda0, .bytes = 1024},
                {.pinned = true, .home = kCopyOutStream, .home_device = cuda0, .bytes = 512}};
    p.buffers = {{.kind = BufferKind::Input, .bytes = 4096, .device = kCpu, .storage = 3, .value = 0},
                 {.kind = BufferKind::Arena, .offset = 512, .bytes = 2048, .device = kCpu},
                 {.kind = BufferKind::Result, .bytes = 4096, .device = kCpu, .donor = 0, .value = 9},
                 {.kind = BufferKind::Arena, .arena = 1, .bytes = 1024, .device = cuda0},
                 {.kind = BufferKind::Arena, .bytes = 0, .device = cuda0}};
    Segment row;
    row.buffers = {0, 2, kNone};
    row.args = {{8, {}}, {128, {}}, {128, {{0, 4}, {1, -1}}}, {0, {}}};
    row.items = {8};
    Segment gathered;
    gathered.buffers = {0, 1, 1};
    gathered.args.assign(7, {1, {}});
    gathered.scalars = {{3, DType::F16}};
    gathered.items = {1};
    gathered.checks = {kNone}; // of an operation that a pass made
    const auto add = [&](StepKind kind) -> Step & {
        p.steps.emplace_back().kind = kind;
        return p.steps.back();
    };
    Step &first = add(StepKind::Launch);
    first.kernel = 0;
    first.segments = {row, row};
    first.accesses = {{0, 0, 4096, false}, {2, 0, 4096, true}};
    first.recorded = {2, kNone};
    Step &second = add(StepKind::Launch);
    second.kernel = 1;
    second.segments = {gathered};
    Step &library = add(StepKind::Library);
    library.symbol = "cumsum";
    library.operands = {0, 1};
    library.scratch = 2;
    library.ints = {{8, {}}, {-1, {{2, 1}}}};
    Step &copy = add(StepKind::Copy);
    copy.device = cuda0;
    copy.stream = 2;
    copy.operands = {0, 3};
    copy.copy = {128, 256, 512};
    copy.ints = {{0, {{1, 4}}}};
    add(StepKind::RecordEvent).event = 0;
    add(StepKind::WaitEvent).event = 0;
    Step &users = add(StepKind::WaitEvent);
    users.device = cuda0;
    users.stream = kFirstUserStream;
    users.effect = {0, {{3, 1}}};
    add(StepKind::HostCallback).effect = {0, {{2, 1}}};
    p.results = {2};
    p.notes = {"One kernel."};
    return p;
}

TEST(RoundTrip, EveryValueOfEveryFieldOfAProgram) {
    every_value_of_every_field(sample());
}

/// With a buffer of each kind that is symbolic, or, planned, with none.
Program draft(Stage stage) {
    constexpr Device cuda0{DeviceKind::Cuda, 0};
    const bool planned = stage >= Stage::Planned;
    Program p;
    p.stage = stage;
    p.num_runtime_words = 1;
    const auto kind = [&](BufferKind symbol) { return planned ? BufferKind::Arena : symbol; };
    p.buffers = {{.kind = BufferKind::Input, .bytes = 512, .device = cuda0, .value = 0},
                 {.kind = kind(BufferKind::Value), .bytes = 512, .device = cuda0, .value = 1},
                 {.kind = kind(BufferKind::Value), .bytes = 512, .device = cuda0, .value = 2},
                 {.kind = kind(BufferKind::Scratch), .bytes = 64, .device = cuda0},
                 {.kind = kind(BufferKind::Staging), .bytes = 512, .device = kCpu}};
    p.draft.buffers = {
        {.donated = true, .donated_to = 0}, {.node = 3, .recorded = 2}, {.replaces = 1}, {}, {}};
    if (planned) {
        p.arenas = {{.device = cuda0, .home_device = cuda0, .bytes = 1024},
                    {.pinned = true, .home = kCopyOutStream, .home_device = cuda0, .bytes = 512}};
        p.buffers[4].arena = 1;
        p.draft.live_bytes = {600, 512};
        p.draft.reuses = {{0, 1}, {1, 2}};
        p.draft.in_place_bytes = 512;
    }
    p.draft.bytes_saved = 4096;
    const auto add = [&](StepKind kind, StepDraft draft) -> Step & {
        Step &step = p.steps.emplace_back();
        step.kind = kind;
        step.device = cuda0;
        step.stream = stage == Stage::Lowered ? kNoStream : kFirstUserStream;
        step.bytes = 512;
        if (stage != Stage::Lowered)
            draft.end = 2e-6;
        if (stage == Stage::Ordered)
            draft.after.clear();
        p.draft.steps.push_back(std::move(draft));
        return step;
    };
    Step &library = add(StepKind::Library, {.user_stream = 9,
                                            .modes = {BufferMode::In, BufferMode::Out},
                                            .nodes = {0, 3},
                                            .bytes_written = 256});
    library.symbol = "cumsum";
    library.operands = {0, 1};
    library.scratch = 3;
    Step &update = add(StepKind::Library, {.modes = {BufferMode::InOut}, .after = {0}});
    update.symbol = "update";
    update.operands = {2};
    Step &copy = add(StepKind::Copy, {.after = {0, 1}});
    copy.operands = {2, 4};
    copy.copy.bytes = 512;
    Step &callback = add(StepKind::HostCallback, {.modes = {BufferMode::In}, .after = {2}});
    callback.operands = {1};
    callback.effect = {0, {{0, 1}}};
    if (stage == Stage::Ordered) {
        p.num_events = 1;
        add(StepKind::RecordEvent, {}).event = 0;
        add(StepKind::WaitEvent, {.for_memory = true}).event = 0;
    }
    p.results = {2};
    return p;
}

TEST(RoundTrip, EveryValueOfEveryFieldOfAProgramAtEachStage) {
    for (const Stage stage : {Stage::Lowered, Stage::Streamed, Stage::Planned, Stage::Ordered}) {
        SCOPED_TRACE(name(stage));
        every_value_of_every_field(draft(stage));
    }
}

TEST(RoundTrip, EveryValueOfEveryFieldOfAKernel) {
    for (const Kernel &kernel : {test::softmax(), test::gather(), test::arg_max(), test::product(),
                                 test::convolution(), test::constants()}) {
        SCOPED_TRACE(kernel.name);
        every_value_of_every_field(kernel);
    }
}

TEST(RoundTrip, EveryFieldOfAScheduleForCuda) {
    for (const Kernel &kernel : test::cuda_samples())
        every_value_of_every_field(kernel);
}

// What the user saw: lz-opt printed `checks 4294967295` and refused to read it.
TEST(RoundTrip, AnOperationThatNobodyRecordedIsNone) {
    const std::string text = print(sample());
    EXPECT_NE(text.find("checks none"), std::string::npos) << text;
    EXPECT_NE(text.find("recorded 2, none"), std::string::npos) << text;
    EXPECT_EQ(text.find("4294967295"), std::string::npos) << text;
}

} // namespace
} // namespace lz::ir
