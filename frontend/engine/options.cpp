#include "frontend/engine/options.h"

#include "frontend/engine/debug/log.h"
#include "ir/diagnostic.h"
#include "runtime/virtual/backend.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace lz::engine {
namespace {

/// A word of a list variable and the switch that it turns on.
struct Word {
    std::string_view text;
    bool Dumps::*dump = nullptr;
    bool Options::*option = nullptr;
};

constexpr std::array kDumpWords = {
    Word{"graph", &Dumps::graph},     Word{"passes", &Dumps::passes}, Word{"kernel", &Dumps::kernel},
    Word{"llvm", &Dumps::llvm},       Word{"asm", &Dumps::assembly},  Word{"program", &Dumps::program},
    Word{"explain", &Dumps::explain}, Word{"dot", &Dumps::dot},
};
constexpr std::array kLogWords = {
    Word{"compile", nullptr, &Options::log_compile},
    Word{"run", nullptr, &Options::log_run},
    Word{"memory", nullptr, &Options::log_memory},
};

struct Flag {
    const char *variable;
    bool Options::*option;
};
constexpr std::array kFlags = {
    Flag{"LAZULI_VERIFY", &Options::verify},
    Flag{"LAZULI_LAUNCH_BLOCKING", &Options::launch_blocking},
    Flag{"CUDA_LAUNCH_BLOCKING", &Options::launch_blocking},
    Flag{"LAZULI_FAST_MATH", &Options::fast_math},
    Flag{"LAZULI_REPRODUCIBLE", &Options::reproducible},
    Flag{"LAZULI_NO_MEMORY_CACHING", &Options::no_memory_caching},
    Flag{"LAZULI_CHECK_DEVICES", &Options::check_devices},
    Flag{"LAZULI_CUDA_FAST_COMPILE", &Options::cuda_fast_compile},
};

std::optional<std::string_view> variable(const char *name) {
    const char *value = std::getenv(name);
    if (!value || !*value)
        return std::nullopt;
    return value;
}

void complain(std::string_view name, std::string_view value, const std::string &expected) {
    log_line("options", fmt::format("{}={} is ignored: expected {}", name, value, expected));
}

template <size_t N>
void read_words(const char *name, const std::array<Word, N> &words, Options &options) {
    const auto value = variable(name);
    if (!value)
        return;
    for (size_t at = 0; at <= value->size();) {
        const size_t end = std::min(value->find_first_of(",|", at), value->size());
        const std::string_view word = value->substr(at, end - at);
        at = end + 1;
        bool known = word.empty();
        for (const Word &w : words) {
            if (w.text != word)
                continue;
            known = true;
            if (w.dump)
                options.dump.*w.dump = true;
            else
                options.*w.option = true;
        }
        if (!known) {
            std::string list;
            for (const Word &w : words)
                list += (list.empty() ? "" : ", ") + std::string(w.text);
            complain(name, word, "one or more of " + list);
        }
    }
}

std::optional<bool> read_bool(const char *name, const char *meaning = "0 or 1") {
    const auto value = variable(name);
    if (!value)
        return std::nullopt;
    if (*value == "1" || *value == "true" || *value == "on")
        return true;
    if (*value == "0" || *value == "false" || *value == "off")
        return false;
    complain(name, *value, meaning);
    return std::nullopt;
}

/// `4096`, `64M`, `2G`.
std::optional<int64_t> read_bytes(const char *name) {
    const auto value = variable(name);
    if (!value)
        return std::nullopt;
    int64_t number = 0;
    const char *const end = value->data() + value->size();
    const auto [at, error] = std::from_chars(value->data(), end, number);
    const std::string_view unit(at, static_cast<size_t>(end - at));
    const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
    if (error != std::errc() || number < 0 || shift < 0 || number > (INT64_MAX >> shift)) {
        complain(name, *value, "a number of bytes such as 4096, 64M or 2G");
        return std::nullopt;
    }
    return number << shift;
}

/// A whole number within bounds; `meaning` completes "expected ...".
template <class T>
std::optional<T> read_integer(const char *name, T low, T high, const char *meaning) {
    const auto value = variable(name);
    if (!value)
        return std::nullopt;
    T number{};
    const char *const end = value->data() + value->size();
    const auto [at, error] = std::from_chars(value->data(), end, number);
    if (error == std::errc() && at == end && number >= low && number <= high)
        return number;
    complain(name, *value, meaning);
    return std::nullopt;
}

/// Indices up to the first thing that is not one, as the CUDA driver reads them; set to nothing hides all.
/// Blanks around them mean nothing.
std::optional<std::vector<int>> read_visible_devices() {
    const char *const text = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!text)
        return std::nullopt;
    std::vector<int> indices;
    const std::string_view value = text;
    for (size_t at = 0; at < value.size();) {
        const size_t end = std::min(value.find(',', at), value.size());
        std::string_view entry = value.substr(at, end - at);
        constexpr std::string_view blanks = " \t";
        entry.remove_prefix(std::min(entry.find_first_not_of(blanks), entry.size()));
        entry = entry.substr(0, entry.find_last_not_of(blanks) + 1);
        int index = -1;
        const auto [stop, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
        if (error != std::errc() || stop != entry.data() + entry.size() || index < 0)
            break;
        indices.push_back(index);
        at = end + 1;
    }
    return indices;
}

/// What Options::request_virtual_gpus said.
struct Request {
    std::optional<int> gpus;
    int64_t memory = 0;
    std::string model;
};
Request &request() {
    static Request &request = *new Request; // the engine may start in a destructor of a static
    return request;
}

void read_virtual_gpus(Options &options) {
    if (const auto count =
            read_integer("LAZULI_VIRTUAL_GPUS", 0, kMaxVirtualGpus, "a number of GPUs from 0 to 16"))
        options.virtual_gpus = *count;
    else
        options.virtual_gpus = request().gpus;
    options.virtual_memory = read_bytes("LAZULI_VIRTUAL_MEMORY").value_or(request().memory);
    options.virtual_peers = read_bool("LAZULI_VIRTUAL_PEERS").value_or(true);
    options.virtual_delay = read_integer<uint64_t>("LAZULI_VIRTUAL_DELAY", 0, UINT64_MAX, "a seed");
    options.virtual_model = request().model;
    if (const auto value = variable("LAZULI_VIRTUAL_MODEL"))
        options.virtual_model = *value;
    options.visible_devices = read_visible_devices();
}

std::string default_cache_dir() {
    if (const auto xdg = variable("XDG_CACHE_HOME"))
        return std::string(*xdg) + "/lazuli";
    if (const auto home = variable("HOME"))
        return std::string(*home) + "/.cache/lazuli";
    return "";
}

} // namespace

void Options::request_virtual_gpus(int count, int64_t memory_bytes, std::string model) {
    if (!model.empty())
        try {
            runtime::VirtualModel::parse(model);
        } catch (const ir::Failure &failure) {
            throw ir::Failure(ir::ErrorKind::Device, "use_virtual_gpus: " + failure.message());
        }
    // What the environment says instead is tried when the engine starts.
    if (!variable("LAZULI_VIRTUAL_GPUS") && !variable("LAZULI_VIRTUAL_MEMORY"))
        try {
            runtime::VirtualOptions options;
            options.count = count;
            options.memory_bytes = static_cast<size_t>(memory_bytes);
            runtime::make_virtual_gpus(options, nullptr);
        } catch (const ir::Failure &failure) {
            throw ir::Failure(ir::ErrorKind::Device, "use_virtual_gpus: " + failure.message());
        }
    request() = {count, memory_bytes, std::move(model)};
}

Options Options::from_environment() {
    Options options;
    read_words("LAZULI_DUMP", kDumpWords, options);
    read_words("LAZULI_LOG", kLogWords, options);
    for (const Flag &flag : kFlags)
        if (const auto value = read_bool(flag.variable))
            options.*flag.option |= *value;
    if (const auto value = read_bool("LAZULI_FUSE"))
        options.fuse = *value;
    if (const auto value = read_bool("LAZULI_CUDA_GRAPHS"))
        options.cuda_graphs = *value;
    if (const auto value = read_bool("LAZULI_CUDA_EXPANDABLE_SEGMENTS"))
        options.cuda_expandable_segments = *value;
    if (const auto value = variable("LAZULI_DUMP_DIR"))
        options.dump_dir = *value;
    if (const auto value = variable("LAZULI_ALLOC_CONF"))
        options.alloc_conf = *value;
    options.cache_dir = default_cache_dir();
    if (const char *value = std::getenv("LAZULI_CACHE_DIR")) // set to nothing: no disk cache
        options.cache_dir = std::string_view(value) == "off" ? "" : value;
    if (const auto value = read_bytes("LAZULI_CACHE_SIZE"))
        options.cache_bytes = *value;
    if (const auto threads = read_integer("LAZULI_THREADS", 1, 4096, "a number of threads from 1 to 4096"))
        options.threads = *threads;
    if (const auto period =
            read_integer("LAZULI_CHECK_COMPILED", 0, 1 << 30, "0, or after how many replays one is checked"))
        options.check_compiled = *period;
    if (const auto value = variable("LAZULI_TRANSFER")) {
        options.automatic_transfer = *value == "automatic";
        if (!options.automatic_transfer && *value != "explicit")
            complain("LAZULI_TRANSFER", *value, "explicit or automatic");
    }
    if (const auto value = variable("LAZULI_FLOAT32_MATMUL_PRECISION")) {
        if (const auto precision = ir::matmul_precision(*value))
            options.float32_matmul = *precision;
        else
            complain("LAZULI_FLOAT32_MATMUL_PRECISION", *value, "highest, high or medium");
    }
    if (const auto value = variable("LAZULI_CODEGEN")) {
        options.codegen = *value == "interpret" ? Codegen::Interpret : Codegen::Llvm;
        if (options.codegen == Codegen::Llvm && *value != "llvm")
            complain("LAZULI_CODEGEN", *value, "llvm or interpret");
    }
    if (const auto value = variable("LAZULI_QUICK")) {
        if (*value == "always")
            options.quick = Quick::Always;
        else if (const auto on = read_bool("LAZULI_QUICK", "0, 1 or always"))
            options.quick = *on ? Quick::On : Quick::Off;
    }
#ifndef NDEBUG
    options.warn_views = true;
#endif
    if (const auto value = variable("LAZULI_WARN")) {
        options.warn_views = *value == "views";
        if (!options.warn_views && *value != "none")
            complain("LAZULI_WARN", *value, "views or none");
    }
    read_virtual_gpus(options);
    return options;
}

} // namespace lz::engine
