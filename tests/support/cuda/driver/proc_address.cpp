// Functions by name and version.

#include "tests/support/cuda/driver/cuda_api.h"
#include "tests/support/cuda/driver/faults.h"

#include "tests/support/cuda/driver/call.h"
#include "tests/support/cuda/driver/settings.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace lz::fake_cuda {
namespace {

#define FUNCTION(symbol, version) Exported{#symbol, version, reinterpret_cast<void *>(&symbol)},
const std::array kExported{
#include "tests/support/cuda/driver/functions.def"
    Exported{nullptr, 0, nullptr}};
#undef FUNCTION

/// What is never made to fail, under the names that a program asks for.
const std::array kOthers{Exported{"cuGetErrorName", 6000, reinterpret_cast<void *>(&cuGetErrorName)},
                         Exported{"cuGetErrorString", 6000, reinterpret_cast<void *>(&cuGetErrorString)}};

/// cuMemAlloc for cuMemAlloc_v2.
std::string_view plain_name(std::string_view symbol) {
    const size_t at = symbol.rfind("_v");
    return at == std::string_view::npos ? symbol : symbol.substr(0, at);
}

bool is_named(const Exported &e, std::string_view name) {
    if (e.symbol == name)
        return true;
    if (name == "cuGraphInstantiate") // renamed in CUDA 12, not only numbered
        return e.symbol == std::string_view("cuGraphInstantiateWithFlags") && settings().version >= 12000;
    return plain_name(e.symbol) == name;
}

} // namespace

const Exported *exported_functions() {
    return kExported.data();
}

} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    return call_without_init(__func__, [&](Lock &) {
        need(name, "symbol");
        need(function, "pfn");
        *function = nullptr;
        if (status)
            *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        if (flags &
            ~cuuint64_t{CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM})
            refuse(CUDA_ERROR_INVALID_VALUE, "flags that are not known");
        const Exported *best = nullptr;
        bool too_new = false;
        const auto look = [&](const Exported &e) {
            if (!is_named(e, name))
                return;
            if (e.version > version || e.version > settings().version)
                too_new = true;
            else if (!best || e.version > best->version)
                best = &e;
        };
        for (const Exported &e : kExported)
            if (e.symbol)
                look(e);
        for (const Exported &e : kOthers)
            look(e);
        if (!best) {
            if (status && too_new)
                *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
            refuse(CUDA_ERROR_NOT_FOUND, fmt::format("there is no {} in CUDA {}", name, version));
        }
        *function = best->address;
        if (status)
            *status = CU_GET_PROC_ADDRESS_SUCCESS;
    });
}

// Of the runtime library and tools; none of the tables is there.
CUresult cuGetExportTable(const void **table, const CUuuid *) {
    if (table)
        *table = nullptr;
    return CUDA_ERROR_NOT_FOUND;
}
