#include "codegen/cuda/unit.h"

#include "codegen/process_end.h"
#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

namespace lz::codegen {

void check_nvrtc(const Nvrtc &nvrtc, int error, std::string_view what) {
    if (error != 0)
        throw ir::Failure(ir::ErrorKind::Compile,
                          fmt::format("NVRTC did not give {}: {}.", what, nvrtc.error(error)));
}

namespace cuda {

namespace {

/// An option that NVRTC has from a version on, and refuses before.
struct Option {
    const char *text;
    std::pair<int, int> since;
};
/// Without the declarations that no kernel here uses, which take a while to read.
constexpr Option kMinimal{"--minimal", {12, 4}};
/// Without the optimisations that take longest: half of the time, and loops that are unrolled less.
constexpr Option kFastCompile{"--Ofast-compile=mid", {12, 9}};

bool knows(const Nvrtc &nvrtc, const Option &option) {
    int major = 0, minor = 0;
    check_nvrtc(nvrtc, nvrtc.version(&major, &minor), "its version");
    return std::pair(major, minor) >= option.since;
}

} // namespace

Unit::Unit(const Nvrtc &nvrtc, const std::string &kernel, const std::string &source,
           const std::string &architecture, const Options &wanted)
    : nvrtc_(nvrtc) {
    if (nvrtc_is_gone())
        throw ir::Failure(
            ir::ErrorKind::Compile,
            fmt::format("NVRTC cannot compile kernel {} any more: main has been left.", kernel));
    check_nvrtc(nvrtc_, nvrtc_.create(&program_, source.c_str(), "kernel.cu", 0, nullptr, nullptr),
                "a program");
    const char *const contraction = wanted.fast_math ? "--fmad=true" : "--fmad=false";
    std::vector<const char *> options{architecture.c_str(), contraction, "--ptxas-options=-v"};
    if (knows(nvrtc_, kMinimal))
        options.push_back(kMinimal.text);
    if (wanted.fast_compile && knows(nvrtc_, kFastCompile))
        options.push_back(kFastCompile.text);
    const int error = nvrtc_.compile(program_, static_cast<int>(options.size()), options.data());
    note_nvrtc_use();
    if (error == 0)
        return;
    const std::string said = log();
    nvrtc_.destroy(&program_);
    throw ir::Failure(ir::ErrorKind::Compile, fmt::format("NVRTC could not compile kernel {} ({}):\n{}\n{}",
                                                          kernel, nvrtc_.error(error), said, source));
}

std::string Unit::ptx_text() const {
    const auto bytes = ptx();
    std::string text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    text.resize(std::strlen(text.c_str()));
    return text;
}

std::string Unit::log() const {
    size_t size = 0;
    if (nvrtc_.log_size(program_, &size) != 0)
        return "";
    std::string text(size, '\0');
    if (nvrtc_.log(program_, text.data()) != 0)
        return "";
    text.resize(std::strlen(text.c_str()));
    return text;
}

std::vector<std::byte> Unit::get(int (*size_of)(Nvrtc::Program, size_t *),
                                 int (*read)(Nvrtc::Program, char *)) const {
    size_t size = 0;
    check_nvrtc(nvrtc_, size_of(program_, &size), "code");
    std::vector<std::byte> bytes(size);
    check_nvrtc(nvrtc_, read(program_, reinterpret_cast<char *>(bytes.data())), "code");
    return bytes;
}

} // namespace cuda
} // namespace lz::codegen
