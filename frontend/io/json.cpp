// The only file that includes nlohmann's header, which takes seconds to compile.
#include "frontend/io/json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unordered_set>

namespace lz::io {

namespace {

using Parser = nlohmann::json;

/// Builds a Json from the parser's events, and stops at what a head of a file does not have.
class Builder final : public Parser::json_sax_t {
public:
    Builder(const Source &source, const std::string &what) : source_(source), what_(what) {}
    Json &result() { return root_; }

    bool null() override { return put({}); }
    bool boolean(bool value) override { return put({Json::Kind::Bool, value, {}, {}, {}}); }
    bool number_integer(number_integer_t) override { return put({Json::Kind::Number, 0, {}, {}, {}}); }
    bool number_unsigned(number_unsigned_t value) override {
        return put({Json::Kind::Unsigned, value, {}, {}, {}});
    }
    bool number_float(number_float_t, const string_t &) override {
        return put({Json::Kind::Number, 0, {}, {}, {}});
    }
    bool string(string_t &value) override { return put({Json::Kind::Text, 0, std::move(value), {}, {}}); }
    bool binary(binary_t &) override { return false; }
    bool start_object(size_t) override { return open(Json::Kind::Object); }
    bool start_array(size_t) override { return open(Json::Kind::List); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t &name) override {
        if (!levels_.back().names.insert(name).second)
            source_.fail(fmt::format("{} names {} twice", what_, in_quotes(name)));
        levels_.back().key = std::move(name);
        return true;
    }
    bool parse_error(size_t at, const std::string &, const nlohmann::detail::exception &) override {
        source_.fail(fmt::format("{} is no JSON at byte {}", what_, at));
    }

private:
    struct Level {
        Json *value;
        std::string key;
        std::unordered_set<std::string> names;
    };

    Json &place(Json value) {
        if (levels_.empty())
            return root_ = std::move(value);
        Level &level = levels_.back();
        if (level.value->kind == Json::Kind::Object)
            level.value->keys.push_back(std::move(level.key));
        return level.value->list.emplace_back(std::move(value));
    }
    bool put(Json value) {
        place(std::move(value));
        return true;
    }
    bool open(Json::Kind kind) {
        constexpr size_t kMaxLevels = 8;
        if (levels_.size() == kMaxLevels)
            source_.fail(fmt::format("{} has more than {} levels", what_, kMaxLevels));
        // Stays where it is: what holds it grows no more until it is closed.
        levels_.push_back({&place({kind, 0, {}, {}, {}}), {}, {}});
        return true;
    }
    bool close() {
        levels_.pop_back();
        return true;
    }

    const Source &source_;
    const std::string &what_;
    Json root_;
    std::vector<Level> levels_;
};

} // namespace

const Json *Json::find(std::string_view name) const {
    for (size_t i = 0; i < keys.size(); ++i)
        if (keys[i] == name)
            return &list[i];
    return nullptr;
}

Json parse_json(const Source &source, std::string_view text, const std::string &what) {
    Builder builder(source, what);
    Parser::sax_parse(text.begin(), text.end(), &builder);
    return std::move(builder.result());
}

std::string json_text(std::string_view text, const char *function, Location loc) {
    try {
        return Parser(std::string(text)).dump();
    } catch (const Parser::exception &) {
        throw IoError(fmt::format("{}: the name or text {} is not UTF-8", function, in_quotes(text)), loc);
    }
}

} // namespace lz::io
