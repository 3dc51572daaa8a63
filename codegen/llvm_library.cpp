#include "codegen/llvm_library.h"

#if LAZULI_CPU_JIT

#include "codegen/host.h"
#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace lz::codegen {

namespace {

/// The file that this code is a part of: a library, or the program. Empty where the system does not say.
std::filesystem::path own_file() {
    Dl_info symbol{};
    link_map *loaded = nullptr;
    if (::dladdr1(reinterpret_cast<const void *>(&llvm_library), &symbol, reinterpret_cast<void **>(&loaded),
                  RTLD_DL_LINKMAP) == 0)
        return {};
    // The program itself has no name there, and its own idea of it may be a word that the shell looked up.
    const bool is_program = !loaded || !loaded->l_name || *loaded->l_name == '\0';
    std::error_code ignored;
    return std::filesystem::canonical(is_program ? "/proc/self/exe" : loaded->l_name, ignored);
}

/// Where it is, seen from there: beside a library, or in lib/ beside bin/.
std::vector<std::filesystem::path> folders() {
    const std::filesystem::path file = own_file();
    if (file.empty())
        return {};
    return {file.parent_path(), file.parent_path().parent_path() / "lib"};
}

void *open(const std::string &file) {
    return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/// A handle, or what is wrong in `why`.
void *find(std::string &why) {
    const char *const named = ::secure_getenv("LAZULI_LLVM_LIBRARY");
    if (named && *named != '\0') {
        void *const library = open(named);
        if (!library)
            why = ::dlerror();
        return library;
    }
    for (const std::filesystem::path &folder : folders()) {
        const std::filesystem::path file = folder / LAZULI_LLVM_LIBRARY_NAME;
        std::error_code ignored;
        if (!std::filesystem::exists(file, ignored))
            continue;
        if (void *const library = open(file))
            return library;
        why = ::dlerror(); // it is there and cannot be used: the system's would be another one
        return nullptr;
    }
    void *const library = open(LAZULI_LLVM_LIBRARY_NAME);
    if (!library)
        why = ::dlerror();
    return library;
}

[[noreturn]] void fail(const std::string &why) {
    throw ir::Failure(
        ir::ErrorKind::Compile,
        fmt::format("Code for the CPU cannot be made: {}. It is made by {}, which is installed beside "
                    "Lazuli's library; LAZULI_LLVM_LIBRARY names the file where it lies elsewhere.",
                    why, LAZULI_LLVM_LIBRARY_NAME));
}

/// Held while the library is opened, and by who forks: opening takes locks of the system's loader, which a
/// child would find taken for ever, in `exit` at the latest.
std::mutex opening;

void let_forks_wait() {
    static std::once_flag once;
    std::call_once(once, [] {
        ::pthread_atfork([] { opening.lock(); }, [] { opening.unlock(); }, [] { opening.unlock(); });
    });
}

const LlvmLibrary &open_library() {
    let_forks_wait();
    const std::lock_guard lock(opening);
    std::string why;
    void *const library = find(why);
    if (!library)
        fail(why);
    using Entry = const LlvmLibrary *();
    auto *const entry = reinterpret_cast<Entry *>(::dlsym(library, kLlvmLibraryEntry));
    if (!entry)
        fail("the file is no library of Lazuli's");
    const LlvmLibrary &found = *entry();
    if (found.version() != compiler_version())
        fail(fmt::format("the library is of another build ({}, where this is {})", found.version(),
                         compiler_version()));
    return found;
}

} // namespace

const LlvmLibrary &llvm_library() {
    static const LlvmLibrary &library = open_library();
    return library;
}

} // namespace lz::codegen

#endif
