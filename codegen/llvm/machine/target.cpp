#include "codegen/llvm/machine/target.h"

#include "ir/diagnostic.h"
#include "ir/host/amx.h"
#include "ir/host/per_thread.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Utils/Cloning.h>

#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/Instrumentation/AddressSanitizer.h>
#include <llvm/Transforms/Instrumentation/ThreadSanitizer.h>
#endif

#include <map>
#include <mutex>

namespace lz::codegen {

namespace {

void initialize_llvm() {
    static std::once_flag once;
    std::call_once(once, [] {
        llvm::InitializeNativeTarget();
        llvm::InitializeNativeTargetAsmPrinter();
        llvm::InitializeNativeTargetAsmParser();
    });
}

// Triples are passed as such since LLVM 21, as text before; what generates code was a class of its own
// until 20.
#if LLVM_VERSION_MAJOR >= 21
const llvm::Triple &spelled(const llvm::Triple &triple) {
    return triple;
}
#else
const std::string &spelled(const llvm::Triple &triple) {
    return triple.str();
}
#endif
#if LLVM_VERSION_MAJOR >= 20
using CodegenMachine = llvm::TargetMachine;
#else
using CodegenMachine = llvm::LLVMTargetMachine;
#endif

/// A pipeline of code generation with what it writes to. Building one takes a tenth of what a small kernel
/// takes, and it serves one module after the other.
struct Pipeline {
    llvm::SmallString<0> out;
    llvm::raw_svector_ostream stream{out};
    llvm::legacy::PassManager passes;
};

/// Making one costs more than compiling a small kernel, and one may be used by a single thread at a time.
struct Machine {
    std::unique_ptr<llvm::TargetMachine> target;
    std::unique_ptr<Pipeline> objects; ///< of object files; null before the first
};

Machine &machine_for(const ir::CpuIsa &isa) {
    Machine &machine = ir::per_thread<std::map<std::string, Machine>>()[isa.triple + isa.features];
    if (machine.target)
        return machine;
    initialize_llvm();
    std::string error;
    const llvm::Triple triple(isa.triple.empty() ? llvm::sys::getProcessTriple() : isa.triple);
    const llvm::Target *target = llvm::TargetRegistry::lookupTarget(spelled(triple), error);
    if (!target)
        throw ir::Failure(ir::ErrorKind::Compile,
                          "LLVM has no code generator for " + triple.str() + ": " + error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    options.NoTrappingFPMath = true;
    machine.target.reset(target->createTargetMachine(spelled(triple), "", isa.features, options,
                                                     llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                     llvm::CodeGenOptLevel::Less, true));
    if (!machine.target)
        throw ir::Failure(ir::ErrorKind::Compile, "LLVM cannot generate code for " + triple.str() + ".");
    return machine;
}

void prepare(llvm::Module &module, llvm::TargetMachine &machine) {
    module.setTargetTriple(spelled(machine.getTargetTriple()));
    module.setDataLayout(machine.createDataLayout());
}

/// Opens what a TargetPassConfig keeps from its users.
struct CoreSelection : llvm::TargetPassConfig {
    static bool add(llvm::TargetPassConfig &config) {
        return (config.*(&CoreSelection::addCoreISelPasses))();
    }
};

/// LLVM's own pipeline of code generation, but for its optional passes over IR: they look for what compilers
/// of languages leave behind, and loop strength reduction alone took a third of all time. Leaving out passes
/// over machine code that find nothing in kernels would save 2 % of it. What the emitter
/// writes has its addresses in the form that it wants already.
bool add_codegen_passes(llvm::legacy::PassManager &passes, llvm::TargetMachine &target,
                        llvm::MCContext **context) {
    auto &machine = static_cast<CodegenMachine &>(target);
    auto *module_info = new llvm::MachineModuleInfoWrapperPass(&machine);
    *context = &module_info->getMMI().getContext();
    llvm::TargetPassConfig *config = machine.createPassConfig(passes);
    config->setDisableVerify(true);
    passes.add(config);
    passes.add(module_info);
    passes.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
    passes.add(llvm::createPreISelIntrinsicLoweringPass());
    const llvm::CodeGenOptLevel level = machine.getOptLevel();
    machine.setOptLevel(llvm::CodeGenOptLevel::None);
    config->addIRPasses();
    machine.setOptLevel(level);
    config->addCodeGenPrepare();
    config->addPassesToHandleExceptions();
    config->addISelPrepare();
    if (CoreSelection::add(*config))
        return false;
    config->addMachinePasses();
    config->setInitialized();
    return true;
}

std::unique_ptr<Pipeline> pipeline(llvm::TargetMachine &machine, llvm::CodeGenFileType type) {
    auto made = std::make_unique<Pipeline>();
    llvm::MCContext *context = nullptr;
    if (!add_codegen_passes(made->passes, machine, &context) ||
        static_cast<CodegenMachine &>(machine).addAsmPrinter(made->passes, made->stream, nullptr, type,
                                                             *context))
        throw ir::Failure(ir::ErrorKind::Compile,
                          "LLVM cannot write code for " + machine.getTargetTriple().str() + ".");
    made->passes.add(llvm::createFreeMachineFunctionPass());
    return made;
}

void verify_module(llvm::Module &module) {
    std::string message;
    llvm::raw_string_ostream stream(message);
    if (!llvm::verifyModule(module, &stream))
        return;
    std::string text;
    llvm::raw_string_ostream(text) << module;
    throw ir::Failure(ir::ErrorKind::Internal,
                      "The emitted LLVM module is malformed: " + message + "\n" + text);
}

#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
void instrument(llvm::Module &module) {
    for (llvm::Function &f : module) {
        if (f.isDeclaration())
            continue;
#if LAZULI_SANITIZE_THREAD
        f.addFnAttr(llvm::Attribute::SanitizeThread);
#else
        f.addFnAttr(llvm::Attribute::SanitizeAddress);
#endif
        f.addFnAttr("frame-pointer", "all");
    }
    llvm::PassBuilder builder;
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager components;
    llvm::ModuleAnalysisManager modules;
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
    llvm::ModulePassManager passes;
#if LAZULI_SANITIZE_THREAD
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::ThreadSanitizerPass()));
#else
    // Nothing runs constructors of a loaded kernel, and none is needed: its only globals are literals.
    llvm::AddressSanitizerOptions options;
    options.UseAfterReturn = llvm::AsanDetectStackUseAfterReturnMode::Never;
    passes.addPass(llvm::AddressSanitizerPass(options, false, false, llvm::AsanDtorKind::None,
                                              llvm::AsanCtorKind::None));
#endif
    passes.run(module, modules);
}
#endif

} // namespace

std::vector<std::byte> make_object(Builder &builder, const ir::CpuIsa &isa) {
    Machine &machine = machine_for(isa);
    std::unique_ptr<llvm::Module> module = builder.take_module();
    prepare(*module, *machine.target);
#if !defined(NDEBUG) || LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
    verify_module(*module);
#else
    (void)verify_module;
#endif
#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
    instrument(*module);
#endif
    if (!machine.objects)
        machine.objects = pipeline(*machine.target, llvm::CodeGenFileType::ObjectFile);
    Pipeline &objects = *machine.objects;
    objects.passes.run(*module);
    const auto *data = reinterpret_cast<const std::byte *>(objects.out.data());
    std::vector<std::byte> bytes(data, data + objects.out.size());
    objects.out.clear();
    return bytes;
}

std::string module_text(Builder &builder) {
    std::string text;
    llvm::raw_string_ostream(text) << builder.module();
    return text;
}

std::string module_assembly(Builder &builder, const ir::CpuIsa &isa) {
    llvm::TargetMachine &machine = *machine_for(isa).target;
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(builder.module());
    prepare(*copy, machine);
    const std::unique_ptr<Pipeline> text = pipeline(machine, llvm::CodeGenFileType::AssemblyFile);
    text->passes.run(*copy);
    return std::string(text->out);
}

ir::CpuIsa isa_by_llvm() {
    ir::CpuIsa isa;
    isa.triple = llvm::sys::getProcessTriple();
    const auto host = llvm::sys::getHostCPUFeatures();
    std::map<std::string, bool> sorted;
    for (const auto &feature : host)
        sorted.emplace(feature.getKey().str(), feature.getValue());
    const auto has = [&](const char *name) {
        const auto it = sorted.find(name);
        return it != sorted.end() && it->second;
    };
    for (const auto &[name, on] : sorted)
        isa.features += (isa.features.empty() ? "" : ",") + std::string(on ? "+" : "-") + name;
    isa.fma = has("fma");
    isa.avx512 = has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq");
    isa.avx512_bf16 = isa.avx512 && has("avx512bf16");
    isa.avx512_vnni = isa.avx512 && has("avx512vnni");
    const bool tiles = has("amx-tile") && ir::may_use_amx();
    isa.amx_bf16 = tiles && has("amx-bf16");
    isa.amx_int8 = tiles && has("amx-int8");
    if (isa.avx512) {
        isa.vector_bytes = 64;
        isa.vector_registers = 32;
    } else if (has("avx2")) {
        isa.vector_bytes = 32;
    }
#if LAZULI_SANITIZE_THREAD
    isa.vector_bytes = 16; // the widest access that ThreadSanitizer sees
    isa.amx_bf16 = isa.amx_int8 = false;
#endif
    const llvm::Triple triple(isa.triple);
    if (triple.isAArch64()) {
        isa.vector_registers = 32;
        isa.fma = true;
    }
    return isa;
}

} // namespace lz::codegen
