#include "frontend/engine/debug/dump.h"

#include "frontend/engine/debug/log.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace lz::engine {

std::string name_streams(std::span<const ir::StreamRef> streams) {
    std::string names;
    int32_t number = ir::kFirstUserStream;
    for (size_t i = 0; i < streams.size(); ++i, ++number) {
        if (i > 0 && streams[i].device != streams[i - 1].device)
            number = ir::kFirstUserStream;
        if (streams[i].stream != number)
            names += fmt::format("{}{} is stream {}", names.empty() ? "" : ", ",
                                 to_string(ir::StreamRef{streams[i].device, number}), streams[i].stream);
    }
    return names.empty()
               ? names
               : "The user's streams are numbered in the order of their first use; in the first run " +
                     names + ".\n";
}

void Dumper::write(std::string_view what, std::string_view extension, const std::string &body) const {
    const bool is_ir = extension == "lz" && !what.starts_with("kernel");
    const std::string text = is_ir && !note_.empty() ? "// " + note_ + body
                             : extension == "txt"    ? note_ + body
                                                     : body;
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
