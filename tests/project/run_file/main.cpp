// Runs the first signature of a program file by liblazuli-run.so alone, for tests that saved it:
//
//   run_file FILE INPUTS OUTPUTS [--seed=N] [--cut] [--null] [--weights=PATH] [--unchecked] [--unmapped]
//   [number...]
//
// INPUTS holds the elements of all inputs, one behind the other, and OUTPUTS gets those of all results. It is
// called four times, each time from the same seed, and ends with 4 where results differ. --cut: the first
// extent of the first input is one less than the program's. --null: inputs are at null pointers. --weights,
// --unchecked, --unmapped: LoadProgramOptions. Prints what an error is and says, and ends with 3.
#include <lazuli/run.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

int fail(const char *kind, const lz::Error &error) {
    std::printf("%s: %s\n", kind, error.what());
    return 3;
}

/// Elements of all results.
std::string call(const lz::run::Program &program, const std::vector<lz::run::View> &inputs,
                 const std::vector<double> &numbers) {
    std::string elements;
    for (const lz::run::Array &array : program(inputs, numbers))
        elements.append(static_cast<const char *>(array.data()), array.bytes());
    return elements;
}

int run(int argc, char **argv) {
    std::ifstream in(argv[2], std::ios::binary);
    const std::vector<char> given{std::istreambuf_iterator<char>(in), {}};
    std::vector<double> numbers;
    bool cut = false, null = false;
    uint64_t seed = 0;
    lz::LoadProgramOptions options;
    for (int a = 4; a < argc; ++a) {
        const std::string word = argv[a];
        if (word.starts_with("--seed="))
            seed = std::strtoull(word.c_str() + 7, nullptr, 10);
        else if (word == "--cut")
            cut = true;
        else if (word == "--null")
            null = true;
        else if (word.starts_with("--weights="))
            options.weights = word.substr(10);
        else if (word == "--unchecked")
            options.check_weights = false;
        else if (word == "--unmapped")
            options.map_weights = false;
        else
            numbers.push_back(std::strtod(word.c_str(), nullptr));
    }
    const lz::run::Program program = lz::run::load_program(argv[1], options);
    std::vector<lz::run::View> views;
    std::deque<std::vector<char>> inputs; // aligned
    size_t at = 0;
    for (const lz::ProgramTensor &input : program.signatures()[0].inputs) {
        auto bytes = static_cast<size_t>(lz::size_of(input.dtype));
        for (const int64_t extent : input.shape)
            bytes *= static_cast<size_t>(extent);
        std::vector<int64_t> shape = input.shape;
        if (cut && at == 0)
            --shape[0];
        const auto begin = given.begin() + static_cast<std::ptrdiff_t>(std::min(at, given.size()));
        const auto count = std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(bytes), given.end() - begin);
        inputs.emplace_back(begin, begin + count);
        views.emplace_back(null ? nullptr : inputs.back().data(), inputs.back().size(), input.dtype, shape);
        at += bytes;
    }
    std::string elements;
    for (int turn = 0; turn < 4; ++turn) {
        program.manual_seed(seed);
        const std::string now = call(program, views, numbers);
        if (turn > 0 && now != elements) {
            std::printf("call %d gave something else\n", turn);
            return 4;
        }
        elements = now;
    }
    std::ofstream(argv[3], std::ios::binary | std::ios::trunc) << elements;
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    try {
        return run(argc, argv);
    } catch (const lz::DeviceError &error) {
        return fail("DeviceError", error);
    } catch (const lz::IndexError &error) {
        return fail("IndexError", error);
    } catch (const lz::ShapeError &error) {
        return fail("ShapeError", error);
    } catch (const lz::CompileError &error) {
        return fail("CompileError", error);
    } catch (const lz::IoError &error) {
        return fail("IoError", error);
    } catch (const lz::Error &error) {
        return fail("Error", error);
    }
}
