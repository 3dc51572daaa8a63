#include "ir/host/amx.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lz::ir {

bool may_use_amx() {
#if defined(__linux__) && defined(__x86_64__)
    // arch/x86/include/uapi/asm/prctl.h, and the number of the state in XCR0. Older headers have neither.
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    static const bool allowed = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
    return allowed;
#else
    return false;
#endif
}

} // namespace lz::ir
