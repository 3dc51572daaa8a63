#include "frontend/engine/compile/generators.h"

#include "codegen/cpu.h"
#include "codegen/host.h"
#include "codegen/interpreter.h"
#include "frontend/engine/debug/log.h"

#include <string>
#include <utility>

namespace lz::engine {

std::unique_ptr<const codegen::Compiler> make_host_compiler(const Options &options, const ir::CpuIsa &isa) {
    if (options.codegen == Codegen::Interpret || !codegen::cpu_jit_available())
        return codegen::make_interpreter();
    return codegen::make_llvm_compiler(isa, {.want_text = options.dump.llvm,
                                             .want_assembly = options.dump.assembly,
                                             .fast_math = options.fast_math});
}

codegen::KernelCacheOptions kernel_cache_options(const Options &options, Beside &beside) {
    codegen::KernelCacheOptions cache;
    cache.directory = options.cache_dir;
    cache.max_bytes = options.cache_bytes;
    const bool dumps_code = options.dump.llvm || options.dump.assembly;
    if (dumps_code)
        cache.directory.clear(); // what is dumped has to be made
    cache.log = [](const std::string &sentence) { log_line("cache", sentence); };
    if (options.log_compile)
        cache.log_compile = [](const std::string &what) { log_line("compile", what); };
    if (dumps_code || options.fast_math) // and fast arithmetic has other bits than the interpreter
        return cache;
    if (options.quick == Quick::On)
        cache.beside = [&beside](std::function<void()> work) { beside.put(std::move(work)); };
    else if (options.quick == Quick::Always)
        cache.beside = [](const std::function<void()> &) {};
    return cache;
}

} // namespace lz::engine
