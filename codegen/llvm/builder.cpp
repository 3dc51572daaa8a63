#include "codegen/llvm/builder.h"

#include "ir/diagnostic.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <utility>

namespace lz::codegen {

using namespace llvm;
using ir::DType;

Elem ssa_elem(DType t) {
    static constexpr Elem table[] = {Elem::I1,  Elem::I8,  Elem::I8,  Elem::I16, Elem::I32,
                                     Elem::I64, Elem::I16, Elem::I16, Elem::F32, Elem::F64};
    static_assert(std::size(table) == ir::kNumDTypes);
    return table[static_cast<int>(t)];
}

Elem storage_elem(DType t) {
    return t == DType::Bool ? Elem::I8 : ssa_elem(t);
}

int bytes_of(Elem e) {
    static constexpr int table[] = {1, 1, 2, 4, 8, 4, 8, 8};
    return table[static_cast<int>(e)];
}

Builder::Builder(std::string_view module_name)
    : context_(std::make_unique<LLVMContext>()),
      module_(std::make_unique<Module>(StringRef(module_name.data(), module_name.size()), *context_)),
      ir_(new IRBuilder<>(*context_)) {
    // Names of values cost time and nobody reads them.
    context_->setDiscardValueNames(true);
}

Builder::~Builder() = default;

void Builder::DeleteBuilder::operator()(IRBuilderBase *builder) const {
    delete static_cast<IRBuilder<> *>(builder);
}

std::unique_ptr<Module> Builder::take_module() {
    return std::move(module_);
}

void Builder::allow_contraction() {
    FastMathFlags flags;
    flags.setAllowContract();
    ir_->setFastMathFlags(flags);
}

// --- functions and control flow

std::vector<Value> Builder::begin_entry(const std::string &name, std::string_view features,
                                        int vector_bytes) {
    auto *ptr = PointerType::get(*context_, 0);
    auto *i64 = Type::getInt64Ty(*context_);
    auto *signature = FunctionType::get(Type::getVoidTy(*context_), {ptr, i64, i64, ptr}, false);
    function_ = Function::Create(signature, Function::ExternalLinkage, name, *module_);
    function_->addFnAttr(Attribute::NoUnwind);
    function_->addFnAttr("target-features", StringRef(features.data(), features.size()));
    const std::string bits = std::to_string(vector_bytes * 8);
    function_->addFnAttr("prefer-vector-width", bits);
    function_->addFnAttr("min-legal-vector-width", bits);
    function_->addFnAttr("no-trapping-math", "true");
    entry_ = BasicBlock::Create(*context_, "entry", function_);
    CodeBlock body = BasicBlock::Create(*context_, "body", function_);
    ir_->SetInsertPoint(entry_);
    ir_->CreateBr(body);
    ir_->SetInsertPoint(body);
    std::vector<Value> params;
    for (Argument &a : function_->args())
        params.push_back(&a);
    return params;
}

void Builder::end_entry() {
    ir_->CreateRetVoid();
    function_ = nullptr;
}

llvm::Function *Builder::outlined(const char *name, std::span<const Value> like,
                                  const std::function<void(std::span<const Value>)> &body) {
    IRBuilderBase::InsertPointGuard guard(*ir_);
    Function *const open = function_;
    const CodeBlock open_entry = entry_;
    std::vector<Type *> types;
    for (const Value v : like)
        types.push_back(v->getType());
    auto *signature = FunctionType::get(Type::getVoidTy(*context_), types, false);
    function_ = Function::Create(signature, Function::InternalLinkage, name, *module_);
    for (const Attribute a : open->getAttributes().getFnAttrs())
        function_->addFnAttr(a);
    function_->addFnAttr(Attribute::NoInline);
    entry_ = BasicBlock::Create(*context_, "entry", function_);
    CodeBlock inside = BasicBlock::Create(*context_, "body", function_);
    ir_->SetInsertPoint(entry_);
    ir_->CreateBr(inside);
    ir_->SetInsertPoint(inside);
    std::vector<Value> params;
    for (Argument &a : function_->args())
        params.push_back(&a);
    body(params);
    ir_->CreateRetVoid();
    entry_ = open_entry;
    return std::exchange(function_, open);
}

void Builder::call(llvm::Function *function, std::span<const Value> operands) {
    ir_->CreateCall(function, ArrayRef<Value>(operands.data(), operands.size()));
}

void Builder::call(const char *name, std::span<const Value> operands) {
    std::vector<Type *> types;
    for (const Value v : operands)
        types.push_back(v->getType());
    auto *signature = FunctionType::get(Type::getVoidTy(*context_), types, false);
    FunctionCallee callee = module_->getOrInsertFunction(name, signature);
    cast<Function>(callee.getCallee())->setDoesNotThrow();
    ir_->CreateCall(callee, ArrayRef<Value>(operands.data(), operands.size()));
}

CodeBlock Builder::block(const char *name) {
    return BasicBlock::Create(*context_, name, function_);
}
CodeBlock Builder::current() const {
    return ir_->GetInsertBlock();
}
void Builder::set_block(CodeBlock block) {
    ir_->SetInsertPoint(block);
}
void Builder::jump(CodeBlock to) {
    ir_->CreateBr(to);
}

void Builder::branch(Value condition, CodeBlock yes, CodeBlock no, int likely) {
    MDNode *weights = nullptr;
    if (likely != 0)
        weights = MDBuilder(*context_).createBranchWeights(likely > 0 ? 2000 : 1, likely > 0 ? 1 : 2000);
    ir_->CreateCondBr(condition, yes, no, weights);
}

Value Builder::phi(Value like, Value from, CodeBlock block) {
    auto *p = ir_->CreatePHI(like->getType(), 2);
    p->addIncoming(from, block);
    return p;
}

Value Builder::phi_of(Elem e, int lanes) {
    return ir_->CreatePHI(type(e, lanes), 2);
}

void Builder::add_incoming(Value phi, Value value, CodeBlock block) {
    cast<PHINode>(phi)->addIncoming(value, block);
}

Value Builder::at_entry(const std::function<Value()> &body) {
    IRBuilderBase::InsertPointGuard guard(*ir_);
    ir_->SetInsertPoint(entry_->getTerminator());
    return body();
}

Value Builder::stack(Elem e, int64_t count) {
    IRBuilderBase::InsertPointGuard guard(*ir_);
    ir_->SetInsertPoint(entry_, entry_->begin());
    auto *a = ir_->CreateAlloca(ArrayType::get(type(e), static_cast<uint64_t>(count)));
    a->setAlignment(Align(64));
    return a;
}

void Builder::if_then(Value condition, const std::function<void()> &then, int likely) {
    CodeBlock yes = block("then");
    CodeBlock after = block("after");
    branch(condition, yes, after, likely);
    set_block(yes);
    then();
    jump(after);
    set_block(after);
}

std::vector<Value> Builder::loop(Value lo, Value hi, Value step, std::vector<Value> carried,
                                 const LoopBody &body, const std::function<void()> &preheader) {
    CodeBlock before = current();
    CodeBlock pre = block("pre");
    CodeBlock head = block("loop");
    CodeBlock exit = block("exit");
    ir_->CreateCondBr(ir_->CreateICmpSLT(lo, hi), pre, exit);
    set_block(pre);
    if (preheader)
        preheader();
    CodeBlock pre_end = current();
    jump(head);
    set_block(head);
    auto *index = ir_->CreatePHI(lo->getType(), 2);
    index->addIncoming(lo, pre_end);
    std::vector<PHINode *> phis;
    std::vector<Value> inside;
    for (Value c : carried) {
        phis.push_back(ir_->CreatePHI(c->getType(), 2));
        phis.back()->addIncoming(c, pre_end);
        inside.push_back(phis.back());
    }
    std::vector<Value> next = body(index, inside);
    LZ_CHECK(next.size() == carried.size(), "a loop's body returns what it carries");
    Value after = ir_->CreateNSWAdd(index, step);
    CodeBlock latch = current();
    index->addIncoming(after, latch);
    for (size_t i = 0; i < phis.size(); ++i)
        phis[i]->addIncoming(next[i], latch);
    ir_->CreateCondBr(ir_->CreateICmpSLT(after, hi), head, exit);
    set_block(exit);
    std::vector<Value> result;
    for (size_t i = 0; i < carried.size(); ++i) {
        auto *p = ir_->CreatePHI(carried[i]->getType(), 2);
        p->addIncoming(carried[i], before);
        p->addIncoming(next[i], latch);
        result.push_back(p);
    }
    return result;
}

// --- types and constants

Type *Builder::type(Elem e, int lanes) {
    Type *scalar = nullptr;
    switch (e) {
    case Elem::I1:
        scalar = Type::getInt1Ty(*context_);
        break;
    case Elem::I8:
        scalar = Type::getInt8Ty(*context_);
        break;
    case Elem::I16:
        scalar = Type::getInt16Ty(*context_);
        break;
    case Elem::I32:
        scalar = Type::getInt32Ty(*context_);
        break;
    case Elem::I64:
        scalar = Type::getInt64Ty(*context_);
        break;
    case Elem::F32:
        scalar = Type::getFloatTy(*context_);
        break;
    case Elem::F64:
        scalar = Type::getDoubleTy(*context_);
        break;
    case Elem::Ptr:
        scalar = PointerType::get(*context_, 0);
        break;
    }
    return lanes == 1 ? scalar : FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
}

Elem Builder::elem(Value v) const {
    Type *t = v->getType()->getScalarType();
    if (t->isFloatTy())
        return Elem::F32;
    if (t->isDoubleTy())
        return Elem::F64;
    if (t->isPointerTy())
        return Elem::Ptr;
    switch (t->getIntegerBitWidth()) {
    case 1:
        return Elem::I1;
    case 8:
        return Elem::I8;
    case 16:
        return Elem::I16;
    case 32:
        return Elem::I32;
    default:
        return Elem::I64;
    }
}

int Builder::lanes(Value v) const {
    auto *t = dyn_cast<FixedVectorType>(v->getType());
    return t ? static_cast<int>(t->getNumElements()) : 1;
}

bool Builder::is_float(Value v) const {
    return v->getType()->isFPOrFPVectorTy();
}

Value Builder::constant(Elem e, uint64_t bits, int lanes) {
    Constant *c = nullptr;
    Type *t = type(e);
    if (e == Elem::F32)
        c = ConstantFP::get(*context_, APFloat(APFloat::IEEEsingle(), APInt(32, bits & UINT32_MAX)));
    else if (e == Elem::F64)
        c = ConstantFP::get(*context_, APFloat(APFloat::IEEEdouble(), APInt(64, bits)));
    else {
        const unsigned width = t->getIntegerBitWidth();
        c = ConstantInt::get(*context_,
                             APInt(width, width < 64 ? bits & ((uint64_t{1} << width) - 1) : bits));
    }
    return lanes == 1 ? c : ConstantVector::getSplat(ElementCount::getFixed(static_cast<unsigned>(lanes)), c);
}

Value Builder::f32(float v, int lanes) {
    auto *c = ConstantFP::get(*context_, APFloat(v));
    return lanes == 1 ? c : ConstantVector::getSplat(ElementCount::getFixed(static_cast<unsigned>(lanes)), c);
}

Value Builder::f64(double v, int lanes) {
    auto *c = ConstantFP::get(*context_, APFloat(v));
    return lanes == 1 ? c : ConstantVector::getSplat(ElementCount::getFixed(static_cast<unsigned>(lanes)), c);
}

Value Builder::iota(Elem e, int lanes) {
    if (lanes == 1)
        return zero(e);
    SmallVector<Constant *, 64> values;
    for (int i = 0; i < lanes; ++i)
        values.push_back(ConstantInt::get(type(e), static_cast<uint64_t>(i)));
    return ConstantVector::get(values);
}

Value Builder::splat(Value scalar, int lanes) {
    return lanes == 1 ? scalar : ir_->CreateVectorSplat(static_cast<unsigned>(lanes), scalar);
}

bool Builder::is_constant(Value v) const {
    return isa<Constant>(v);
}
bool Builder::is_false(Value condition) const {
    const auto *constant = llvm::dyn_cast<llvm::Constant>(condition);
    return constant && constant->isNullValue();
}

} // namespace lz::codegen
