// A tool that listens to NVTX as Nsight Systems does: a library that a process loads by
// NVTX_INJECTION64_PATH. It writes down what it is told.
#include <nvtx3/nvToolsExt.h>

#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::string &heard() {
    static auto *const text = new std::string; // ranges may end when the process does
    return *text;
}
void write(const std::string &line) {
    const std::lock_guard lock(mutex);
    heard() += line + "\n";
}

nvtxDomainHandle_t create_domain(const char *name) {
    write(std::string("domain ") + name);
    static int domain;
    return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}
int push(nvtxDomainHandle_t, const nvtxEventAttributes_t *attributes) {
    write(std::string("push ") + attributes->message.ascii);
    return 0;
}
int pop(nvtxDomainHandle_t) {
    write("pop");
    return 0;
}

} // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
    const auto *const callbacks = static_cast<const NvtxExportTableCallbacks *>(get(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned int size = 0;
    if (!callbacks || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create_domain);
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
    *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
    return 1;
}

/// What it was told so far, and forgets.
extern "C" __attribute__((visibility("default"))) const char *lazuli_nvtx_heard() {
    static std::string taken;
    const std::lock_guard lock(mutex);
    taken.swap(heard());
    heard().clear();
    return taken.c_str();
}
