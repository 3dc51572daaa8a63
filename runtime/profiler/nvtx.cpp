#include "runtime/profiler/nvtx.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace lz::runtime {

namespace {

/// Null where nobody listens.
nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t made = nvtxDomainCreateA("Lazuli");
    return made;
}

} // namespace

bool nvtx_listens() {
    return domain() != nullptr;
}

NvtxRange::NvtxRange(const std::string &name) {
    if (!domain())
        return;
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name.c_str();
    nvtxDomainRangePushEx(domain(), &attributes);
}

NvtxRange::~NvtxRange() {
    if (domain())
        nvtxDomainRangePop(domain());
}

} // namespace lz::runtime

#else

namespace lz::runtime {

bool nvtx_listens() {
    return false;
}
NvtxRange::NvtxRange(const std::string &) {}
NvtxRange::~NvtxRange() = default;

} // namespace lz::runtime

#endif
