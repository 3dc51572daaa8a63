// Files with a few changed bytes: read or refused in a sentence, never anything else. LAZULI_FUZZ_INPUTS says
// how many.
#include "files.h"
#include "frontend/data/image_files.h"
#include "tests/support/files/any_file.h"
#include "tests/support/files/memory_file.h"

#include <lazuli/data/csv.h>
#include <lazuli/data/images.h>

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

/// `refusal` reads bytes: what it refuses, it says; empty where it accepts. IoError is all that it may catch.
template <class F>
void expect_read_or_refused_by(F &&refusal, const std::vector<std::string> &seeds, size_t least_reasons) {
    const char *const asked = std::getenv("LAZULI_FUZZ_INPUTS");
    Mutator mutator(seeds);
    std::map<std::string, int> reasons; // without their numbers and names
    int accepted = 0;
    const int count = asked ? std::atoi(asked) : kInputs;
    for (int i = 0; i < count; ++i) {
        const std::string bytes = mutator.next();
        std::string reason;
        try {
            reason = refusal(bytes);
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

void expect_read_or_refused(const std::vector<std::string> &names, size_t least_reasons) {
    std::vector<std::string> seeds;
    for (const std::string &name : names)
        seeds.push_back(read_file(input(name)));
    expect_read_or_refused_by(
        [](const std::string &bytes) {
            return refusal_of({reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()});
        },
        seeds, least_reasons);
}

/// Of readers that take a path: `read` throws IoError or returns.
template <class F>
auto refusal_of_file(F &&read) {
    return [read, file = std::make_shared<MemoryFile>()](const std::string &bytes) -> std::string {
        file->write(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
        try {
            read(file->path());
            return {};
        } catch (const lz::IoError &error) {
            return error.what();
        }
    };
}

/// Each file as it is and packed.
std::vector<std::string> with_packed(std::vector<std::string> files) {
    for (size_t i = 0, plain = files.size(); i < plain; ++i)
        files.push_back(packed(files[i]));
    return files;
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

TEST(MutatedFiles, Csv) {
    const auto read = [](const std::string &path) {
        const lz::data::CsvTable table = lz::data::read_csv(path, {.max_bytes = 1 << 20});
        for (const std::string &name : table.names()) {
            const int64_t rows = table.dtype(name) ? table.column(name).numel()
                                                   : static_cast<int64_t>(table.text(name).size());
            if (rows != table.rows())
                throw std::logic_error("a column is not as long as the table");
        }
    };
    expect_read_or_refused_by(
        refusal_of_file(read),
        with_packed({"a,b,name\n1,0.5,\"x, y\"\n2,NA,\"say \"\"no\"\"\"\n-3,1e3,\n", "x\r\ntrue\r\nfalse\r\n",
                     "n,m\n9223372036854775807,nan\n-1,inf\n"}),
        5);
}

TEST(MutatedFiles, Idx) {
    const auto read = [](const std::string &path) {
        const lz::Tensor tensor = lz::data::read_idx(path);
        const int64_t bytes = tensor.numel() * lz::size_of(tensor.dtype());
        const auto *const elements = bytes ? static_cast<const uint8_t *>(tensor.data<void>()) : nullptr;
        [[maybe_unused]] static volatile unsigned seen;
        for (int64_t i = 0; i < bytes; ++i)
            seen = elements[i];
    };
    // u8 of [2, 3], f32 of [2], i32 of [1, 1, 2].
    expect_read_or_refused_by(
        refusal_of_file(read),
        with_packed({std::string("\0\0\x08\2\0\0\0\2\0\0\0\3abcdef", 18),
                     std::string("\0\0\x0d\1\0\0\0\2\x3f\x80\0\0\x40\0\0\0", 16),
                     std::string("\0\0\x0c\3\0\0\0\1\0\0\0\1\0\0\0\2\0\0\0\7\0\0\1\0", 24)}),
        5);
}

TEST(MutatedFiles, Cifar) {
    constexpr size_t kImage = size_t{3} * 32 * 32;
    for (const bool hundred : {false, true}) {
        const auto read = [&](const std::string &path) {
            const lz::data::ImageRecords records =
                lz::data::read_cifar({path}, hundred ? 2 : 1, hundred ? 100 : 10, "CIFAR", {});
            if (records.labels.empty() || records.pixels.size() != records.labels.size() * kImage)
                throw std::logic_error("there are not as many images as labels");
            for (const int64_t label : records.labels)
                if (label < 0 || label >= (hundred ? 100 : 10))
                    throw std::logic_error("a label is out of range");
        };
        std::string file;
        for (const char label : {'\3', '\7'}) {
            file += hundred ? std::string{1, label} : std::string(1, label);
            file.append(kImage, static_cast<char>('a' + label));
        }
        expect_read_or_refused_by(refusal_of_file(read), with_packed({file}), 3);
    }
}

} // namespace
