#pragma once
/// The small part of JSON that heads of files need.

#include "frontend/io/source.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lz::io {

/// A value. Objects keep the order of the text.
struct Json {
    enum class Kind : uint8_t { Null, Bool, Unsigned, Number, Text, List, Object };

    Kind kind = Kind::Null;
    uint64_t number = 0; ///< of an Unsigned: a whole number that is not negative
    std::string text;
    std::vector<Json> list;        ///< the values of an object, too
    std::vector<std::string> keys; ///< of an object

    const Json *find(std::string_view name) const;
};

/// Fails (through `source`) for what is no JSON, for an object that names a member twice, and for more than 8
/// levels. `what` names the text: `its header`.
Json parse_json(const Source &source, std::string_view text, const std::string &what);

/// `"text"` with what JSON escapes. Throws IoError for text that is not UTF-8.
std::string json_text(std::string_view text, const char *function, Location loc);

} // namespace lz::io
