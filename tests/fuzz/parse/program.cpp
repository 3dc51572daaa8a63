// libFuzzer: the parser of Programs takes any bytes. What it accepts is a verified Program that prints and
// reads back.
#include "ir/program/program.h"
#include "ir/diagnostic.h"
#include "ir/program/verify.h"
#include "ir/text/text.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace lz::ir;
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    Program program;
    try {
        program = parse_program(text);
    } catch (const Failure &failure) {
        if (failure.kind() != ErrorKind::Parse)
            std::abort();
        return 0;
    }
    verify(program);
    const std::string printed = print(program);
    if (print(parse_program(printed)) != printed)
        std::abort();
    return 0;
}
