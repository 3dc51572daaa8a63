// What kernels compute: arithmetic, vectors, memory. Functions, blocks and types are in builder.cpp.
#include "codegen/llvm/builder.h"

#include "ir/diagnostic.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

#include <utility>

namespace lz::codegen {

using namespace llvm;
using ir::DType;

// --- arithmetic. Neutral integers are left out: LLVM drops them anyway, but a dump is read.

static bool is_number(Value v, uint64_t number) {
    const auto *c = dyn_cast<ConstantInt>(v);
    return c && c->getValue() == number;
}

Value Builder::add(Value x, Value y) {
    if (is_float(x))
        return ir_->CreateFAdd(x, y);
    return is_number(x, 0) ? y : is_number(y, 0) ? x : ir_->CreateAdd(x, y);
}
Value Builder::sub(Value x, Value y) {
    if (is_float(x))
        return ir_->CreateFSub(x, y);
    return is_number(y, 0) ? x : ir_->CreateSub(x, y);
}
Value Builder::mul(Value x, Value y) {
    if (is_float(x))
        return ir_->CreateFMul(x, y);
    return is_number(x, 1) ? y : is_number(y, 1) ? x : ir_->CreateMul(x, y);
}
Value Builder::fdiv(Value x, Value y) {
    return ir_->CreateFDiv(x, y);
}
Value Builder::sdiv(Value x, Value y) {
    return ir_->CreateSDiv(x, y);
}
Value Builder::udiv(Value x, Value y) {
    return ir_->CreateUDiv(x, y);
}
Value Builder::urem(Value x, Value y) {
    return ir_->CreateURem(x, y);
}

Value Builder::intrinsic(unsigned id, std::span<const Value> operands) {
    return ir_->CreateIntrinsic(static_cast<Intrinsic::ID>(id), {operands[0]->getType()},
                                ArrayRef<Value>(operands.data(), operands.size()));
}

Value Builder::fma(Value x, Value y, Value z) {
    return intrinsic(Intrinsic::fma, std::array{x, y, z});
}
Value Builder::scale_512(Value x, Value y) {
    const bool wide = elem(x) == Elem::F64;
    Value every = wide ? static_cast<Value>(ir_->getInt8(0xff)) : ir_->getInt16(0xffff);
    constexpr uint32_t kCurrentRounding = 4;
    return ir_->CreateIntrinsic(x->getType(),
                                wide ? Intrinsic::x86_avx512_mask_scalef_pd_512
                                     : Intrinsic::x86_avx512_mask_scalef_ps_512,
                                {x, y, x, every, ir_->getInt32(kCurrentRounding)});
}
Value Builder::neg(Value x) {
    return is_float(x) ? ir_->CreateFNeg(x) : ir_->CreateNeg(x);
}
Value Builder::abs(Value x) {
    return is_float(x) ? intrinsic(Intrinsic::fabs, std::array{x})
                       : ir_->CreateBinaryIntrinsic(Intrinsic::abs, x, ir_->getFalse());
}
Value Builder::sqrt(Value x) {
    return intrinsic(Intrinsic::sqrt, std::array{x});
}
Value Builder::floor(Value x) {
    return intrinsic(Intrinsic::floor, std::array{x});
}
Value Builder::ceil(Value x) {
    return intrinsic(Intrinsic::ceil, std::array{x});
}
Value Builder::trunc(Value x) {
    return intrinsic(Intrinsic::trunc, std::array{x});
}
Value Builder::rint(Value x) {
    return intrinsic(Intrinsic::rint, std::array{x});
}
Value Builder::smin(Value x, Value y) {
    return intrinsic(Intrinsic::smin, std::array{x, y});
}
Value Builder::smax(Value x, Value y) {
    return intrinsic(Intrinsic::smax, std::array{x, y});
}
Value Builder::fminimum(Value x, Value y) {
    return extreme(false, x, y);
}
Value Builder::fmaximum(Value x, Value y) {
    return extreme(true, x, y);
}
/// vminps and vmaxps give their second operand where one is NaN, and of equals: asked both ways round, they
/// differ in these alone. Of two zeros, and of a number and NaN, the bits of both together are -0, and NaN.
Value Builder::extreme(bool largest, Value x, Value y) {
    const auto ordered = [&](Value a, Value b) {
        return ir_->CreateSelect(largest ? ir_->CreateFCmpOGT(a, b) : ir_->CreateFCmpOLT(a, b), a, b);
    };
    const APFloat *limit = nullptr;
    if (PatternMatch::match(x, PatternMatch::m_APFloat(limit)))
        std::swap(x, y);
    if (PatternMatch::match(y, PatternMatch::m_APFloat(limit)) && !limit->isNaN()) {
        Value second = ordered(y, x); // NaN, and of zeros x
        if (largest && limit->isPosZero())
            return abs(second);
        return !largest && limit->isNegZero() ? neg(abs(second)) : second;
    }
    const Elem e = elem(x), bits = e == Elem::F32 ? Elem::I32 : Elem::I64;
    Value a = bitcast(ordered(x, y), bits), b = bitcast(ordered(y, x), bits);
    Value either = bit_or(a, b);
    if (largest) {
        const uint64_t sign = uint64_t{1} << (e == Elem::F32 ? 31 : 63);
        either = bit_or(bit_and(a, b), bit_and(either, constant(bits, ~sign & (2 * sign - 1), lanes(x))));
    }
    return bitcast(either, e);
}
Value Builder::umin(Value x, Value y) {
    return intrinsic(Intrinsic::umin, std::array{x, y});
}
Value Builder::umax(Value x, Value y) {
    return intrinsic(Intrinsic::umax, std::array{x, y});
}
Value Builder::bit_and(Value x, Value y) {
    return ir_->CreateAnd(x, y);
}
Value Builder::bit_or(Value x, Value y) {
    return ir_->CreateOr(x, y);
}
Value Builder::bit_xor(Value x, Value y) {
    return ir_->CreateXor(x, y);
}
Value Builder::bit_not(Value x) {
    if (const auto *made = dyn_cast<CmpInst>(x)) // one instruction, which nothing has to combine
        return ir_->CreateCmp(made->getInversePredicate(), made->getOperand(0), made->getOperand(1));
    return ir_->CreateNot(x);
}
Value Builder::shl(Value x, Value y) {
    return ir_->CreateShl(x, y);
}
Value Builder::ashr(Value x, Value y) {
    return ir_->CreateAShr(x, y);
}
Value Builder::lshr(Value x, Value y) {
    return ir_->CreateLShr(x, y);
}
Value Builder::count_trailing_zeros(Value x) {
    return ir_->CreateBinaryIntrinsic(Intrinsic::cttz, x, ir_->getFalse());
}

Value Builder::compare(Pred p, Value x, Value y) {
    static constexpr CmpInst::Predicate table[] = {
        CmpInst::ICMP_EQ,  CmpInst::ICMP_NE,  CmpInst::ICMP_SLT, CmpInst::ICMP_SLE, CmpInst::ICMP_SGT,
        CmpInst::ICMP_SGE, CmpInst::ICMP_ULT, CmpInst::ICMP_ULE, CmpInst::ICMP_UGT, CmpInst::ICMP_UGE,
        CmpInst::FCMP_OEQ, CmpInst::FCMP_UNE, CmpInst::FCMP_OLT, CmpInst::FCMP_OLE, CmpInst::FCMP_OGT,
        CmpInst::FCMP_OGE, CmpInst::FCMP_UNO, CmpInst::FCMP_ORD};
    return ir_->CreateCmp(table[static_cast<int>(p)], x, y);
}

Value Builder::select(Value condition, Value x, Value y) {
    return ir_->CreateSelect(condition, x, y);
}

// --- conversions

Value Builder::zext(Value x, Elem to) {
    return ir_->CreateZExt(x, type(to, lanes(x)));
}
Value Builder::sext(Value x, Elem to) {
    return ir_->CreateSExt(x, type(to, lanes(x)));
}
Value Builder::truncate(Value x, Elem to) {
    return ir_->CreateTrunc(x, type(to, lanes(x)));
}
Value Builder::sitofp(Value x, Elem to) {
    return ir_->CreateSIToFP(x, type(to, lanes(x)));
}
Value Builder::fptosi(Value x, Elem to) {
    return ir_->CreateFPToSI(x, type(to, lanes(x)));
}
// Without fast-math's flags: LLVM would make one conversion of two, from double to half, which it has no
// instructions for.
Value Builder::fpcast(Value x, Elem to) {
    IRBuilderBase::FastMathFlagGuard guard(*ir_);
    ir_->clearFastMathFlags();
    return ir_->CreateFPCast(x, type(to, lanes(x)));
}
Value Builder::bitcast(Value x, Elem to) {
    return ir_->CreateBitCast(x, type(to, lanes(x)));
}

Value Builder::half_to_f32(Value bits) {
    const int n = lanes(bits);
    Type *half = Type::getHalfTy(*context_);
    Type *as = n == 1 ? half : FixedVectorType::get(half, static_cast<unsigned>(n));
    return ir_->CreateFPExt(ir_->CreateBitCast(bits, as), type(Elem::F32, n));
}

Value Builder::f32_to_half(Value x) {
    const int n = lanes(x);
    Type *half = Type::getHalfTy(*context_);
    Type *as = n == 1 ? half : FixedVectorType::get(half, static_cast<unsigned>(n));
    IRBuilderBase::FastMathFlagGuard guard(*ir_); // as in fpcast
    ir_->clearFastMathFlags();
    return ir_->CreateBitCast(ir_->CreateFPTrunc(x, as), type(Elem::I16, n));
}

Value Builder::i64_halves(Value x) {
    return ir_->CreateBitCast(x, type(Elem::I32, 2 * lanes(x)));
}

// --- vectors

Value Builder::extract(Value v, int lane) {
    return lanes(v) == 1 ? v : ir_->CreateExtractElement(v, static_cast<uint64_t>(lane));
}
Value Builder::extract(Value v, Value lane) {
    return lanes(v) == 1 ? v : ir_->CreateExtractElement(v, lane);
}
Value Builder::insert(Value v, Value scalar, int lane) {
    return lanes(v) == 1 ? scalar : ir_->CreateInsertElement(v, scalar, static_cast<uint64_t>(lane));
}
Value Builder::shuffle(Value x, Value y, std::span<const int> lanes) {
    return ir_->CreateShuffleVector(x, y, ArrayRef<int>(lanes.data(), lanes.size()));
}

Value Builder::reverse(Value v) {
    SmallVector<int, 64> picks;
    for (int i = lanes(v); i-- > 0;)
        picks.push_back(i);
    return ir_->CreateShuffleVector(v, picks);
}

Value Builder::slice(Value v, int first, int count) {
    if (count == lanes(v))
        return v;
    if (count == 1)
        return extract(v, first);
    SmallVector<int, 64> picks;
    for (int i = 0; i < count; ++i)
        picks.push_back(first + i);
    return ir_->CreateShuffleVector(v, picks);
}

Value Builder::concat(Value x, Value y) {
    SmallVector<int, 64> picks;
    for (int i = 0; i < 2 * lanes(x); ++i)
        picks.push_back(i);
    return ir_->CreateShuffleVector(x, y, picks);
}

Value Builder::any(Value mask) {
    return lanes(mask) == 1 ? mask : ir_->CreateOrReduce(mask);
}

Value Builder::mask_bits(Value mask) {
    const int n = lanes(mask);
    Type *wide = Type::getInt64Ty(*context_);
    if (n == 1)
        return ir_->CreateZExt(mask, wide);
    return ir_->CreateZExt(ir_->CreateBitCast(mask, Type::getIntNTy(*context_, static_cast<unsigned>(n))),
                           wide);
}

// --- memory

Value Builder::element(Elem e, Value base, Value index) {
    return is_number(index, 0) ? base : ir_->CreateGEP(type(e == Elem::I1 ? Elem::I8 : e), base, index);
}

Value Builder::load(Elem e, int lanes, Value address, int align) {
    return ir_->CreateAlignedLoad(type(e, lanes), address, Align(static_cast<uint64_t>(align)));
}

void Builder::store(Value v, Value address, int align, bool nontemporal) {
    auto *s = ir_->CreateAlignedStore(v, address, Align(static_cast<uint64_t>(align)));
    if (nontemporal)
        s->setMetadata(LLVMContext::MD_nontemporal,
                       MDNode::get(*context_, ConstantAsMetadata::get(ir_->getInt32(1))));
}

Value Builder::masked_load(Elem e, Value address, Value mask, int align) {
    Type *t = type(e, lanes(mask));
    return ir_->CreateMaskedLoad(t, address, Align(static_cast<uint64_t>(align)), mask,
                                 Constant::getNullValue(t));
}

void Builder::masked_store(Value v, Value address, Value mask, int align) {
    ir_->CreateMaskedStore(v, address, Align(static_cast<uint64_t>(align)), mask);
}

Value Builder::gather(Elem e, Value addresses, Value mask, int align) {
    Type *t = type(e, lanes(addresses));
    return ir_->CreateMaskedGather(t, addresses, Align(static_cast<uint64_t>(align)), mask,
                                   Constant::getNullValue(t));
}

void Builder::scatter(Value v, Value addresses, Value mask, int align) {
    ir_->CreateMaskedScatter(v, addresses, Align(static_cast<uint64_t>(align)), mask);
}

Value Builder::pointer_to_int(Value address) {
    return ir_->CreatePtrToInt(address, type(Elem::I64, lanes(address)));
}

void Builder::prefetch(Value address, bool near) {
    ir_->CreateIntrinsic(Intrinsic::prefetch, {address->getType()},
                         {address, ir_->getInt32(0), ir_->getInt32(near ? 3 : 2), ir_->getInt32(1)});
}

void Builder::store_fence() {
#if defined(__x86_64__) || defined(__i386__)
    ir_->CreateIntrinsic(Intrinsic::x86_sse_sfence, ArrayRef<Type *>{}, ArrayRef<Value>{});
#else
    ir_->CreateFence(AtomicOrdering::Release);
#endif
}

Value Builder::compare_exchange_i32(Value address, Value expected, Value desired) {
    auto *x = ir_->CreateAtomicCmpXchg(address, expected, desired, Align(4), AtomicOrdering::AcquireRelease,
                                       AtomicOrdering::Acquire);
    return ir_->CreateExtractValue(x, 1);
}

} // namespace lz::codegen
