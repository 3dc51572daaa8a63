#include "codegen/llvm/contraction/contraction.h"
#include "codegen/llvm/contraction/parts.h"
#include "ir/diagnostic.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lz::codegen {

namespace {

/// Whether the CPU has x86's products of pairs of i16.
bool is_x86(const ir::CpuIsa &isa) {
    return isa.triple.starts_with("x86_64");
}

/// Products of pairs of i16, each pair's sum in one lane of 32 bits, which wraps.
Value multiply_pairs(Builder &b, Value x, Value y) {
    auto &ir = static_cast<llvm::IRBuilder<> &>(b.ir());
    const int lanes = b.lanes(x);
    const auto halves = [&](Value v) { return ir.CreateBitCast(v, b.type(Elem::I16, 2 * lanes)); };
    const llvm::Intrinsic::ID intrinsic = lanes == 16  ? llvm::Intrinsic::x86_avx512_pmaddw_d_512
                                          : lanes == 8 ? llvm::Intrinsic::x86_avx2_pmadd_wd
                                                       : llvm::Intrinsic::x86_sse2_pmadd_wd;
    return ir.CreateIntrinsic(intrinsic, {}, {halves(x), halves(y)});
}

/// sum += x * y for registers of sums.
Value multiply_add(Builder &b, const PanelForm &form, Value x, Value y, Value sum) {
    if (form.pair == 2)
        return b.add(multiply_pairs(b, x, y), sum);
    return form.fma ? b.fma(x, y, sum) : b.add(b.mul(x, y), sum);
}

/// Whether the process has these functions for such tiles, which are those of `set`.
bool has_parts(const ir::ProductParts *parts, const ir::CpuIsa &isa, int mr,
               const ir::PartSet *set = ir::kAvx512Parts) {
    return parts && set && isa.vector_bytes == set->vector_bytes && mr == set->rows;
}

/// Elements along k that are multiplied at once, and by whom; null: by emitted code.
struct Several {
    int count = 1;
    const ir::ProductParts *parts = nullptr;
};
Several several(const ir::Contraction &c, const ir::CpuIsa &isa, int mr) {
    const int bytes = ir::size_of(c.dtype);
    if (isa.multiplies_tiles(c.dtype, c.accumulate, c.ascending))
        return {4 / bytes, nullptr};
    if (c.dtype == ir::DType::BF16 && isa.avx512_bf16 && has_parts(ir::kBf16Parts, isa, mr))
        return {2, ir::kBf16Parts};
    if (!is_x86(isa) || c.accumulate != ir::DType::I32 || bytes > 2)
        return {};
    if (c.dtype == ir::DType::I8 && isa.avx512_vnni && has_parts(ir::kInt8Parts, isa, mr))
        return {4, ir::kInt8Parts};
    if (isa.avx512)
        return {2, has_parts(ir::kI16PairParts, isa, mr) ? ir::kI16PairParts : nullptr};
    const bool there = isa.fma && has_parts(ir::kI16PairAvx2Parts, isa, mr, ir::kAvxParts);
    return {2, there ? ir::kI16PairAvx2Parts : nullptr};
}

/// What the process has for such tiles of floats, or null.
const ir::ProductParts *float_parts(const PanelForm &form, const ir::CpuIsa &isa) {
    const ir::PartSet *const set = isa.avx512 ? ir::kAvx512Parts : ir::kAvxParts;
    const bool fits = set && isa.fma && isa.vector_bytes == set->vector_bytes && form.mr == set->rows &&
                      form.nr == 2 * form.lanes && form.fma && !form.amx;
    return !fits ? nullptr : form.sum == Elem::F64 ? &set->f64 : &set->f32;
}

/// What packs elements of so many bytes from anywhere into panels of this form. Integers are moved as floats
/// are.
const char *pack_gathered(const PanelForm &form, const ir::CpuIsa &isa) {
    const int bytes = bytes_of(form.panel);
    for (const auto &[set, there] :
         {std::pair{ir::kAvx512Parts, isa.avx512}, std::pair{ir::kAvxParts, isa.fma && !isa.avx512}})
        if (set && there && isa.vector_bytes == set->vector_bytes && form.mr == set->rows &&
            form.nr == 2 * set->vector_bytes / bytes)
            return (bytes == 8 ? set->f64 : set->f32).pack_gathered_name;
    return bytes == 8 ? ir::kPackGathered64Symbol : ir::kPackGathered32Symbol;
}

} // namespace

PanelForm panel_form(const ir::Phase &phase, const EmitOptions &options) {
    const ir::Contraction &c = *phase.contraction;
    const auto [mr, nr] = std::pair(phase.cpu().mr, phase.cpu().nr);
    const ir::CpuIsa &isa = options.isa;
    PanelForm form;
    form.dtype = c.dtype;
    form.sum = ssa_elem(c.accumulate);
    form.amx = isa.multiplies_tiles(c.dtype, c.accumulate, c.ascending);
    const Several at_once = several(c, isa, mr);
    form.pair = at_once.count;
    form.emulate_amx = options.emulate_amx;
    form.rounds_bf16 = rounds_tile_sums(c, isa);
    form.panel = form.pair > 1 ? Elem::I32 : form.sum;
    form.lanes = std::max(1, isa.vector_bytes / bytes_of(form.sum));
    form.mr = mr;
    form.nr = nr;
    form.masks = isa.vector_bytes >= 32;
    form.fma = (isa.fma || c.ascending) && ir::is_float(c.accumulate);
    form.parts = form.pair > 1 ? at_once.parts : float_parts(form, isa);
    form.row_step = form.amx ? ir::kAmxRows : form.parts || mr <= 8 ? 1 : 2;
    form.pack_gathered_name = form.in_place() ? pack_gathered(form, isa) : nullptr;
    if (form.amx && (mr != 2 * ir::kAmxRows || nr != 2 * ir::kAmxColumns))
        throw ir::Failure(
            ir::ErrorKind::Compile,
            "this processor makes products of " + std::string(ir::name(c.dtype)) +
                " by tile registers, 32 x 32 at once, but the kernel's schedule has a microkernel of " +
                std::to_string(mr) + " x " + std::to_string(nr) + ": it was made for another processor");
    LZ_CHECK(mr > 0 && nr > 0 && nr % form.column_step() == 0 && mr % form.row_step == 0,
             "a register tile of " + std::to_string(mr) + " x " + std::to_string(nr) +
                 " is not made of registers of " + std::to_string(form.lanes) + " lanes");
    return form;
}

void fetch_ahead(Builder &b, Value address) {
    auto &ir = static_cast<llvm::IRBuilder<> &>(b.ir());
    const auto flag = [&](uint32_t value) { return ir.getInt32(value); };
    ir.CreateIntrinsic(llvm::Intrinsic::prefetch, {address->getType()},
                       {address, flag(0), flag(2), flag(1)}); // to read, second level, data
}

Value pairs_of(Builder &b, Value parts) {
    const int lanes = b.lanes(parts) * bytes_of(b.elem(parts)) / 4;
    return static_cast<llvm::IRBuilder<> &>(b.ir()).CreateBitCast(parts, b.type(Elem::I32, lanes));
}

Value join_parts(Builder &b, std::span<const Value> parts) {
    const int bits = 32 / static_cast<int>(parts.size());
    Value all = nullptr;
    for (size_t p = 0; p < parts.size(); ++p) {
        const Value wide = b.zext(parts[p], Elem::I32);
        const Value part = p == 0 ? wide : b.shl(wide, b.i32(bits * static_cast<int>(p), b.lanes(wide)));
        all = all ? b.bit_or(all, part) : part;
    }
    return all;
}

Value first_lanes(Builder &b, Value count, int lanes) {
    // Few bits: a register compares more of them at once.
    const Value there = b.smax(b.smin(count, b.i64(lanes)), b.i64(0));
    return b.compare(Pred::Slt, b.iota(Elem::I8, lanes), b.splat(b.truncate(there, Elem::I8), lanes));
}

bool rounds_tile_sums(const ir::Contraction &c, const ir::CpuIsa &isa) {
    return c.dtype == ir::DType::BF16 && isa.multiplies_tiles(c.dtype, c.accumulate, c.ascending) &&
           isa.avx512_bf16 && isa.vector_bytes == 64;
}
Value round_tile_sum(Builder &b, Value sums) {
    auto &ir = static_cast<llvm::IRBuilder<> &>(b.ir());
    return ir.CreateBitCast(ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {sums}),
                            b.type(Elem::I16, b.lanes(sums)));
}

Value round_sum(Builder &b, const PanelForm &form, Value sum, ir::DType dtype) {
    const int lanes = b.lanes(sum);
    switch (dtype) {
    case ir::DType::F16:
        return b.f32_to_half(sum);
    case ir::DType::BF16: {
        if (form.rounds_bf16)
            return round_tile_sum(b, sum);
        const Value bits = b.bitcast(sum, Elem::I32);
        const Value odd = b.bit_and(b.lshr(bits, b.i32(16, lanes)), b.i32(1, lanes));
        const Value up = b.lshr(b.add(b.add(bits, b.i32(0x7fff, lanes)), odd), b.i32(16, lanes));
        const Value nan = b.bit_or(b.lshr(bits, b.i32(16, lanes)), b.i32(0x40, lanes));
        return b.truncate(b.select(b.compare(Pred::Uno, sum, sum), nan, up), Elem::I16);
    }
    case ir::DType::Bool:
        return b.compare(Pred::Ne, sum, b.zero(Elem::I64, lanes));
    default:
        return b.elem(sum) == ssa_elem(dtype) ? sum : b.truncate(sum, ssa_elem(dtype));
    }
}

namespace {

Value load_columns(Builder &b, const PanelForm &form, Value rhs, int j, Value mask) {
    const Value address = b.element(form.panel, rhs, b.i64(j * form.lanes));
    const int align = bytes_of(form.panel);
    return mask ? b.masked_load(form.panel, address, mask, align)
                : b.load(form.panel, form.lanes, address, align);
}

/// Rows of lhs whose addresses a microkernel carries; the others are 1, 2, 4 or 8 rows further, which an
/// instruction of x86 adds by itself. Fourteen rows fit so into the registers for addresses.
constexpr int kBaseRows[] = {0, 3, 5, 10};
struct RowPlace {
    int base, shift; ///< 1 << shift rows behind the base; -1: none
};
RowPlace row_place(int row) {
    for (int base = 0; base < 4; ++base) {
        const int behind = row - kBaseRows[base];
        if (behind == 0)
            return {base, -1};
        for (int shift = 0; shift < 4; ++shift)
            if (behind == 1 << shift)
                return {base, shift};
    }
    LZ_CHECK(false, "a microkernel has no address for row " + std::to_string(row));
}

void emit_body(Builder &b, const PanelForm &form, int rows, int columns, const MicroArgs &args) {
    Value mask = nullptr;
    if (form.masks && columns < form.nr / form.lanes)
        mask = b.compare(Pred::Slt, b.iota(Elem::I32, form.lanes),
                         b.splat(b.truncate(args.width, Elem::I32), form.lanes));
    const auto sums_at = [&](Value base, int i, int j) {
        return b.element(form.sum, base, b.i64(i * form.nr + j * form.lanes));
    };
    // The last row may be the one before once more.
    const bool own_last = form.row_step > 1;
    const auto in_bytes = [&](Value elements) { return b.mul(elements, b.i64(bytes_of(form.panel))); };
    const Value row_bytes = in_bytes(args.lhs_row), last_bytes = in_bytes(args.lhs_last),
                step_bytes = in_bytes(args.lhs_step);
    int bases = 1;
    for (int i = 0; i < rows - own_last; ++i)
        bases = std::max(bases, row_place(i).base + 1);

    // Of the first pass nothing is there yet: no branch and no phi of every sum, which take long to compile.
    const Value there = b.splat(b.bit_not(args.first), form.lanes);
    std::vector<Value> carried;
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) {
            const Value at = sums_at(args.sums, i, j);
            carried.push_back(form.masks ? b.masked_load(form.sum, at, there, 64)
                                         : b.select(args.first, b.zero(form.sum, form.lanes),
                                                    b.load(form.sum, form.lanes, at, 64)));
        }
    const size_t tile = carried.size();
    for (int base = 0; base < bases; ++base)
        carried.push_back(b.element(Elem::I8, args.lhs, b.mul(row_bytes, b.i64(kBaseRows[base]))));
    const size_t rhs = carried.size();
    carried.push_back(args.rhs);

    int64_t ahead = 64;
    while (ahead < int64_t{form.mr} * form.nr * bytes_of(form.sum))
        ahead *= 2;
    const Value rhs_ahead = b.mul(args.rhs_step, b.i64(ir::kStepsAhead));
    const auto after =
        b.loop(b.i64(0), args.steps, b.i64(1), carried, [&](Value step, std::span<const Value> in) {
            std::vector<Value> out(in.begin(), in.end());
            // A line a step, again and again: the panels that stream through the cache would push them out.
            const Value line = b.bit_and(b.shl(step, b.i64(6)), b.i64(ahead - 1));
            b.prefetch(b.element(Elem::I8, args.next_sums, line));
            for (int j = 0; j < columns; ++j)
                b.prefetch(b.element(form.panel, in[rhs], b.add(rhs_ahead, b.i64(j * form.lanes))));
            std::vector<Value> y;
            for (int j = 0; j < columns; ++j)
                y.push_back(load_columns(b, form, in[rhs], j, mask));
            for (int i = 0; i < rows; ++i) {
                const auto [base, shift] = row_place(i);
                Value address = in[tile + static_cast<size_t>(i + 1 == rows && own_last ? 0 : base)];
                if (i + 1 == rows && own_last)
                    address = b.element(Elem::I8, address, last_bytes);
                else if (shift >= 0)
                    address = b.element(Elem::I8, address, b.shl(row_bytes, b.i64(shift)));
                const Value x = b.splat(b.load(form.panel, 1, address, bytes_of(form.panel)), form.lanes);
                for (int j = 0; j < columns; ++j) {
                    Value &sum = out[static_cast<size_t>(i * columns + j)];
                    sum = multiply_add(b, form, x, y[static_cast<size_t>(j)], sum);
                }
            }
            for (size_t base = tile; base < rhs; ++base)
                out[base] = b.element(Elem::I8, in[base], step_bytes);
            out[rhs] = b.element(form.panel, in[rhs], args.rhs_step);
            return out;
        });
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j)
            b.store(after[static_cast<size_t>(i * columns + j)], sums_at(args.sums, i, j), 64);
}

} // namespace

void emit_microkernel(Builder &b, const PanelForm &form, int rows, int columns, const MicroArgs &a) {
    const Value operands[] = {a.lhs,      a.rhs,   a.sums,      a.steps,    a.lhs_row, a.lhs_step,
                              a.rhs_step, a.first, a.next_sums, a.lhs_last, a.width};
    auto *function = b.outlined("micro", operands, [&](std::span<const Value> p) {
        const auto emit = form.amx ? emit_amx_body : emit_body;
        emit(b, form, rows, columns,
             {.lhs = p[0],
              .lhs_row = p[4],
              .lhs_step = p[5],
              .lhs_last = p[9],
              .rhs = p[1],
              .rhs_step = p[6],
              .steps = p[3],
              .sums = p[2],
              .next_sums = p[8],
              .width = p[10],
              .first = p[7]});
    });
    b.call(function, operands);
}

} // namespace lz::codegen
