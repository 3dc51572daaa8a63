#include "runtime/virtual/model.h"

#include "ir/diagnostic.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace lz::runtime {

namespace {

/// From the vendors' data sheets: memory, f32 without tensor cores, PCIe or NVLink in one direction (PCIe as
/// far as copies reach it).
struct Preset {
    std::string_view name;
    double memory_bandwidth, flops, link_bandwidth, peer_bandwidth;
    bool peers;
    int major, minor, multi_processor_count;
};
constexpr Preset kPresets[] = {
    {"a100", 2.039e12, 19.5e12, 2.5e10, 3.0e11, true, 8, 0, 108},
    {"h100", 3.35e12, 67e12, 5.5e10, 4.5e11, true, 9, 0, 132},
    {"h200", 4.8e12, 67e12, 5.5e10, 4.5e11, true, 9, 0, 132},
    {"b200", 8.0e12, 80e12, 5.5e10, 9.0e11, true, 10, 0, 148},
    {"l40s", 8.64e11, 91.6e12, 2.5e10, 2.5e10, false, 8, 9, 142},
    {"rtx4090", 1.008e12, 82.6e12, 2.5e10, 2.5e10, false, 8, 9, 128},
    {"pcie", 1.0e12, 20e12, 2.5e10, 2.5e10, false, 8, 6, 84},
};

/// Bytes or operations a second, or (`is_time`) seconds. Their bounds keep the clock's nanoseconds in range.
struct Rate {
    const char *name;
    double VirtualModel::*field;
    bool is_time;
};
constexpr double kLeastRate = 1000, kMostRate = 1e30, kMostSeconds = 3600;
constexpr Rate kRates[] = {
    {"memory_bandwidth", &VirtualModel::memory_bandwidth, false},
    {"flops", &VirtualModel::flops, false},
    {"link_bandwidth", &VirtualModel::link_bandwidth, false},
    {"pageable_bandwidth", &VirtualModel::pageable_bandwidth, false},
    {"peer_bandwidth", &VirtualModel::peer_bandwidth, false},
    {"host_bandwidth", &VirtualModel::host_bandwidth, false},
    {"host_flops", &VirtualModel::host_flops, false},
    {"submit_seconds", &VirtualModel::submit_seconds, true},
    {"launch_seconds", &VirtualModel::launch_seconds, true},
    {"copy_seconds", &VirtualModel::copy_seconds, true},
    {"wave_seconds", &VirtualModel::wave_seconds, true},
};

[[noreturn]] void refuse(const std::string &message) {
    throw ir::Failure(ir::ErrorKind::State, message);
}

std::string known_presets() {
    std::string names;
    for (const Preset &preset : kPresets)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", preset.name);
    return names;
}

VirtualModel from_preset(std::string_view text) {
    std::string_view name = text;
    int devices = 0;
    const bool whole = std::ranges::find(kPresets, text, &Preset::name) != std::end(kPresets); // rtx4090
    if (const size_t x = text.rfind('x'); !whole && x != std::string_view::npos && x + 1 < text.size()) {
        const char *const end = text.data() + text.size();
        if (auto [stop, error] = std::from_chars(text.data() + x + 1, end, devices);
            error == std::errc() && stop == end) {
            name = text.substr(0, x);
            if (devices < 1)
                refuse(fmt::format("The virtual model `{}` asks for {} GPUs; it takes 1 or more.", text,
                                   devices));
        } else {
            devices = 0;
        }
    }
    const auto *preset = std::ranges::find(kPresets, name, &Preset::name);
    if (preset == std::end(kPresets))
        refuse(fmt::format(
            "There is no virtual model `{}`: the known ones are {}, with x and a number for that "
            "many GPUs (h200x4); anything else is the path of a JSON file, which ends with .json.",
            text, known_presets()));
    VirtualModel model;
    model.name = preset->name;
    model.devices = devices;
    model.memory_bandwidth = preset->memory_bandwidth;
    model.flops = preset->flops;
    model.link_bandwidth = preset->link_bandwidth;
    model.peer_bandwidth = preset->peer_bandwidth;
    model.peers = preset->peers;
    model.major = preset->major;
    model.minor = preset->minor;
    model.multi_processor_count = preset->multi_processor_count;
    return model;
}

/// One entry of a file's object.
void set(VirtualModel &model, const std::string &path, const std::string &key, const nlohmann::json &value) {
    const auto wanted = [&](const char *what) {
        refuse(fmt::format("{}: `{}` is {}, and should be {}.", path, key, value.dump(), what));
    };
    const auto whole = [&](const nlohmann::json &number, int least, const char *what) {
        if (!number.is_number_integer() || number.get<int64_t>() < least || number.get<int64_t>() > 1'000'000)
            wanted(what);
        return number.get<int>();
    };
    const auto *rate = std::ranges::find_if(kRates, [&](const Rate &r) { return key == r.name; });
    if (rate != std::end(kRates)) {
        const double number = value.is_number() ? value.get<double>() : -1;
        const double least = rate->is_time ? 0 : kLeastRate, most = rate->is_time ? kMostSeconds : kMostRate;
        if (!(number >= least && number <= most))
            wanted(rate->is_time ? "a number from 0 to 3600" : "a number, 1000 or more");
        model.*rate->field = number;
    } else if (key == "name") {
        if (!value.is_string())
            wanted("a text");
        model.name = value.get<std::string>();
    } else if (key == "devices") {
        model.devices = whole(value, 1, "a whole number, 1 or more");
    } else if (key == "multi_processor_count") {
        model.multi_processor_count = whole(value, 0, "a whole number, 0 or more");
    } else if (key == "peers") {
        if (!value.is_boolean())
            wanted("true or false");
        model.peers = value.get<bool>();
    } else if (key == "compute_capability") {
        if (!value.is_array() || value.size() != 2)
            wanted("a pair as [9, 0]");
        model.major = whole(value[0], 0, "a pair as [9, 0]");
        model.minor = whole(value[1], 0, "a pair as [9, 0]");
    } else {
        std::string names = "base, name, devices, peers, compute_capability, multi_processor_count";
        for (const Rate &r : kRates)
            names += fmt::format(", {}", r.name);
        refuse(fmt::format("{}: a virtual model has no `{}`; it has {}.", path, key, names));
    }
}

VirtualModel from_file(const std::string &path) {
    std::ifstream file(path);
    std::error_code none;
    if (!file || std::filesystem::is_directory(path, none)) // which can be opened, and throws when it is read
        throw ir::Failure(ir::ErrorKind::Io, fmt::format("The virtual model {} cannot be read.", path));
    nlohmann::json json;
    try {
        json = nlohmann::json::parse(file);
    } catch (const nlohmann::json::exception &error) {
        refuse(fmt::format("The virtual model {} is not JSON: {}.", path, error.what()));
    }
    if (!json.is_object())
        refuse(fmt::format("The virtual model {} is not a JSON object.", path));
    VirtualModel model;
    if (const auto base = json.find("base"); base != json.end()) {
        if (!base->is_string())
            refuse(fmt::format("{}: `base` is {}, and should be the name of a preset.", path, base->dump()));
        model = from_preset(base->get<std::string>());
        json.erase(base);
    }
    for (const auto &[key, value] : json.items())
        set(model, path, key, value);
    return model;
}

} // namespace

VirtualModel VirtualModel::parse(std::string_view text) {
    if (text.ends_with(".json") || text.find('/') != std::string_view::npos)
        return from_file(std::string(text));
    return from_preset(text);
}

} // namespace lz::runtime
