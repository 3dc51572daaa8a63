#include "codegen/cuda/nvrtc.h"

#include "ir/diagnostic.h"

#include <dlfcn.h>

#include <string>

namespace lz::codegen {

namespace {

template <class F>
void find(void *library, F *&to, const char *name) {
    to = reinterpret_cast<F *>(dlsym(library, name));
    if (!to)
        throw ir::Failure(ir::ErrorKind::Compile,
                          std::string("The library given as NVRTC has no function ") + name + ".");
}

} // namespace

Nvrtc load_nvrtc(void *library) {
    Nvrtc n;
    find(library, n.version, "nvrtcVersion");
    find(library, n.num_archs, "nvrtcGetNumSupportedArchs");
    find(library, n.archs, "nvrtcGetSupportedArchs");
    find(library, n.create, "nvrtcCreateProgram");
    find(library, n.compile, "nvrtcCompileProgram");
    find(library, n.log_size, "nvrtcGetProgramLogSize");
    find(library, n.log, "nvrtcGetProgramLog");
    find(library, n.ptx_size, "nvrtcGetPTXSize");
    find(library, n.ptx, "nvrtcGetPTX");
    find(library, n.cubin_size, "nvrtcGetCUBINSize");
    find(library, n.cubin, "nvrtcGetCUBIN");
    find(library, n.destroy, "nvrtcDestroyProgram");
    find(library, n.error, "nvrtcGetErrorString");
    return n;
}

} // namespace lz::codegen
