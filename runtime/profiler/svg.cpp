#include "runtime/profiler/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace lz::runtime {
namespace {

constexpr int kLeft = 150, kWidth = 900, kRight = 30;
constexpr int kTop = 34, kRow = 26, kBar = 18, kGroupGap = 8, kBottom = 30;

struct Colour {
    std::string_view category;
    std::string_view fill;
};
constexpr std::array kColours = {
    Colour{"kernel", "#4c78a8"},  Colour{"library", "#2a9d8f"}, Colour{"copy", "#e8862e"},
    Colour{"compile", "#9a6fb0"}, Colour{"record", "#8c7462"},
};
constexpr std::string_view kOther = "#9c9590";

std::string_view fill_of(const std::string &category) {
    for (const Colour &colour : kColours)
        if (colour.category == category)
            return colour.fill;
    return kOther;
}

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text)
        out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    return out;
}

/// As much of a name as fits, in pixels.
std::string fitted(const std::string &name, double width) {
    const auto letters = static_cast<size_t>(std::max(width - 6, 0.0) / 5.9);
    if (name.size() <= letters)
        return escaped(name);
    return letters < 4 ? "" : escaped(name.substr(0, letters - 1)) + "…";
}

/// Host threads come first, then devices; streams in order.
using RowKey = std::pair<int, int>;
RowKey row_key(const ProfileEvent &event) {
    const int device = event.host ? -1 : static_cast<int>(event.device.kind) * 256 + event.device.index;
    return {device, event.track};
}

/// 1, 2 or 5 times a power of ten, so that there are 5 to 12 of them.
double tick_step(double span) {
    const double power = std::pow(10, std::floor(std::log10(span / 5)));
    const double steps = span / 5 / power;
    return power * (steps >= 5 ? 5 : steps >= 2 ? 2 : 1);
}

class Picture {
public:
    explicit Picture(const std::vector<ProfileEvent> &events) : events_(events) {
        int64_t end = INT64_MIN;
        std::map<RowKey, std::string> names;
        for (const ProfileEvent &event : events) {
            begin_ = std::min(begin_, event.begin);
            end = std::max(end, event.end);
            names.emplace(row_key(event), row_name(event));
            categories_.insert(event.category);
        }
        if (events.empty())
            begin_ = end = 0;
        span_ = static_cast<double>(std::max<int64_t>(end - begin_, 1));
        int y = kTop, device = names.empty() ? 0 : names.begin()->first.first;
        for (auto &[key, name] : names) {
            if (key.first != device)
                y += kGroupGap;
            device = key.first;
            rows_[key] = {y, std::move(name)};
            y += kRow;
        }
        bottom_ = y;
    }

    std::string draw() {
        out_ = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
                           "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n"
                           "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
                           "markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">"
                           "<path d=\"M0 0.8 L8 4 L0 7.2 z\" fill=\"#333333\"/></marker></defs>\n"
                           "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                           kLeft + kWidth + kRight, bottom_ + kBottom);
        rows();
        axis();
        bars();
        arrows();
        legend();
        return std::move(out_) + "</svg>\n";
    }

private:
    struct Row {
        int y = 0;
        std::string name;
    };

    double x_of(int64_t at) const { return kLeft + static_cast<double>(at - begin_) / span_ * kWidth; }
    int y_of(const ProfileEvent &event) const { return rows_.at(row_key(event)).y; }

    void rows() {
        for (const auto &[key, row] : rows_)
            out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f3f4f6\"/>\n"
                                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#222222\">{}</text>\n",
                                kLeft, row.y + 1, kWidth, kRow - 2, kLeft - 8, row.y + kRow / 2 + 4,
                                escaped(row.name));
    }

    void axis() {
        const double step = tick_step(span_);
        const char *unit = span_ < 1e4 ? "ns" : span_ < 1e7 ? "us" : "ms";
        const double scale = span_ < 1e4 ? 1 : span_ < 1e7 ? 1e3 : 1e6;
        const int last = static_cast<int>(span_ * 1.0001 / step);
        for (int tick = 0; tick <= last; ++tick) {
            const double at = tick * step;
            const double x = kLeft + at / span_ * kWidth;
            out_ +=
                fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#d5d8dd\" "
                            "stroke-width=\"0.7\"/>\n<text x=\"{0:.1f}\" y=\"{3}\" "
                            "text-anchor=\"middle\" fill=\"#666666\" font-size=\"10\">{4:g} {5}</text>\n",
                            x, kTop - 4, bottom_ + 4, bottom_ + 17, at / scale, unit);
        }
    }

    void bars() {
        for (const ProfileEvent &event : events_) {
            const double x = x_of(event.begin);
            const double width = std::max(x_of(event.end) - x, 0.8);
            const int y = y_of(event) + (kRow - kBar) / 2;
            out_ += fmt::format("<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" rx=\"{}\" "
                                "fill=\"{}\" stroke=\"white\" stroke-width=\"0.5\"><title>{}: {:.1f} us"
                                "</title></rect>\n",
                                x, y, width, kBar, width > 6 ? 2 : 0, fill_of(event.category),
                                escaped(event.name), static_cast<double>(event.end - event.begin) / 1e3);
            if (const std::string name = fitted(event.name, width); !name.empty())
                out_ += fmt::format("<text x=\"{:.2f}\" y=\"{}\" fill=\"white\">{}</text>\n", x + 4, y + 13,
                                    name);
        }
    }

    /// From the end of one bar into the begin of another, leaving and arriving level.
    void arrows() {
        std::map<uint64_t, const ProfileEvent *> from;
        for (const ProfileEvent &event : events_)
            for (const uint64_t number : event.arrows_out)
                from[number] = &event;
        size_t count = 0;
        for (const ProfileEvent &event : events_)
            count += event.arrows_in.size();
        const double opacity = std::clamp(60.0 / static_cast<double>(count + 1), 0.25, 0.8);
        for (const ProfileEvent &event : events_)
            for (const uint64_t number : event.arrows_in) {
                const auto source = from.find(number);
                if (source == from.end())
                    continue;
                const double x1 = x_of(source->second->end), x2 = x_of(event.begin);
                const int y1 = y_of(*source->second) + kRow / 2, y2 = y_of(event) + kRow / 2;
                const double bend = std::clamp((x2 - x1) / 2, 7.0, 40.0);
                out_ += fmt::format("<path d=\"M{:.2f} {} C{:.2f} {} {:.2f} {} {:.2f} {}\" fill=\"none\" "
                                    "stroke=\"#333333\" stroke-width=\"1\" stroke-opacity=\"{:.2f}\" "
                                    "marker-end=\"url(#head)\"/>\n",
                                    x1, y1, x1 + bend, y1, x2 - bend, y2, x2, y2, opacity);
            }
    }

    void legend() {
        double x = kLeft;
        for (const std::string &category : categories_) {
            out_ +=
                fmt::format("<rect x=\"{:.1f}\" y=\"10\" width=\"11\" height=\"11\" rx=\"2\" fill=\"{}\"/>\n"
                            "<text x=\"{:.1f}\" y=\"20\" fill=\"#333333\">{}</text>\n",
                            x, fill_of(category), x + 16, escaped(category));
            x += 34 + 6.2 * static_cast<double>(category.size());
        }
    }

    const std::vector<ProfileEvent> &events_;
    int64_t begin_ = INT64_MAX;
    double span_ = 1;
    int bottom_ = kTop;
    std::map<RowKey, Row> rows_;
    std::set<std::string> categories_;
    std::string out_;
};

} // namespace

std::string trace_svg(const std::vector<ProfileEvent> &events) {
    return Picture(events).draw();
}

} // namespace lz::runtime
