#include "codegen/llvm/machine/loader.h"

#include "ir/diagnostic.h"
#include "ir/host/functions.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/SymbolStringPool.h>
#include <llvm/Support/MemoryBuffer.h>

#include <dlfcn.h>
#include <map>

namespace lz::codegen {

namespace {

using namespace llvm::jitlink;
using llvm::orc::ExecutorAddr;

/// What the loads of a process share.
struct Linker {
    std::unique_ptr<InProcessMemoryManager> memory = cantFail(InProcessMemoryManager::Create());
    std::shared_ptr<llvm::orc::SymbolStringPool> names = std::make_shared<llvm::orc::SymbolStringPool>();
};

/// Never destroyed: modules in static storage of the user may die after it would.
Linker &linker() {
    static Linker *the = new Linker;
    return *the;
}

[[noreturn]] void fail(const std::string &kernel, const std::string &why) {
    throw ir::Failure(ir::ErrorKind::Compile,
                      "The code of kernel " + kernel + " could not be loaded: " + why + ".");
}

class JitModule final : public runtime::Module {
public:
    JitModule(std::string name, JITLinkMemoryManager::FinalizedAlloc memory,
              std::map<std::string, void *> entries)
        : name_(std::move(name)), memory_(std::move(memory)), entries_(std::move(entries)) {}

    ~JitModule() override { llvm::consumeError(linker().memory->deallocate(std::move(memory_))); }

    void *entry(const std::string &symbol) const override {
        const auto it = entries_.find(symbol);
        LZ_CHECK(it != entries_.end(), "kernel " + name_ + " has no symbol " + symbol);
        return it->second;
    }

private:
    std::string name_;
    JITLinkMemoryManager::FinalizedAlloc memory_;
    std::map<std::string, void *> entries_;
};

// Names of symbols are interned since LLVM 20; before, they were plain text.
[[maybe_unused]] std::string text_of(const llvm::orc::SymbolStringPtr &name) {
    return (*name).str();
}
[[maybe_unused]] std::string text_of(llvm::StringRef name) {
    return name.str();
}

/// Of a function that emitted code calls.
void *address_of(const std::string &name) {
    void *const ours = ir::find_host_function(name);
    return ours ? ours : dlsym(RTLD_DEFAULT, name.c_str());
}

/// One link. JITLink works by continuations; in one process with this memory manager all of them run before
/// `link` returns, so the results can be members.
class Link final : public JITLinkContext {
public:
    struct Result {
        std::string error;
        JITLinkMemoryManager::FinalizedAlloc memory;
        std::map<std::string, void *> entries;
    };

    explicit Link(Result &result) : JITLinkContext(nullptr), result_(result) {}

    JITLinkMemoryManager &getMemoryManager() override { return *linker().memory; }

    void notifyFailed(llvm::Error error) override { result_.error = llvm::toString(std::move(error)); }

    void lookup(const LookupMap &symbols,
                std::unique_ptr<JITLinkAsyncLookupContinuation> continuation) override {
        AsyncLookupResult found;
        for (const auto &[name, flags] : symbols) {
            void *address = address_of(text_of(name));
            if (!address && flags != SymbolLookupFlags::WeaklyReferencedSymbol) {
                continuation->run(
                    llvm::createStringError("there is no function " + text_of(name) + " in this process"));
                return;
            }
            found[name] = {ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
        }
        continuation->run(std::move(found));
    }

    llvm::Error notifyResolved(LinkGraph &graph) override {
        for (Symbol *symbol : graph.defined_symbols())
            if (symbol->hasName() && symbol->getScope() != Scope::Local)
                result_.entries[text_of(symbol->getName())] = symbol->getAddress().toPtr<void *>();
        return llvm::Error::success();
    }

    void notifyFinalized(JITLinkMemoryManager::FinalizedAlloc memory) override {
        result_.memory = std::move(memory);
    }

private:
    Result &result_;
};

} // namespace

std::unique_ptr<runtime::Module> load_by_jitlink(const ir::CompiledKernel &kernel) {
    const llvm::StringRef bytes(reinterpret_cast<const char *>(kernel.object.data()), kernel.object.size());
#if LLVM_VERSION_MAJOR >= 20
    auto graph = createLinkGraphFromObject(llvm::MemoryBufferRef(bytes, kernel.name), linker().names);
#else
    auto graph = createLinkGraphFromObject(llvm::MemoryBufferRef(bytes, kernel.name));
#endif
    if (!graph)
        fail(kernel.name, llvm::toString(graph.takeError()));
    Link::Result result;
    link(std::move(*graph), std::make_unique<Link>(result));
    if (!result.error.empty())
        fail(kernel.name, result.error);
    return std::make_unique<JitModule>(kernel.name, std::move(result.memory), std::move(result.entries));
}

} // namespace lz::codegen
