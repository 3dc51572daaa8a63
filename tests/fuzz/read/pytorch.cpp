// libFuzzer: `load` of PyTorch's .pt files: an archive, and in it a pickle whose opcodes are changed one by
// one. What it accepts, can be read.
#include "archive.h"
#include "tests/support/files/any_file.h"

#include <string_view>

namespace {

/// Bytes of the opcode that begins here, at most what is there (Lib/pickletools.py).
size_t length_of(std::string_view rest) {
    const auto counted = [&](size_t width) {
        uint64_t count = 0;
        std::memcpy(&count, rest.data() + 1, std::min(width, rest.size() - 1));
        return 1 + width + std::min<uint64_t>(count, rest.size());
    };
    size_t length = 1;
    switch (static_cast<uint8_t>(rest[0])) {
    case 0x80:
    case 'K':
    case 'q':
    case 'h':
        length = 2;
        break;
    case 'M':
        length = 3;
        break;
    case 'J':
    case 'r':
    case 'j':
        length = 5;
        break;
    case 0x95:
    case 'G':
        length = 9;
        break;
    case 0x8a:
    case 0x8c:
        length = counted(1);
        break;
    case 'X':
        length = counted(4);
        break;
    case 0x8d:
        length = counted(8);
        break;
    case 'c':
        length =
            std::min(rest.find('\n', std::min(rest.find('\n'), rest.size() - 1) + 1), rest.size() - 1) + 1;
        break;
    default:
        break;
    }
    return std::min(length, rest.size());
}

void change_pickle(std::string &pickle, lz::fuzz::Random &random) {
    std::vector<std::string> opcodes;
    for (size_t at = 0; at < pickle.size(); at += opcodes.back().size())
        opcodes.emplace_back(pickle, at, length_of(std::string_view(pickle).substr(at)));
    if (opcodes.empty())
        return lz::fuzz::change(pickle);
    for (size_t edits = 1 + random.below(3); edits > 0 && !opcodes.empty(); --edits) {
        const size_t at = random.below(opcodes.size());
        std::string &opcode = opcodes[at];
        switch (random.below(6)) {
        case 0:
            opcodes.erase(opcodes.begin() + static_cast<std::ptrdiff_t>(at));
            break;
        case 1: {
            const std::string copy = opcodes[random.below(opcodes.size())];
            opcodes.insert(opcodes.begin() + static_cast<std::ptrdiff_t>(at), copy);
            break;
        }
        case 2:
            std::swap(opcode, opcodes[random.below(opcodes.size())]);
            break;
        case 3: { // what has no argument
            constexpr std::string_view kBare = ".N\x88\x89()\x85\x86\x87t]}aesu\x94\x93QRb";
            opcode = std::string(1, kBare[random.below(kBare.size())]);
            break;
        }
        case 4: { // another int
            const auto number = lz::fuzz::odd_number(random);
            opcode = random.one_in(2) ? "\x8a\x08" : "J";
            opcode.append(reinterpret_cast<const char *>(&number), opcode.size() == 1 ? 4 : 8);
            break;
        }
        default:
            lz::fuzz::change(opcode, 8);
        }
    }
    pickle.clear();
    for (const std::string &opcode : opcodes)
        pickle += opcode;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return lz::fuzz::mutate(data, size, max_size, seed,
                            [](const std::string &file, lz::fuzz::Random &random) {
                                return lz::fuzz::change_archive(file, random, [&](lz::fuzz::Entry &entry) {
                                    if (entry.name.ends_with("data.pkl"))
                                        change_pickle(entry.bytes, random);
                                    else
                                        lz::fuzz::change_length(entry.bytes, random);
                                });
                            });
}

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    setenv("LAZULI_CODEGEN", "interpret", 1); // views are computed; compiling them would take all the time
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lz::test::refusal_of({reinterpret_cast<const std::byte *>(data), size});
    return 0;
}
