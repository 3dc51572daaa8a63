#include "tests/support/cuda/nvrtc.h"

#include <cstdlib>
#include <stdexcept>
#include <utility>
#include <vector>

#include <dlfcn.h>

namespace lz::test {
namespace {

using Program = void *;

struct Nvrtc {
    int (*version)(int *, int *) = nullptr;
    int (*create)(Program *, const char *, const char *, int, const char *const *,
                  const char *const *) = nullptr;
    int (*compile)(Program, int, const char *const *) = nullptr;
    int (*log_size)(Program, size_t *) = nullptr;
    int (*log)(Program, char *) = nullptr;
    int (*ptx_size)(Program, size_t *) = nullptr;
    int (*ptx)(Program, char *) = nullptr;
    int (*destroy)(Program *) = nullptr;
    void *library = nullptr;
    std::string missing;

    Nvrtc() {
        std::vector<std::string> names;
        if (const char *named = std::getenv("LAZULI_NVRTC"))
            names.emplace_back(named);
        std::vector<std::string> folders;
        for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
            if (const char *home = std::getenv(variable))
                folders.push_back(std::string(home) + "/lib64/");
        folders.emplace_back("/usr/local/cuda/lib64/");
        folders.emplace_back("");
        for (const std::string &folder : folders)
            for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12"})
                names.push_back(folder + name);
        for (const std::string &name : names)
            if ((library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)))
                break;
        if (!library) {
            missing = "NVRTC was not found: neither LAZULI_NVRTC nor CUDA_HOME nor /usr/local/cuda nor the "
                      "loader has it.";
            return;
        }
        const auto find = [&](auto &to, const char *name) {
            to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, name));
            if (!to)
                missing = std::string("NVRTC lacks ") + name + ".";
        };
        find(version, "nvrtcVersion");
        find(create, "nvrtcCreateProgram");
        find(compile, "nvrtcCompileProgram");
        find(log_size, "nvrtcGetProgramLogSize");
        find(log, "nvrtcGetProgramLog");
        find(ptx_size, "nvrtcGetPTXSize");
        find(ptx, "nvrtcGetPTX");
        find(destroy, "nvrtcDestroyProgram");
    }
};

const Nvrtc &nvrtc() {
    static const Nvrtc library;
    return library;
}

} // namespace

const std::string &why_no_nvrtc() {
    return nvrtc().missing;
}

void *nvrtc_library() {
    return nvrtc().library;
}

std::string compile_to_ptx(std::string_view source) {
    const Nvrtc &n = nvrtc();
    if (!n.missing.empty())
        throw std::runtime_error(n.missing);
    Program program = nullptr;
    if (n.create(&program, std::string(source).c_str(), "kernel.cu", 0, nullptr, nullptr) != 0)
        throw std::runtime_error("NVRTC could not make a program.");
    int major = 0, minor = 0;
    n.version(&major, &minor);
    std::vector<const char *> options{"--gpu-architecture=compute_90", "--fmad=false"};
    if (std::pair(major, minor) >= std::pair(12, 4)) // refused before
        options.push_back("--minimal");
    const int failed = n.compile(program, static_cast<int>(options.size()), options.data());
    std::string text;
    size_t size = 0;
    if (failed != 0) {
        n.log_size(program, &size);
        text.resize(size);
        n.log(program, text.data());
    } else {
        n.ptx_size(program, &size);
        text.resize(size);
        n.ptx(program, text.data());
    }
    n.destroy(&program);
    if (failed != 0)
        throw std::runtime_error("NVRTC: " + text);
    return text;
}

} // namespace lz::test
