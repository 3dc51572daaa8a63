#include "engine/dump.h"

#include "engine/log.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace lz::engine {

void Dumper::write(std::string_view what, std::string_view extension, const std::string &text) const {
    if (options_.dump_dir.empty()) {
        const std::string whole = fmt::format("// ---- program {}: {}\n{}{}", program_, what, text,
                                              text.empty() || text.back() != '\n' ? "\n" : "");
        std::fwrite(whole.data(), 1, whole.size(), stderr);
        return;
    }
    std::error_code error;
    std::filesystem::create_directories(options_.dump_dir, error);
    const std::string path = fmt::format("{}/p{:04}-{}.{}", options_.dump_dir, program_, what, extension);
    std::ofstream out(path);
    out << text;
    if (!out)
        log_line("dump", fmt::format("{} could not be written", path));
}

} // namespace lz::engine
