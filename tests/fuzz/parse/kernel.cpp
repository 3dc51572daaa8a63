// libFuzzer: the parser of Kernel IR takes any bytes. What it accepts is a verified kernel that prints and
// reads back.
#include "ir/kernel/kernel.h"
#include "ir/diagnostic.h"
#include "ir/kernel/key.h"
#include "ir/kernel/verify.h"
#include "ir/text/text.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace lz::ir;
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    Kernel kernel;
    try {
        kernel = parse_kernel(text);
    } catch (const Failure &failure) {
        if (failure.kind() != ErrorKind::Parse)
            std::abort();
        return 0;
    }
    verify(kernel);
    const std::string printed = print(kernel);
    const Kernel again = parse_kernel(printed);
    if (print(again) != printed || cache_key(again) != cache_key(kernel))
        std::abort();
    return 0;
}
