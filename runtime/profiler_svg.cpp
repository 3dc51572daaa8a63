#include "runtime/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

namespace lz::runtime {
namespace {

constexpr int kLeft = 130, kWidth = 900, kRow = 22, kTop = 30;

struct Colour {
    std::string_view category;
    std::string_view fill;
};
constexpr std::array kColours = {
    Colour{"kernel", "#4c78a8"},  Colour{"library", "#72b7b2"}, Colour{"copy", "#f58518"},
    Colour{"compile", "#b279a2"}, Colour{"record", "#9d755d"},
};

std::string_view fill_of(const std::string &category) {
    for (const Colour &colour : kColours)
        if (colour.category == category)
            return colour.fill;
    return "#bab0ac";
}

std::string escaped(const std::string &text) {
    std::string out;
    for (const char c : text)
        out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    return out;
}

/// Host threads come first, then devices; streams in order.
std::pair<int, int> row_key(const ProfileEvent &event) {
    const int device = event.host ? -1 : static_cast<int>(event.device.kind) * 256 + event.device.index;
    return {device, event.track};
}

std::string row_name(const ProfileEvent &event) {
    return event.host ? fmt::format("host thread {}", event.track)
                      : fmt::format("{} stream {}", ir::to_string(event.device), event.track);
}

} // namespace

std::string trace_svg(const std::vector<ProfileEvent> &events) {
    int64_t begin = INT64_MAX, end = INT64_MIN;
    std::map<std::pair<int, int>, std::string> rows;
    for (const ProfileEvent &event : events) {
        begin = std::min(begin, event.begin);
        end = std::max(end, event.end);
        rows.emplace(row_key(event), row_name(event));
    }
    const double span = events.empty() ? 1 : static_cast<double>(std::max<int64_t>(end - begin, 1));
    const auto x_of = [&](int64_t at) { return kLeft + static_cast<double>(at - begin) / span * kWidth; };
    const auto y_of = [&](const ProfileEvent &event) {
        return kTop + kRow * static_cast<int>(std::distance(rows.begin(), rows.find(row_key(event))));
    };
    const int height = kTop + kRow * static_cast<int>(rows.size()) + 30;
    std::string svg = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
                                  "font-family=\"sans-serif\" font-size=\"11\">\n"
                                  "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                                  kLeft + kWidth + 60, height);
    int y = kTop;
    for (const auto &[key, name] : rows) {
        svg += fmt::format("<text x=\"6\" y=\"{}\">{}</text>\n"
                           "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#dddddd\"/>\n",
                           y + 14, escaped(name), kLeft, y + kRow, kLeft + kWidth, y + kRow);
        y += kRow;
    }
    for (const ProfileEvent &event : events) {
        const double x = x_of(event.begin);
        const double width = std::max(x_of(event.end) - x, 0.75);
        const auto letters = static_cast<size_t>(width / 6.2);
        svg += fmt::format("<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" "
                           "stroke=\"white\" stroke-width=\"0.4\"><title>{}: {:.1f} us</title></rect>\n",
                           x, y_of(event) + 2, width, kRow - 4, fill_of(event.category), escaped(event.name),
                           static_cast<double>(event.end - event.begin) / 1e3);
        if (letters >= 4)
            svg += fmt::format("<text x=\"{:.2f}\" y=\"{}\" fill=\"white\">{}</text>\n", x + 3,
                               y_of(event) + 15, escaped(event.name.substr(0, letters)));
    }
    for (int tick = 0; tick <= 4; ++tick)
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" fill=\"#555555\">{:.1f} us</text>\n",
                           kLeft + kWidth * tick / 4.0 - 14, height - 10, span * tick / 4 / 1e3);
    return svg + "</svg>\n";
}

} // namespace lz::runtime
