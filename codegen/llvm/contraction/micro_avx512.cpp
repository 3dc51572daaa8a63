// Microkernels of fused multiply-adds for AVX-512, as assembly: they are most of a product's code, and LLVM
// takes ten times as long to select, schedule and allocate what is always the same.

#include "codegen/llvm/contraction/parts.h"
#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace lz::codegen {

namespace {

constexpr int kRegister = 64; ///< bytes
/// The registers behind those of sums.
constexpr int kFirstColumn = 28, kElement = 30;

/// Which general registers hold what. The first rows of lhs of which addresses are kept are rows 0, 3, 5 and
/// 10: the others are 1, 2, 4 or 8 rows further, which an instruction adds by itself.
constexpr const char *kLhs[] = {"rdi", "r10", "r11", "rbx"};
constexpr const char *kRows[] = {"0", "r8*2 + r8", "r8*4 + r8", ""};
constexpr int kFirstRows[] = {0, 3, 5, 10};

class Writer {
public:
    Writer(const PanelForm &form, int rows, int columns)
        : rows_(rows), columns_(columns), own_last_(form.row_step > 1),
          masked_(columns < form.nr / form.lanes), suffix_(form.sum == Elem::F64 ? 'd' : 's'),
          tile_bytes_(int64_t{form.mr} * form.nr * bytes_of(form.sum)),
          row_bytes_(form.nr * bytes_of(form.sum)) {
        while (bases_ < 4 && kFirstRows[bases_] < rows - own_last_)
            ++bases_;
    }

    std::string write() {
        begin();
        line("test rcx, rcx");
        line("jle .Lstore${{:uid}}");
        line("xor r15d, r15d");
        line(".p2align 4");
        line(".Lstep${{:uid}}:");
        step();
        line("dec rcx");
        line("jnz .Lstep${{:uid}}");
        line(".Lstore${{:uid}}:");
        for_sums([&](int sum, int64_t at) { line("vmovap{} [rdx + {}], zmm{}", suffix_, at, sum); });
        line("vzeroupper");
        return std::move(text_);
    }

private:
    template <class... T>
    void line(fmt::format_string<T...> format, T &&...values) {
        fmt::format_to(std::back_inserter(text_), format, std::forward<T>(values)...);
        text_ += '\n';
    }
    template <class F>
    void for_sums(F &&f) const {
        for (int i = 0; i < rows_; ++i)
            for (int j = 0; j < columns_; ++j)
                f(i * columns_ + j, i * row_bytes_ + j * kRegister);
    }

    /// Of the first pass nothing is there yet.
    void begin() {
        line("test r15b, 1");
        line("jne .Lzero${{:uid}}");
        for_sums([&](int sum, int64_t at) { line("vmovap{} zmm{}, [rdx + {}]", suffix_, sum, at); });
        line("jmp .Lbegin${{:uid}}");
        line(".Lzero${{:uid}}:");
        for_sums([&](int sum, int64_t) { line("vpxord zmm{0}, zmm{0}, zmm{0}", sum); });
        line(".Lbegin${{:uid}}:");
        if (masked_)
            line("kmovw k1, ebx");
        for (int base = 1; base < bases_; ++base)
            if (base < 3)
                line("lea {}, [{}]", kLhs[base], kRows[base]);
            else
                line("lea {}, [r11 + r11]", kLhs[base]); // ten rows are twice five
        for (int base = 1; base < bases_; ++base)
            line("add {}, rdi", kLhs[base]);
    }

    std::string address(int row) const {
        if (own_last_ && row + 1 == rows_)
            return "rdi + r12";
        for (int base = 0; base < bases_; ++base) {
            if (row == kFirstRows[base])
                return kLhs[base];
            for (const int further : {1, 2, 4, 8})
                if (row == kFirstRows[base] + further)
                    return fmt::format("{} + {}*r8", kLhs[base], further);
        }
        LZ_CHECK(false, "a microkernel has no address for row " + std::to_string(row));
    }

    void step() {
        // A line of the next tile a step, again and again: the panels that stream through the cache would
        // push them out.
        int64_t ahead = kRegister;
        while (ahead < tile_bytes_)
            ahead *= 2;
        line("prefetcht0 [r14 + r15]");
        line("add r15d, {}", kRegister);
        line("and r15d, {}", ahead - 1);
        for (int j = 0; j < columns_; ++j) {
            line("prefetcht0 [rsi + rax + {}]", j * kRegister);
            line("vmovup{} zmm{}{}, [rsi + {}]", suffix_, kFirstColumn + j, masked_ ? " {k1} {z}" : "",
                 j * kRegister);
        }
        for (int i = 0; i < rows_; ++i) {
            line("vbroadcasts{} zmm{}, [{}]", suffix_, kElement, address(i));
            for (int j = 0; j < columns_; ++j)
                line("vfmadd231p{} zmm{}, zmm{}, zmm{}", suffix_, i * columns_ + j, kElement,
                     kFirstColumn + j);
        }
        for (int base = 0; base < bases_; ++base)
            line("add {}, r9", kLhs[base]);
        line("add rsi, r13");
    }

    const int rows_, columns_;
    const bool own_last_; ///< the last row may be the one before once more
    const bool masked_;
    const char suffix_;
    const int64_t tile_bytes_, row_bytes_;
    int bases_ = 1;
    std::string text_;
};

} // namespace

void emit_avx512_body(Builder &b, const PanelForm &form, int rows, int columns, const MicroArgs &args) {
    const auto in_bytes = [&](Value elements) { return b.mul(elements, b.i64(bytes_of(form.panel))); };
    const Value rhs_step = in_bytes(args.rhs_step);
    const Value mask = b.sub(b.shl(b.i64(1), args.width), b.i64(1));
    struct Input {
        const char *name;
        Value value;
    };
    const Input changed[] = {{"rdi", args.lhs},
                             {"rsi", args.rhs},
                             {"rcx", args.steps},
                             {"r15", b.zext(args.first, Elem::I64)},
                             {"rbx", mask}};
    const Input kept[] = {{"rdx", args.sums},
                          {"r8", in_bytes(args.lhs_row)},
                          {"r9", in_bytes(args.lhs_step)},
                          {"r12", in_bytes(args.lhs_last)},
                          {"r13", rhs_step},
                          {"r14", args.next_sums},
                          {"rax", b.mul(rhs_step, b.i64(kStepsAhead))}};
    std::string constraints;
    std::vector<Value> results, values;
    for (const Input &input : changed) {
        constraints += fmt::format("={{{}}},", input.name);
        results.push_back(input.value);
    }
    for (size_t i = 0; i < std::size(changed); ++i) {
        constraints += fmt::format("{},", i);
        values.push_back(changed[i].value);
    }
    for (const Input &input : kept) {
        constraints += fmt::format("{{{}}},", input.name);
        values.push_back(input.value);
    }
    constraints += "~{r10},~{r11},~{k1},";
    for (int zmm = 0; zmm <= kElement; ++zmm)
        constraints += fmt::format("~{{zmm{}}},", zmm);
    constraints += "~{memory},~{dirflag},~{fpsr},~{flags}";
    b.assembly(Writer(form, rows, columns).write(), constraints, results, values);
}

} // namespace lz::codegen
