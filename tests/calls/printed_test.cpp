// The C++ that a random program is printed as: it compiles, and does what the program does.
#include "generate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

using namespace lz::test::calls;

/// A folder that goes away, with the public headers precompiled in it.
class Compiler {
public:
    Compiler()
        : folder_(std::filesystem::temp_directory_path() / fmt::format("lazuli-printed-{}", ::getpid())) {
        std::filesystem::create_directory(folder_);
    }
    ~Compiler() { std::filesystem::remove_all(folder_); }
    Compiler(const Compiler &) = delete;
    Compiler &operator=(const Compiler &) = delete;

    static bool is_there() { return succeeds(LAZULI_TEST_CXX " --version"); }

    /// What all printed programs begin with is read once.
    bool precompile() {
        std::ofstream out(file("before.h"));
        const std::string text = print(Program{});
        out << text.substr(0, text.find("using lz::Tensor"));
        out.close();
        return succeeds(
            fmt::format("{} -x c++-header {} -o {}", kCompiler, file("before.h"), file("before.h.gch")));
    }
    /// "" or what the compiler says.
    std::string check(const Program &program) {
        return compile(program, fmt::format("-include {} -fsyntax-only", file("before.h")));
    }
    /// What the program prints.
    std::string run(const Program &program) {
        const std::filesystem::path library = LAZULI_TEST_LIBRARY;
        const std::string said = compile(
            program, fmt::format("{0} -O0 -pthread '{1}' -Wl,-rpath,'{2}' -o {3}", LAZULI_TEST_CXX_FLAGS,
                                 library.string(), library.parent_path().string(), file("program")));
        if (!said.empty())
            return said;
        const std::string command = fmt::format("{} > {} 2>&1", file("program"), file("output"));
        const bool good = std::system(command.c_str()) == 0; // NOLINT: of nothing but its own
        return text("output") + (good ? "" : "\nIt ends with an error.\n");
    }

private:
    static constexpr const char *kCompiler = LAZULI_TEST_CXX " -std=c++20 -w -I'" LAZULI_TEST_HEADERS "'";

    std::string file(const char *name) const { return (folder_ / name).string(); }
    std::string text(const char *name) const {
        std::ifstream in(folder_ / name);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    static bool succeeds(const std::string &command) {
        return std::system((command + " 2>/dev/null >&2").c_str()) == 0; // NOLINT: of nothing but its own
    }
    std::string compile(const Program &program, const std::string &how) {
        std::ofstream(folder_ / "program.cpp") << print(program);
        const std::string command =
            fmt::format("{} {} {} > {} 2>&1", kCompiler, file("program.cpp"), how, file("said"));
        if (std::system(command.c_str()) == 0) // NOLINT: as above
            return "";
        return text("said") + "\n" + print(program);
    }

    std::filesystem::path folder_;
};

/// Programs in which every row occurs.
std::vector<Program> programs_of_all_rows() {
    GenerateOptions options;
    options.longest = 100;
    options.gpus = 4;
    for (const Row &row : table())
        options.wanted.insert(&row);
    std::vector<Program> out;
    for (uint64_t seed = 1; seed < 300 && !options.wanted.empty(); ++seed) {
        Program program = generate(seed, options);
        size_t found = 0;
        for (const Statement &s : program.statements)
            found += options.wanted.erase(s.row);
        if (found > 0)
            out.push_back(std::move(program));
    }
    for (const Row *row : options.wanted)
        ADD_FAILURE() << "no program has " << row->text;
    return out;
}

TEST(Calls, WhatIsPrintedCompiles) {
    if (!Compiler::is_there())
        GTEST_SKIP() << "This needs the compiler of the build, " LAZULI_TEST_CXX ".";
    Compiler compiler;
    ASSERT_TRUE(compiler.precompile());
    const std::vector<Program> programs = programs_of_all_rows();
    EXPECT_GE(programs.size(), 5u);
    for (const Program &program : programs)
        if (const std::string said = compiler.check(program); !said.empty()) {
            ADD_FAILURE() << "seed " << program.seed << ": " << said;
            break;
        }
}

TEST(Calls, WhatIsPrintedDoesWhatTheProgramDoes) {
    if (!Compiler::is_there())
        GTEST_SKIP() << "This needs the compiler of the build, " LAZULI_TEST_CXX ".";
    Compiler compiler;
    for (const uint64_t seed : {4u, 7u}) { // four runs, and one
        const Program program = generate(seed, {});
        Seen seen;
        seen.wants_text = true;
        ASSERT_EQ(run_and_see(program, seen), "");
        ASSERT_FALSE(seen.shown.empty());
        const std::string output = compiler.run(program);
        EXPECT_TRUE(output.ends_with(seen.shown)) << print(program) << "\nprints\n"
                                                  << output << "\nand not at its end\n"
                                                  << seen.shown;
    }
}

} // namespace
