#include "lazuli/version.h"

namespace lz {
namespace {

#define LZ_TEXT_OF(number) #number
#define LZ_DOTTED(major, minor, patch) LZ_TEXT_OF(major) "." LZ_TEXT_OF(minor) "." LZ_TEXT_OF(patch)

constexpr std::string_view kVersion =
    LZ_DOTTED(LAZULI_VERSION_MAJOR, LAZULI_VERSION_MINOR, LAZULI_VERSION_PATCH);

} // namespace

std::string_view version() {
    return kVersion;
}

} // namespace lz
