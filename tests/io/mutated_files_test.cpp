// Files with a few changed bytes: read or refused in a sentence, never anything else. LAZULI_FUZZ_INPUTS says
// how many.
#include "files.h"
#include "tests/support/any_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

namespace {

using namespace lz::test;

#if defined(__SANITIZE_ADDRESS__)
constexpr int kInputs = 2000;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr int kInputs = 2000;
#else
constexpr int kInputs = 20000;
#endif
#else
constexpr int kInputs = 20000;
#endif

class Mutator {
public:
    explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

    std::string next() {
        std::string bytes = seeds_[below(seeds_.size())];
        for (size_t edits = 1 + below(4); edits > 0; --edits)
            edit(bytes);
        return bytes;
    }

private:
    size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
    void edit(std::string &bytes) {
        constexpr uint64_t kNumbers[] = {0,
                                         1,
                                         2,
                                         255,
                                         256,
                                         0x7fff,
                                         0xffff,
                                         0x7fffffff,
                                         0xffffffff,
                                         uint64_t{1} << 40,
                                         ~uint64_t{0} >> 1,
                                         ~uint64_t{0}};
        if (bytes.empty())
            return;
        const size_t at = below(bytes.size()), length = std::min(1 + below(16), bytes.size() - at);
        switch (below(8)) {
        case 0:
        case 1:
            bytes[at] = static_cast<char>(below(256));
            break;
        case 2:
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
            break;
        case 3: // a digit of a text
            if (const size_t digit = bytes.find_first_of("0123456789", at); digit != std::string::npos)
                bytes[digit] = static_cast<char>('0' + below(10));
            break;
        case 4: {
            const uint64_t number = kNumbers[below(std::size(kNumbers))];
            std::memcpy(bytes.data() + at, &number, std::min({length, sizeof number, bytes.size() - at}));
            break;
        }
        case 5:
            bytes.erase(at, length);
            break;
        case 6:
            bytes.insert(at, bytes.substr(below(bytes.size()), length));
            break;
        default:
            if (below(4) == 0)
                bytes.resize(at);
            else
                std::swap(bytes[at], bytes[below(bytes.size())]);
        }
    }

    std::vector<std::string> seeds_;
    std::mt19937_64 random_{1};
};

void expect_read_or_refused(const std::vector<std::string> &names, size_t least_reasons) {
    std::vector<std::string> seeds;
    for (const std::string &name : names)
        seeds.push_back(read_file(input(name)));
    const char *const asked = std::getenv("LAZULI_FUZZ_INPUTS");
    Mutator mutator(seeds);
    std::map<std::string, int> reasons; // without their numbers and names
    int accepted = 0;
    const int count = asked ? std::atoi(asked) : kInputs;
    for (int i = 0; i < count; ++i) {
        const std::string bytes = mutator.next();
        std::string reason;
        try {
            reason = refusal_of({reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()});
        } catch (const std::exception &error) {
            const std::string path = (std::filesystem::temp_directory_path() / "lazuli-mutated").string();
            write_file(path, bytes);
            FAIL() << "input " << i << " (see " << path << "): " << error.what();
        }
        accepted += reason.empty();
        std::erase_if(reason, [](char c) { return !std::isalpha(static_cast<unsigned char>(c)); });
        ++reasons[reason.substr(0, 60)];
    }
    // It is not blind: some is read, and what is not is refused for many reasons.
    EXPECT_GT(accepted, count / 100);
    EXPECT_GT(reasons.size(), least_reasons);
}

TEST(MutatedFiles, Safetensors) {
    expect_read_or_refused({"dtypes.safetensors"}, 15);
}
TEST(MutatedFiles, Numpy) {
    expect_read_or_refused({"numpy/f32.npy", "numpy/fortran.npy", "numpy/big_endian.npy", "numpy/stored.npz",
                            "numpy/deflated.npz"},
                           15);
}
TEST(MutatedFiles, Pytorch) {
    expect_read_or_refused({"module.pt", "views.pt", "checkpoint.pt", "dtypes.pt"}, 30);
}

} // namespace
