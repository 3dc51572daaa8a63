// Products of bf16, i8 and u8 by tile registers: their instructions, the microkernel and the panels of lhs.
// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS and TDPBSSD; Optimization
// Reference Manual, chapter 20.
#include "codegen/llvm/contraction/parts.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <vector>

namespace lz::codegen {

// --- instructions

void TileUnit::emit(unsigned intrinsic, const char *function, std::initializer_list<int> tiles,
                    std::initializer_list<Value> operands) {
    std::vector<Value> all;
    if (emulated_) {
        for (const int tile : tiles)
            all.push_back(b_.i64(tile));
        all.insert(all.end(), operands);
        b_.call(function, all);
        return;
    }
    auto &ir = static_cast<llvm::IRBuilder<> &>(b_.ir());
    for (const int tile : tiles)
        all.push_back(ir.getInt8(static_cast<uint8_t>(tile)));
    all.insert(all.end(), operands);
    ir.CreateIntrinsic(static_cast<llvm::Intrinsic::ID>(intrinsic), {}, all);
}

void TileUnit::configure() {
    // Palette 1; from byte 16 on bytes of a row, from 48 on rows.
    constexpr uint64_t kConfig[8] = {1, 0, 0x0040'0040'0040'0040, 0x0040'0040'0040'0040,
                                     0, 0, 0x1010'1010'1010'1010, 0};
    const Value memory = b_.stack(Elem::I64, 8);
    for (int i = 0; i < 8; ++i)
        b_.store(b_.constant(Elem::I64, kConfig[i]), b_.element(Elem::I64, memory, b_.i64(i)), 8);
    emit(llvm::Intrinsic::x86_ldtilecfg, "lz_test_tile_configure", {}, {memory});
}
void TileUnit::release() {
    emit(llvm::Intrinsic::x86_tilerelease, "lz_test_tile_release", {});
}
void TileUnit::zero(int tile) {
    emit(llvm::Intrinsic::x86_tilezero, "lz_test_tile_zero", {tile});
}
void TileUnit::load(int tile, Value address, Value row_bytes) {
    emit(llvm::Intrinsic::x86_tileloadd64, "lz_test_tile_load", {tile}, {address, row_bytes});
}
void TileUnit::store(int tile, Value address, Value row_bytes) {
    emit(llvm::Intrinsic::x86_tilestored64, "lz_test_tile_store", {tile}, {address, row_bytes});
}
void TileUnit::dot(ir::DType dtype, int sum, int x, int y) {
    if (dtype == ir::DType::BF16)
        emit(llvm::Intrinsic::x86_tdpbf16ps, "lz_test_tile_dot_bf16", {sum, x, y});
    else if (dtype == ir::DType::I8)
        emit(llvm::Intrinsic::x86_tdpbssd, "lz_test_tile_dot_i8", {sum, x, y});
    else
        emit(llvm::Intrinsic::x86_tdpbuud, "lz_test_tile_dot_u8", {sum, x, y});
}

// --- the microkernel: tiles 0 to 3 are sums, 4 and 5 rows of lhs, 6 and 7 columns of rhs

void emit_amx_body(Builder &b, const PanelForm &form, int rows, int columns, const MicroArgs &args) {
    TileUnit tiles(b, form.emulate_amx);
    const int high = rows / ir::kAmxRows;
    const Value sum_row = b.i64(int64_t{form.nr} * bytes_of(form.sum));
    const Value element = b.i64(ir::size_of(form.dtype));
    const Value lhs_row = b.mul(args.lhs_row, element), lhs_step = b.mul(args.lhs_step, element);
    const Value rhs_row = b.i64(int64_t{form.nr} * bytes_of(form.panel));
    const Value rhs_step = b.i64(int64_t{form.nr} * bytes_of(form.panel) * form.depth_step() / form.pair);
    const Value lower = b.mul(lhs_row, b.i64(ir::kAmxRows));
    const auto bytes = [&](Value base, Value offset) { return b.element(Elem::I8, base, offset); };
    const auto for_sums = [&](const std::function<void(int tile, Value address)> &each) {
        for (int i = 0; i < high; ++i)
            for (int j = 0; j < columns; ++j)
                each(2 * i + j,
                     b.element(form.sum, args.sums, b.i64(i * ir::kAmxRows * form.nr + j * ir::kAmxColumns)));
    };

    const CodeBlock fresh = b.block("fresh"), again = b.block("sums"), ready = b.block("ready");
    b.branch(args.first, fresh, again);
    b.set_block(fresh);
    for_sums([&](int tile, Value) { tiles.zero(tile); });
    b.jump(ready);
    b.set_block(again);
    for_sums([&](int tile, Value address) { tiles.load(tile, address, sum_row); });
    b.jump(ready);
    b.set_block(ready);
    b.loop(b.i64(0), args.steps, b.i64(1), {args.lhs, args.rhs}, [&](Value, std::span<const Value> in) {
        for (int j = 0; j < columns; ++j)
            tiles.load(6 + j, b.element(form.sum, in[1], b.i64(j * ir::kAmxColumns)), rhs_row);
        for (int i = 0; i < high; ++i) {
            tiles.load(4 + i, i == 0 ? in[0] : bytes(in[0], lower), lhs_row);
            for (int j = 0; j < columns; ++j)
                tiles.dot(form.dtype, 2 * i + j, 4 + i, 6 + j);
        }
        return std::vector<Value>{bytes(in[0], lhs_step), bytes(in[1], rhs_step)};
    });
    for_sums([&](int tile, Value address) { tiles.store(tile, address, sum_row); });
}

// --- panels of lhs

namespace {

class Packer {
public:
    Packer(Builder &b, const PanelForm &form, const PackArgs &args)
        : b_(b), form_(form), args_(args), row_(form.depth_step()), bytes_(ir::size_of(form.dtype)),
          depth_(b.mul(b.udiv(b.add(args.depth, b.i64(row_ - 1)), b.i64(row_)), b.i64(row_))) {}

    void emit() {
        if (!args_.stride_k)
            rows();
        else if (!args_.stride_i)
            squares();
        else
            one_by_one();
    }

private:
    template <class Body>
    void loop(Value hi, int64_t step, Body body) {
        b_.loop(b_.i64(0), hi, b_.i64(step), {}, [&](Value index, std::span<const Value>) {
            body(index);
            return std::vector<Value>{};
        });
    }
    Value from(Value i, Value k) {
        const auto term = [&](Value x, Value stride) { return stride ? b_.mul(x, stride) : x; };
        return b_.element(form_.part(), args_.from, b_.add(term(i, args_.stride_i), term(k, args_.stride_k)));
    }
    Value to(Value i, Value k) {
        const Value row = b_.add(b_.mul(b_.udiv(k, b_.i64(row_)), b_.i64(form_.mr)), i);
        return b_.element(form_.part(), args_.to,
                          b_.add(b_.mul(row, b_.i64(row_)), b_.urem(k, b_.i64(row_))));
    }

    /// Rows lie contiguous along k.
    void rows() {
        const int lanes = std::min(form_.pair * form_.lanes, row_);
        loop(args_.count, 1, [&](Value i) {
            loop(depth_, lanes, [&](Value k) {
                const Value mask = first_lanes(b_, b_.sub(args_.depth, k), lanes);
                b_.store(b_.masked_load(form_.part(), from(i, k), mask, bytes_), to(i, k), bytes_ * lanes);
            });
        });
    }
    /// Rows lie side by side: squares of what one lane of 32 bits has are transposed.
    void squares() {
        const int lanes = form_.lanes;
        loop(args_.count, lanes, [&](Value i) {
            const Value there = first_lanes(b_, b_.sub(args_.count, i), lanes);
            loop(depth_, form_.pair * lanes, [&](Value k) {
                std::vector<Value> square;
                for (int l = 0; l < lanes; ++l) {
                    std::vector<Value> parts;
                    for (int p = 0; p < form_.pair; ++p) {
                        const Value at = b_.add(k, b_.i64(l * form_.pair + p));
                        const Value live = b_.splat(b_.compare(Pred::Slt, at, args_.depth), lanes);
                        parts.push_back(
                            b_.masked_load(form_.part(), from(i, at), b_.bit_and(there, live), bytes_));
                    }
                    square.push_back(join_parts(b_, parts));
                }
                transpose(b_, square);
                for (int r = 0; r < lanes; ++r)
                    b_.store(square[static_cast<size_t>(r)], to(b_.add(i, b_.i64(r)), k), 4 * lanes);
            });
        });
    }
    void one_by_one() {
        loop(depth_, 1, [&](Value k) {
            const Value live = b_.compare(Pred::Slt, k, args_.depth);
            const Value there = b_.select(live, k, b_.i64(0));
            loop(args_.count, 1, [&](Value i) {
                const Value x = b_.load(form_.part(), 1, from(i, there), bytes_);
                b_.store(b_.select(live, x, b_.zero(form_.part())), to(i, k), bytes_);
            });
        });
    }

    Builder &b_;
    const PanelForm &form_;
    PackArgs args_;
    int row_, bytes_; ///< elements of k in a row of a tile; of one of them
    Value depth_;     ///< rounded up
};

} // namespace

void emit_pack_amx(Builder &b, const PanelForm &form, const PackArgs &a) {
    outline_pack(b, "pack_amx", a, nullptr,
                 [&](const PackArgs &inside, Value) { Packer(b, form, inside).emit(); });
}

} // namespace lz::codegen
