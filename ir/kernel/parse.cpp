/// The parser of Kernel IR. What it returns has passed `verify`.

#include "ir/diagnostic.h"
#include "ir/kernel/text.h"
#include "ir/kernel/verify.h"
#include "ir/text/scanner.h"
#include "ir/text/text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <utility>

namespace lz::ir {

namespace {

/// Loops in loops; more axes than any kernel walks, and few enough for the stack.
constexpr int kMaxDepth = 64;

constexpr KOp kOperations[] = {
#define LZ_KOP(E, text, operands, cls) KOp::E,
#include "ir/kernel/ops.def"
};

class KernelParser {
public:
    explicit KernelParser(TextScanner &scanner) : s_(scanner) {}

    Kernel run() {
        const size_t at = s_.position();
        s_.expect_word("kernel");
        s_.expect('@');
        k_.name =
            s_.peek() == '"' ? s_.string("the kernel's name") : std::string(s_.word("the kernel's name"));
        s_.expect('{');
        declare("args", 'a', std::numeric_limits<ArgId>::max(),
                [&] { k_.args.push_back({choose<ArgRole>(kArgRoles, "an argument's role")}); });
        declare("scalars", 's', INT32_MAX, [&] { k_.scalars.push_back({dtype()}); });
        declare("buffers", 'b', std::numeric_limits<uint16_t>::max(), [&] { buffer(); });
        declare("axes", 'i', std::numeric_limits<AxisId>::max(), [&] { k_.axes.push_back({arg()}); });
        while (!s_.accept('}'))
            phase();
        place(at);
        try {
            verify(k_);
        } catch (const Failure &failure) {
            s_.fail_at(at, failure.message());
        }
        return std::move(k_);
    }

private:
    // --- words

    template <class E, size_t N>
    E choose(const std::array<std::string_view, N> &names, std::string_view what) {
        const size_t at = s_.position();
        const std::string_view text = s_.word(what);
        const auto found = std::ranges::find(names, text);
        if (found == names.end())
            s_.fail_at(at, "`" + std::string(text) + "` is not " + std::string(what));
        return static_cast<E>(found - names.begin());
    }

    DType dtype() {
        const size_t at = s_.position();
        const std::string_view text = s_.word("a dtype");
        const auto found = dtype_from_name(text);
        if (!found)
            s_.fail_at(at, "`" + std::string(text) + "` is no dtype");
        return *found;
    }

    /// `a12`: the prefix and a number below `limit`.
    uint32_t id(char prefix, size_t limit, std::string_view what) {
        const size_t at = s_.position();
        const std::string_view text = s_.word(what);
        uint32_t number = 0;
        const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
        if (text[0] != prefix || error != std::errc() || end != text.data() + text.size() || number >= limit)
            s_.fail_at(at, "`" + std::string(text) + "` is not " + std::string(what) + ": expected `" +
                               prefix + "` and a number below " + std::to_string(limit));
        return number;
    }

    ArgId arg() { return static_cast<ArgId>(id('a', k_.args.size(), "an argument")); }
    AxisId axis() { return static_cast<AxisId>(id('i', k_.axes.size(), "an axis")); }

    KValue value() {
        s_.expect('%');
        const size_t at = s_.position();
        const std::string_view text = s_.name("a value's number");
        KValue number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc() || end != text.data() + text.size() || number == kNoValue)
            s_.fail_at(at, "`" + std::string(text) + "` is not a value's number");
        return number;
    }

    template <class F>
    void declare(std::string_view what, char prefix, size_t limit, F item) {
        if (!s_.accept_word(what))
            return;
        uint32_t expected = 0;
        do {
            const size_t at = s_.position();
            if (id(prefix, limit, "the next of the " + std::string(what)) != expected)
                s_.fail_at(at, "the " + std::string(what) + " are not numbered in order");
            ++expected;
            s_.expect(':');
            item();
        } while (s_.accept(','));
    }

    void buffer() {
        const auto mode = choose<BufferMode>(kBufferModes, "a buffer's mode");
        KBuffer b{dtype(), mode};
        if (s_.accept_word("at"))
            b.worker_offset = arg();
        k_.buffers.push_back(b);
    }

    Access access() {
        Access a;
        a.buffer = static_cast<uint16_t>(id('b', k_.buffers.size(), "a buffer"));
        s_.expect('[');
        bool first = true;
        do {
            if (s_.peek() == '%') {
                IndexTerm term{value(), kNoArg};
                if (s_.accept('*'))
                    term.stride = arg();
                a.terms.push_back(term);
            } else if (s_.peek() == 'i') {
                AxisStride stride{axis(), StrideClass::Contiguous, kNoArg};
                if (s_.accept('*')) {
                    stride.cls = s_.accept_word("reversed") ? StrideClass::Reversed : StrideClass::Strided;
                    stride.stride = arg();
                }
                a.strides.push_back(stride);
            } else if (first && s_.peek() == 'a') {
                a.offset = arg();
            } else if (first && s_.peek() == '0') {
                s_.integer("an address");
            } else {
                s_.fail("expected an axis `i0`, an index `%0`, or first an offset `a0`");
            }
            first = false;
        } while (s_.accept('+'));
        s_.expect(']');
        if (s_.accept_word("if"))
            a.predicate = value();
        return a;
    }

    uint32_t add_access() {
        k_.accesses.push_back(access());
        return static_cast<uint32_t>(k_.accesses.size() - 1);
    }

    // --- statements

    uint64_t constant(DType t, size_t at, std::string_view text) {
        if (text.starts_with("0x")) {
            uint64_t bits = 0;
            const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
            if (error != std::errc() || end != text.data() + text.size())
                s_.fail_at(at, "`" + std::string(text) + "` is not a constant");
            return bits;
        }
        if (t == DType::Bool) {
            if (text != "true" && text != "false")
                s_.fail_at(at, "`" + std::string(text) + "` is not a bool: expected `true` or `false`");
            return text == "true";
        }
        TextScanner number(text);
        try {
            switch (t) {
            case DType::F64:
                return std::bit_cast<uint64_t>(number.real("a constant"));
            case DType::F32:
                return std::bit_cast<uint32_t>(number.real_float("a constant"));
            case DType::F16:
                return float_to_half(number.real_float("a constant"));
            case DType::BF16:
                return float_to_bfloat(number.real_float("a constant"));
            default:
                break;
            }
            const int width = 8 * size_of(t);
            const int64_t high = is_signed(t) ? INT64_MAX >> (64 - width) : (int64_t{1} << width) - 1;
            const int64_t low = is_signed(t) ? -high - 1 : 0;
            const auto bits = static_cast<uint64_t>(number.integer_in("a constant", low, high));
            return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
        } catch (const Failure &) {
            s_.fail_at(at, "`" + std::string(text) + "` is not a constant of dtype " + std::string(name(t)));
        }
    }

    void instruction(Region &region) {
        KValue id = next_;
        if (s_.peek() == '%') {
            id = value();
            s_.expect('=');
        }
        next_ = id + 1;
        const size_t at = s_.position();
        const std::string_view text = s_.word("an operation");
        const auto named = std::ranges::find_if(kOperations, [&](KOp op) { return info(op).name == text; });
        if (named == std::end(kOperations))
            s_.fail_at(at, "`" + std::string(text) + "` is no operation of a kernel");
        Instr instr{.op = *named, .dtype = DType::F32};
        size_t constant_at = 0;
        std::string_view constant_text;
        switch (instr.op) {
        case KOp::Const:
            constant_at = s_.position();
            constant_text = s_.number("a constant");
            break;
        case KOp::Scalar:
            instr.index = this->id('s', k_.scalars.size(), "a scalar");
            break;
        case KOp::Arg:
            instr.index = arg();
            break;
        case KOp::Axis:
            instr.index = axis();
            break;
        case KOp::LoopResult:
            instr.index = this->id('l', INT32_MAX, "a loop");
            s_.expect(',');
            instr.bits = 2 * static_cast<uint64_t>(s_.integer_in("a reduction", 0, INT32_MAX));
            if (s_.accept(',')) {
                s_.expect_word("index");
                ++instr.bits;
            }
            break;
        case KOp::Load:
            instr.access = add_access();
            break;
        default:
            for (int i = 0; i < info(instr.op).operands; ++i) {
                if (i != 0)
                    s_.expect(',');
                instr.operands[i] = value();
            }
            if (info(instr.op).cls == KOpClass::Check && s_.accept_word("if"))
                instr.operands[2] = value();
            if (instr.op == KOp::Store) {
                s_.expect(',');
                instr.access = add_access();
            }
        }
        s_.expect(':');
        instr.dtype = dtype();
        if (instr.op == KOp::Const)
            instr.bits = constant(instr.dtype, constant_at, constant_text);
        if (s_.accept('!'))
            instr.source = static_cast<uint32_t>(s_.integer_in("a source", 0, kNoValue - 1));
        instrs_.emplace_back(id, instr);
        region.push_back({Stmt::Instruction, id});
    }

    void loop(Region &region, int depth) {
        if (depth == kMaxDepth)
            s_.fail("a kernel has at most " + std::to_string(kMaxDepth) + " loops in each other");
        Loop loop{};
        const uint32_t id = this->id('l', INT32_MAX, "a loop");
        loop.axis = axis();
        loop.order = choose<LoopOrder>(kLoopOrders, "an order of a loop");
        if (s_.accept_word("chunk"))
            loop.chunk = s_.integer_in("a chunk", 2, INT64_MAX);
        if (s_.accept_word("from"))
            loop.begin = value();
        if (s_.accept_word("to"))
            loop.end = value();
        if (s_.accept_word("step"))
            loop.step = s_.integer_in("a step", 2, kLaneBytes);
        s_.expect('{');
        body(loop.body, depth + 1, &loop.reductions);
        loops_.emplace_back(id, std::move(loop));
        region.push_back({Stmt::Loop, id});
    }

    void reduction(std::vector<Reduction> &reductions) {
        Reduction r{};
        r.op = choose<ReduceOp>(kReduceOps, "a reduction");
        r.value = value();
        if (s_.accept_word("at"))
            r.index = value();
        s_.expect(':');
        r.dtype = dtype();
        reductions.push_back(r);
    }

    void body(Region &region, int depth, std::vector<Reduction> *reductions) {
        while (!s_.accept('}')) {
            if (s_.accept_word("loop"))
                loop(region, depth);
            else if (reductions != nullptr && s_.accept_word("reduce"))
                reduction(*reductions);
            else
                instruction(region);
        }
    }

    Contraction contraction() {
        Contraction c{};
        c.dtype = dtype();
        s_.expect_word("to");
        c.accumulate = dtype();
        c.ascending = s_.accept_word("ascending");
        const auto next = [&](std::string_view word) {
            s_.expect(',');
            s_.expect_word(word);
        };
        next("m");
        c.m = axis();
        next("n");
        c.n = axis();
        next("k");
        c.k = axis();
        next("lhs");
        c.lhs = access();
        c.lhs_digits = digits();
        next("rhs");
        c.rhs = access();
        c.rhs_digits = digits();
        return c;
    }

    std::vector<ContractionDigit> digits() {
        std::vector<ContractionDigit> all;
        if (!s_.accept_word("digits"))
            return all;
        s_.expect('[');
        do {
            ContractionDigit digit{};
            digit.axis = axis();
            s_.expect_word("of");
            digit.extent = arg();
            s_.expect('*');
            digit.stride = arg();
            all.push_back(digit);
        } while (s_.accept(','));
        s_.expect(']');
        return all;
    }

    CpuSchedule cpu_schedule() {
        CpuSchedule cpu;
        if (s_.accept_word("inner"))
            cpu.inner = choose<InnerTier>(kInnerTiers, "a tier of the inner extent");
        if (s_.accept_word("stores"))
            cpu.stores = choose<StoreTier>(kStoreTiers, "a tier of stores");
        if (s_.accept_word("block"))
            cpu.block = arg();
        if (s_.accept_word("tile")) {
            cpu.tile_axis = axis();
            if (s_.accept_word("by"))
                cpu.tile_block = arg();
        }
        cpu.across = s_.accept_word("across");
        cpu.one_chunk = s_.accept_word("one-chunk");
        if (s_.accept_word("whole-rows")) {
            cpu.whole_rows = static_cast<int>(s_.integer_in("rows behind each other", 1, kLaneBytes));
            s_.expect_word("in");
            cpu.scratch = static_cast<uint16_t>(id('b', k_.buffers.size(), "a buffer"));
        }
        cpu.partials = s_.accept_word("partials");
        if (s_.accept_word("microkernel")) {
            cpu.mr = static_cast<int>(s_.integer_in("rows of a microkernel", 1, 4096));
            s_.expect_word("x");
            cpu.nr = static_cast<int>(s_.integer_in("columns of a microkernel", 1, 4096));
            s_.expect_word("blocks");
            cpu.blocks = arg();
            s_.expect_word("scratch");
            cpu.scratch = static_cast<uint16_t>(id('b', k_.buffers.size(), "a buffer"));
        }
        return cpu;
    }

    int count(std::string_view what, int64_t least, int64_t most) {
        return static_cast<int>(s_.integer_in(what, least, most));
    }

    CudaSchedule cuda_schedule() {
        CudaSchedule cuda;
        cuda.shape = choose<CudaShape>(kCudaShapes, "a shape of blocks");
        s_.expect_word("threads");
        cuda.threads = count("threads of a block", 1, 1024);
        if (s_.accept_word("segments"))
            cuda.segments = choose<SegmentTier>(kSegmentTiers, "a tier of segments");
        if (s_.accept_word("stores"))
            cuda.stores = choose<StoreTier>(kStoreTiers, "a tier of stores");
        cuda.index32 = s_.accept_word("index32");
        cuda.aligned = !s_.accept_word("unaligned");
        if (s_.accept_word("vector"))
            cuda.vector = count("elements of a packet", 1, 64);
        if (s_.accept_word("unroll"))
            cuda.unroll = count("packets of a thread", 1, 64);
        if (s_.accept_word("row")) {
            cuda.row_elements = count("elements of a row", 0, 1 << 24);
            s_.expect_word("by");
            cuda.row_threads = count("threads of a row", 1, 1024);
            s_.expect_word("in");
            cuda.tier = choose<RowTier>(kRowTiers, "a tier of rows");
        }
        if (s_.accept_word("cluster"))
            cuda.cluster_blocks = count("blocks of a cluster", 2, 16);
        if (s_.accept_word("scratch")) {
            cuda.scratch = static_cast<uint16_t>(id('b', k_.buffers.size(), "a buffer"));
            s_.expect_word("of");
            cuda.scratch_bytes = arg();
        }
        if (s_.accept_word("blocks"))
            cuda.most_blocks = count("blocks of a launch", 1, INT32_MAX);
        while (s_.accept_word("tile")) {
            if (s_.peek() == 'i') {
                cuda.tile_axis = axis();
                continue;
            }
            cuda.tile_m = count("rows of a tile", 1, 1024);
            s_.expect_word("x");
            cuda.tile_n = count("columns of a tile", 1, 1024);
        }
        return cuda;
    }

    void phase() {
        s_.expect_word("phase");
        Phase p;
        s_.expect('[');
        if (!s_.accept(']')) {
            do
                p.grid.push_back(axis());
            while (s_.accept(','));
            s_.expect(']');
        }
        p.vector_grid = s_.accept_word("vector");
        if (!p.vector_grid)
            s_.expect_word("scalar");
        if (s_.accept_word("cpu"))
            p.schedule = cpu_schedule();
        else if (s_.accept_word("cuda"))
            p.schedule = cuda_schedule();
        s_.expect('{');
        if (s_.accept_word("contraction"))
            p.contraction = contraction();
        body(p.body, 0, nullptr);
        k_.phases.push_back(std::move(p));
    }

    /// Puts instructions and loops at the positions that their numbers name: each from 0 on, none left out.
    void place(size_t at) {
        const auto put = [&](auto &from, auto &to, std::string_view what) {
            std::ranges::sort(from, {}, [](const auto &item) { return item.first; });
            for (size_t i = 0; i < from.size(); ++i) {
                if (from[i].first != i)
                    s_.fail_at(at, "the kernel's " + std::string(what) + " are not numbered from 0 to " +
                                       std::to_string(from.size() - 1) + ", each once");
                to.push_back(std::move(from[i].second));
            }
        };
        put(instrs_, k_.instrs, "values");
        put(loops_, k_.loops, "loops");
    }

    TextScanner &s_;
    Kernel k_;
    std::vector<std::pair<KValue, Instr>> instrs_;
    std::vector<std::pair<uint32_t, Loop>> loops_;
    KValue next_ = 0;
};

} // namespace

Kernel parse_kernel_block(TextScanner &scanner) {
    return KernelParser(scanner).run();
}

Kernel parse_kernel(std::string_view text) {
    TextScanner scanner(text);
    if (scanner.accept_word("lazuli"))
        scanner.integer_in("the version", 1, 1);
    Kernel kernel = parse_kernel_block(scanner);
    if (!scanner.at_end())
        scanner.fail("expected the end of the text");
    return kernel;
}

} // namespace lz::ir
