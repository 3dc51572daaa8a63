/// Seeds of the fuzzer are what readers of today accept: it would look at nothing but a refusal otherwise.
/// Program files hold a version, so theirs are written by
///     LAZULI_WRITE_SEEDS=1 build/release/bin/test_ir --gtest_filter='FuzzSeeds.*'
#include "tests/support/samples/saved.h"

#include "ir/kernel/text.h"
#include "ir/program/program.h"
#include "ir/text/text.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

namespace lz::test {
namespace {

using namespace ir;

const std::filesystem::path kSeeds = LAZULI_TEST_DATA "/../fuzz/corpus/parse";

std::string contents(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

template <class Parse>
void expect_accepted(const char *folder, Parse &&parse) {
    int count = 0;
    for (const auto &entry : std::filesystem::directory_iterator(kSeeds / folder)) {
        ++count;
        try {
            parse(contents(entry.path()));
        } catch (const Failure &failure) {
            ADD_FAILURE() << entry.path().filename() << ": " << failure.message();
        }
    }
    EXPECT_GT(count, 5) << kSeeds / folder;
}

TEST(FuzzSeeds, OfTextAreAccepted) {
    expect_accepted("graph", [](const std::string &text) { parse_graph(text); });
    expect_accepted("kernel", [](const std::string &text) { parse_kernel(text); });
    expect_accepted("program", [](const std::string &text) { parse_program(text); });
}

/// By the name of the seed.
std::map<std::string, SavedProgram> samples(std::span<const std::byte> elements) {
    std::map<std::string, SavedProgram> result;
    result["sample"] = saved_sample(elements);
    SavedProgram &no_numbers = result["no_numbers"] = result["sample"];
    no_numbers.plans[0].numbers.clear();
    std::erase_if(no_numbers.plans[0].again, [](const SavedWord &word) {
        return word.kind == SavedWord::Kind::Number || word.kind == SavedWord::Kind::Element;
    });
    no_numbers.devices.pop_back();
    no_numbers.constants.pop_back();
    no_numbers.library.clear();
    result["weights"] = saved_sample_with_weights(elements);
    SavedProgram &two_signatures = result["two_signatures"] = result["sample"];
    two_signatures.plans.push_back(two_signatures.plans[0]);
    two_signatures.name.clear();
    return result;
}

TEST(FuzzSeeds, OfProgramFilesAreOfTodaysVersion) {
    const std::array<float, 4> elements = {1, 2, 3, 4};
    size_t count = 0;
    for (const auto &[name, program] : samples(std::as_bytes(std::span(elements)))) {
        const std::vector<std::byte> bytes = write_saved(program);
        const std::string file(reinterpret_cast<const char *>(bytes.data()), bytes.size());
        const std::filesystem::path path = kSeeds / "saved" / (name + ".lzp");
        if (std::getenv("LAZULI_WRITE_SEEDS"))
            std::ofstream(path, std::ios::binary) << file;
        ASSERT_NO_THROW(read_saved(bytes)) << name;
        EXPECT_TRUE(contents(path) == file) << path
                                            << " is not what is written today. Files of users are read by "
                                               "the version in them: if the format has "
                                               "changed, count kProgramFileVersion on; then write the seeds "
                                               "anew, as this test's first lines say.";
        ++count;
    }
    const std::filesystem::directory_iterator files(kSeeds / "saved");
    EXPECT_EQ(std::distance(begin(files), end(files)), static_cast<ptrdiff_t>(count));
}

} // namespace
} // namespace lz::test
