#include "codegen/llvm_library.h"

#if LAZULI_CPU_JIT

#include "codegen/host.h"
#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <vector>

namespace lz::codegen {

namespace {

/// Folders in which it is, seen from the library or program that this code is a part of: beside a library,
/// or in lib/ beside bin/.
std::vector<std::filesystem::path> folders() {
    Dl_info self{};
    if (::dladdr(reinterpret_cast<const void *>(&llvm_library), &self) == 0 || !self.dli_fname)
        return {};
    std::error_code ignored;
    const std::filesystem::path file = std::filesystem::weakly_canonical(self.dli_fname, ignored);
    if (ignored)
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

const LlvmLibrary &open_library() {
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
