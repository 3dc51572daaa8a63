// libFuzzer: the reader of program files takes any bytes. What it accepts is written as the same file again.
#include "tests/support/samples/saved.h"
#include "structured.h"

#include "ir/program/program.h"
#include "ir/text/text.h"

#include <cstdint>
#include <cstdlib>

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return lz::fuzz::mutate(
        data, size, max_size, seed, [](const std::string &file, lz::fuzz::Random &random) {
            return lz::test::change_section(
                file, [&](size_t n) { return random.one_in(4) ? random.below(n) : 0; },
                [&](std::string &text) {
                    if (random.one_in(8)) {
                        lz::fuzz::change_length(text, random);
                    } else if (random.one_in(3) && text.size() >= sizeof(uint64_t)) {
                        const uint64_t number = lz::fuzz::odd_number(random);
                        std::memcpy(text.data() + random.below(text.size() - sizeof number + 1), &number,
                                    size_t{1} << random.below(4));
                    } else {
                        lz::fuzz::change(text);
                    }
                });
        });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace lz::ir;
    const auto *const begin = reinterpret_cast<const std::byte *>(data);
    const std::vector<std::byte> file(begin, begin + size); // it ends where the input ends
    SavedProgram program;
    try {
        program = read_saved(file);
    } catch (const Failure &failure) {
        if (failure.kind() != ErrorKind::Io)
            std::abort();
        return 0;
    }
    describe(program);
    std::vector<const SavedCode *> code;
    for (const SavedCode &one : program.code)
        code.push_back(&one);
    best_code(code, 90);
    if (write_saved(read_saved(write_saved(program))) != write_saved(program))
        std::abort();
    for (const SavedPlan &plan : program.plans)
        for (const SavedVariant &variant : plan.variants)
            try {
                parse_program(variant.program);
            } catch (const Failure &failure) {
                if (failure.kind() != ErrorKind::Parse)
                    std::abort();
            }
    return 0;
}
