#pragma once
/// LLVM's IRBuilder behind a small face, so that emission code neither includes nor compiles LLVM's headers.
///
/// A Value is a scalar or a vector; operations take operands of one type and work on both forms alike. One
/// Builder writes one module. Not thread-safe; each compile has its own.

#include "ir/types/dtype.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llvm {
class BasicBlock;
class Function;
class IRBuilderBase;
class LLVMContext;
class Module;
class Type;
class Value;
} // namespace llvm

namespace lz::codegen {

using Value = llvm::Value *;
using CodeBlock = llvm::BasicBlock *;

/// Element types of SSA values. f16 and bf16 are held as their bits (I16), bool as I1.
enum class Elem : uint8_t { I1, I8, I16, I32, I64, F32, F64, Ptr };

Elem ssa_elem(ir::DType t);
/// As in memory: bool is I8.
Elem storage_elem(ir::DType t);
int bytes_of(Elem e); ///< I1 counts as one byte

enum class Pred : uint8_t {
    Eq,
    Ne,
    Slt,
    Sle,
    Sgt,
    Sge,
    Ult,
    Ule,
    Ugt,
    Uge,
    Oeq,
    Une,
    Olt,
    Ole,
    Ogt,
    Oge,
    Uno,
    Ord
};

class Builder {
public:
    explicit Builder(std::string_view module_name);
    ~Builder();
    Builder(const Builder &) = delete;
    Builder &operator=(const Builder &) = delete;

    llvm::Module &module() { return *module_; }
    llvm::LLVMContext &context() { return *context_; }
    /// For what this face does not offer.
    llvm::IRBuilderBase &ir() { return *ir_; }
    /// Gives up the module; the Builder must outlive it.
    std::unique_ptr<llvm::Module> take_module();

    /// From here on products and sums may be contracted (LAZULI_FAST_MATH).
    void allow_contraction();

    // --- functions and control flow
    /// Opens an external function with the type of ir::PhaseEntry and an entry block; returns its four
    /// parameters.
    std::vector<Value> begin_entry(const std::string &name, std::string_view features, int vector_bytes);
    /// Closes it: `ret void`.
    void end_entry();
    /// Emits a function of its own, which is never inlined, for values of the types of `like`, by `body` over
    /// its parameters. What is open stays open. Code inside is optimised without regard to its callers.
    llvm::Function *outlined(const char *name, std::span<const Value> like,
                             const std::function<void(std::span<const Value>)> &body);
    void call(llvm::Function *function, std::span<const Value> operands);
    /// Calls a function of the process by its name, which the loader knows (loader.cpp).
    void call(const char *name, std::span<const Value> operands);
    CodeBlock block(const char *name = "");
    CodeBlock current() const;
    void set_block(CodeBlock block);
    void jump(CodeBlock to);
    /// `likely`: 1 yes, -1 no, 0 unknown.
    void branch(Value condition, CodeBlock yes, CodeBlock no, int likely = 0);
    Value phi(Value like, Value from, CodeBlock block);
    Value phi_of(Elem e, int lanes);
    void add_incoming(Value phi, Value value, CodeBlock block);
    /// Runs `body` with the insertion point at the end of the function's entry block, where everything that
    /// holds for the whole call is put.
    Value at_entry(const std::function<Value()> &body);
    /// Stack memory of the function, 64-byte aligned.
    Value stack(Elem e, int64_t count);

    /// if (condition) then(): values do not leave it.
    void if_then(Value condition, const std::function<void()> &then, int likely = 0);

    using LoopBody = std::function<std::vector<Value>(Value index, std::span<const Value> carried)>;
    /// for (i = lo; i < hi; i += step): lo and hi are i64, `step` positive. Returns the carried values after
    /// the last iteration. `preheader` runs once, after the check that there is an iteration.
    std::vector<Value> loop(Value lo, Value hi, Value step, std::vector<Value> carried, const LoopBody &body,
                            const std::function<void()> &preheader = {});

    // --- types and constants
    Elem elem(Value v) const;
    int lanes(Value v) const; ///< 1 for scalars
    bool is_float(Value v) const;
    /// `bits` in storage format, zero extended, as a scalar or a splat.
    Value constant(Elem e, uint64_t bits, int lanes = 1);
    Value i64(int64_t v, int lanes = 1) { return constant(Elem::I64, static_cast<uint64_t>(v), lanes); }
    Value i32(int32_t v, int lanes = 1) { return constant(Elem::I32, static_cast<uint32_t>(v), lanes); }
    Value i1(bool v, int lanes = 1) { return constant(Elem::I1, v ? 1 : 0, lanes); }
    Value f32(float v, int lanes = 1);
    Value f64(double v, int lanes = 1);
    Value zero(Elem e, int lanes = 1) { return constant(e, 0, lanes); }
    Value iota(Elem e, int lanes); ///< 0, 1, 2, ...
    Value splat(Value scalar, int lanes);
    bool is_constant(Value v) const;
    bool is_false(Value condition) const; ///< a constant, in all lanes

    // --- arithmetic: integers wrap; floats round each by itself
    Value add(Value x, Value y);
    Value sub(Value x, Value y);
    Value mul(Value x, Value y);
    Value fdiv(Value x, Value y);
    Value sdiv(Value x, Value y);
    Value udiv(Value x, Value y);
    Value urem(Value x, Value y);
    Value fma(Value x, Value y, Value z);
    Value scale_512(Value x, Value y); ///< x * 2^floor(y) in vectors of 64 bytes: needs AVX-512
    Value neg(Value x);
    Value abs(Value x);
    Value sqrt(Value x);
    Value floor(Value x);
    Value ceil(Value x);
    Value trunc(Value x);
    Value rint(Value x);
    Value smin(Value x, Value y);
    Value smax(Value x, Value y);
    Value fminimum(Value x, Value y); ///< IEEE 754-2019's: NaN if either is, and -0 is less than +0
    Value fmaximum(Value x, Value y); ///< "
    Value umin(Value x, Value y);
    Value umax(Value x, Value y);
    Value bit_and(Value x, Value y);
    Value bit_or(Value x, Value y);
    Value bit_xor(Value x, Value y);
    Value bit_not(Value x);
    Value shl(Value x, Value y);  ///< amounts must be less than the width
    Value ashr(Value x, Value y); ///< "
    Value lshr(Value x, Value y); ///< "
    Value count_trailing_zeros(Value x);
    Value compare(Pred p, Value x, Value y);
    Value select(Value condition, Value x, Value y);

    // --- conversions
    Value zext(Value x, Elem to);
    Value sext(Value x, Elem to);
    Value truncate(Value x, Elem to);
    Value sitofp(Value x, Elem to);
    Value fptosi(Value x, Elem to);  ///< out of range is poison
    Value fpcast(Value x, Elem to);  ///< between F32 and F64
    Value bitcast(Value x, Elem to); ///< same width
    Value half_to_f32(Value bits);   ///< through LLVM's half: needs hardware
    Value f32_to_half(Value x);
    Value i64_halves(Value x); ///< n I64 as 2 n I32, each one's lower half first

    // --- vectors
    Value extract(Value v, int lane);
    Value extract(Value v, Value lane);
    Value insert(Value v, Value scalar, int lane);
    Value shuffle(Value x, Value y, std::span<const int> lanes);
    Value reverse(Value v);                     ///< the last lane first
    Value slice(Value v, int first, int count); ///< a scalar when count is 1
    Value concat(Value x, Value y);
    Value any(Value mask);       ///< i1; a scalar is itself
    Value mask_bits(Value mask); ///< <n x i1> to an integer as i64, lane 0 lowest

    // --- memory; `align` in bytes
    Value element(Elem e, Value base, Value index); ///< address base + index elements; index may be a vector
    Value load(Elem e, int lanes, Value address, int align);
    void store(Value v, Value address, int align, bool nontemporal = false);
    Value masked_load(Elem e, Value address, Value mask, int align); ///< 0 where false
    void masked_store(Value v, Value address, Value mask, int align);
    Value gather(Elem e, Value addresses, Value mask, int align);
    void scatter(Value v, Value addresses, Value mask, int align);
    Value pointer_to_int(Value address);
    /// Into the first-level cache, or the second-level one only.
    void prefetch(Value address, bool near = true);
    void store_fence(); ///< orders non-temporal stores before what follows
    Value compare_exchange_i32(Value address, Value expected,
                               Value desired); ///< i1: whether it was exchanged

    llvm::Type *type(Elem e, int lanes = 1);

private:
    Value intrinsic(unsigned id, std::span<const Value> operands);
    Value extreme(bool largest, Value x, Value y);

    std::unique_ptr<llvm::LLVMContext> context_;
    std::unique_ptr<llvm::Module> module_;
    struct DeleteBuilder { ///< LLVM's base class has no virtual destructor
        void operator()(llvm::IRBuilderBase *builder) const;
    };
    std::unique_ptr<llvm::IRBuilderBase, DeleteBuilder> ir_;
    llvm::Function *function_ = nullptr;
    CodeBlock entry_ = nullptr;
};

} // namespace lz::codegen
