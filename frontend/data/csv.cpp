// Reads twice: first to find each column's type, then to fill it. So no text is kept of what are numbers.
#include "lazuli/data/csv.h"

#include "frontend/data/packed_file.h"
#include "lazuli/device/memory.h"
#include "lazuli/ops/creation.h"
#include "lazuli/ops/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <variant>

namespace lz::data {

namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

struct Column {
    std::string name;
    // What all fields so far may be.
    bool integers = true, numbers = true, bools = true, any = false;
    std::variant<std::monostate, std::vector<int64_t>, std::vector<double>, std::vector<uint8_t>,
                 std::vector<std::string>>
        values;
    bool some_missing = false;
};

std::string_view trimmed(std::string_view field) {
    while (!field.empty() && field.front() == ' ')
        field.remove_prefix(1);
    while (!field.empty() && field.back() == ' ')
        field.remove_suffix(1);
    return field;
}

template <class T>
bool parse(std::string_view field, T &value) {
    field = trimmed(field);
    if (field.size() > 1 && field[0] == '+' && field[1] != '-')
        field.remove_prefix(1);
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if constexpr (std::is_floating_point_v<T>)
        if (error == std::errc::result_out_of_range && end == field.data() + field.size())
            return true; // from_chars leaves it as it was: see `number`
    return error == std::errc() && end == field.data() + field.size();
}
/// Beyond the range of f64 it is an infinity or 0, as strtod says.
double number(std::string_view field) {
    double value = 0;
    field = trimmed(field);
    if (field.size() > 1 && field[0] == '+')
        field.remove_prefix(1);
    if (std::from_chars(field.data(), field.data() + field.size(), value).ec ==
        std::errc::result_out_of_range)
        value = std::strtod(std::string(field).c_str(), nullptr);
    return value;
}

bool parse_bool(std::string_view field, bool &value) {
    field = trimmed(field);
    for (const std::string_view yes : {"true", "True", "TRUE"})
        if (field == yes)
            return value = true;
    for (const std::string_view no : {"false", "False", "FALSE"})
        if (field == no) {
            value = false;
            return true;
        }
    return false;
}

/// Cuts text into lines and fields.
class Reader {
public:
    Reader(std::string_view text, const CsvOptions &options, const std::string &source, Location loc)
        : text_(text), options_(options), source_(source), loc_(loc) {
        if (text_.starts_with("\xef\xbb\xbf"))
            at_ = 3;
    }

    /// The fields of the next line that is not empty; false at the end. They are valid until the next call.
    bool next(std::vector<std::string_view> &fields) {
        while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) {
            line_ += text_[at_] == '\n';
            ++at_;
        }
        fields.clear();
        unquoted_.clear();
        if (at_ >= text_.size())
            return false;
        begun_ = line_;
        for (;;) {
            fields.push_back(field());
            if (at_ >= text_.size())
                return true;
            const char c = text_[at_++];
            if (c == options_.delimiter)
                continue;
            if (c == '\r' && at_ < text_.size() && text_[at_] == '\n')
                ++at_;
            ++line_;
            return true;
        }
    }
    /// The line on which the last fields began, from 1.
    int64_t line() const { return begun_; }
    [[noreturn]] void fail(int64_t line, const std::string &what) const {
        throw IoError(fmt::format("read_csv: {}, line {}: {}", source_, line, what), loc_);
    }

private:
    bool ends_field(char c) const { return c == options_.delimiter || c == '\n' || c == '\r'; }

    std::string_view field() {
        if (at_ < text_.size() && text_[at_] == options_.quote)
            return quoted_field();
        const size_t begin = at_;
        while (at_ < text_.size() && !ends_field(text_[at_]))
            ++at_;
        return text_.substr(begin, at_ - begin);
    }
    std::string_view quoted_field() {
        const int64_t opened = line_;
        const size_t begin = ++at_;
        bool doubled = false;
        for (;; ++at_) {
            if (at_ >= text_.size())
                fail(opened, "a quoted field does not end");
            line_ += text_[at_] == '\n';
            if (text_[at_] != options_.quote)
                continue;
            if (at_ + 1 >= text_.size() || text_[at_ + 1] != options_.quote)
                break;
            doubled = true;
            ++at_;
        }
        const std::string_view raw = text_.substr(begin, at_ - begin);
        ++at_;
        if (at_ < text_.size() && !ends_field(text_[at_]))
            fail(line_, "something follows the end of a quoted field");
        if (!doubled)
            return raw;
        auto &out = unquoted_.emplace_back(std::make_unique<std::string>());
        for (size_t i = 0; i < raw.size(); ++i) {
            *out += raw[i];
            i += raw[i] == options_.quote;
        }
        return *out;
    }

    std::string_view text_;
    const CsvOptions &options_;
    const std::string &source_;
    Location loc_;
    size_t at_ = 0;
    int64_t line_ = 1, begun_ = 1;
    std::vector<std::unique_ptr<std::string>> unquoted_;
};

bool is_missing(std::string_view field, const CsvOptions &options) {
    return std::find(options.missing.begin(), options.missing.end(), field) != options.missing.end();
}

void narrow_type(Column &column, std::string_view field, const CsvOptions &options) {
    if (is_missing(field, options)) {
        column.some_missing = true;
        return;
    }
    column.any = true;
    int64_t whole = 0;
    double real = 0;
    bool truth = false;
    column.integers = column.integers && parse(field, whole);
    column.numbers = column.numbers && (column.integers || parse(field, real));
    column.bools = column.bools && parse_bool(field, truth);
}

void choose_type(Column &column, int64_t rows) {
    const auto reserve = [&](auto values) {
        values.reserve(static_cast<size_t>(rows));
        column.values = std::move(values);
    };
    if (column.any && column.integers && !column.some_missing)
        reserve(std::vector<int64_t>());
    else if (column.any && column.bools && !column.some_missing)
        reserve(std::vector<uint8_t>());
    else if (column.numbers)
        reserve(std::vector<double>());
    else
        reserve(std::vector<std::string>());
}

void append(Column &column, std::string_view field, const CsvOptions &options) {
    const bool missing = is_missing(field, options);
    if (auto *integers = std::get_if<std::vector<int64_t>>(&column.values)) {
        int64_t value = 0;
        parse(field, value);
        integers->push_back(value);
    } else if (auto *bools = std::get_if<std::vector<uint8_t>>(&column.values)) {
        bool value = false;
        parse_bool(field, value);
        bools->push_back(value);
    } else if (auto *reals = std::get_if<std::vector<double>>(&column.values)) {
        reals->push_back(missing ? kMissing : number(field));
    } else {
        std::get<std::vector<std::string>>(column.values).emplace_back(missing ? "" : field);
    }
}

} // namespace

struct CsvTable::State {
    std::vector<Column> columns;
    std::map<std::string, size_t> places;
    int64_t rows = 0;

    const Column &find(const std::string &name, Location loc) const {
        const auto found = places.find(name);
        if (found == places.end())
            throw IndexError(
                fmt::format("CsvTable: there is no column \"{}\" among {}", name, columns.size()), loc);
        return columns[found->second];
    }
    const std::vector<std::string> &text(const std::string &name, const char *function, Location loc) const {
        const auto *const text = std::get_if<std::vector<std::string>>(&find(name, loc).values);
        if (!text)
            throw DTypeError(
                fmt::format("CsvTable::{}: column \"{}\" has numbers; see column", function, name), loc);
        return *text;
    }
};

namespace {

CsvOptions checked(const CsvOptions &options, Location loc) {
    if (options.delimiter == options.quote || options.delimiter == '\n' || options.quote == '\n')
        throw StateError("read_csv: the delimiter, the quote and the end of a line have to differ", loc);
    return options;
}

struct Parsed {
    std::vector<Column> columns;
    std::map<std::string, size_t> places;
    int64_t rows = 0;
};

Parsed parse_table(std::string_view text, const CsvOptions &options, const std::string &source,
                   Location loc) {
    Parsed table;
    std::vector<std::string_view> fields;
    Reader types(text, options, source, loc);
    while (types.next(fields)) {
        if (table.columns.empty()) {
            for (size_t i = 0; i < fields.size(); ++i) {
                Column &column = table.columns.emplace_back();
                column.name = options.header ? std::string(fields[i]) : std::to_string(i);
                if (!table.places.emplace(column.name, i).second)
                    types.fail(types.line(), fmt::format("two columns are named \"{}\"", column.name));
            }
            if (options.header)
                continue;
        }
        if (fields.size() != table.columns.size())
            types.fail(types.line(), fmt::format("it has {} fields, and there are {} columns", fields.size(),
                                                 table.columns.size()));
        for (size_t i = 0; i < fields.size(); ++i)
            narrow_type(table.columns[i], fields[i], options);
        ++table.rows;
    }
    for (Column &column : table.columns)
        choose_type(column, table.rows);
    Reader values(text, options, source, loc);
    if (options.header)
        values.next(fields);
    while (values.next(fields))
        for (size_t i = 0; i < fields.size(); ++i)
            append(table.columns[i], fields[i], options);
    return table;
}

Tensor tensor_of(const Column &column, Location loc) {
    const TensorOptions on_cpu = {.device = Device::cpu()};
    if (const auto *integers = std::get_if<std::vector<int64_t>>(&column.values))
        return tensor(*integers, on_cpu, loc);
    if (const auto *reals = std::get_if<std::vector<double>>(&column.values))
        return tensor(*reals, on_cpu, loc);
    if (const auto *bools = std::get_if<std::vector<uint8_t>>(&column.values))
        return tensor(*bools, on_cpu, loc).to(DType::Bool, loc);
    throw DTypeError(
        fmt::format("CsvTable: column \"{}\" has text, not numbers; see text and categories", column.name),
        loc);
}

} // namespace

CsvTable parse_csv(std::string text, const CsvOptions &options, Location loc) {
    Parsed parsed = parse_table(text, checked(options, loc), "text", loc);
    CsvTable table;
    table.state_ = std::make_shared<const CsvTable::State>(
        CsvTable::State{std::move(parsed.columns), std::move(parsed.places), parsed.rows});
    return table;
}

CsvTable read_csv(const std::string &path, const CsvOptions &options, Location loc) {
    PackedFile file(path, "read_csv", loc);
    const int64_t limit = options.max_bytes > 0 ? options.max_bytes : mem_get_info(Device::cpu()).first;
    const std::string text = file.read(static_cast<uint64_t>(limit));
    if (!file.read(1).empty())
        file.fail(fmt::format("it has more than {} bytes of text", limit));
    Parsed parsed = parse_table(text, checked(options, loc), "\"" + path + "\"", loc);
    CsvTable table;
    table.state_ = std::make_shared<const CsvTable::State>(
        CsvTable::State{std::move(parsed.columns), std::move(parsed.places), parsed.rows});
    return table;
}

CsvTable::CsvTable() : state_(std::make_shared<const State>()) {}

int64_t CsvTable::rows() const {
    return state_->rows;
}
std::vector<std::string> CsvTable::names() const {
    std::vector<std::string> names;
    for (const Column &column : state_->columns)
        names.push_back(column.name);
    return names;
}
std::optional<DType> CsvTable::dtype(const std::string &name, Location loc) const {
    const Column &column = state_->find(name, loc);
    if (std::holds_alternative<std::vector<int64_t>>(column.values))
        return DType::I64;
    if (std::holds_alternative<std::vector<uint8_t>>(column.values))
        return DType::Bool;
    if (std::holds_alternative<std::vector<double>>(column.values))
        return DType::F64;
    return std::nullopt;
}
Tensor CsvTable::column(const std::string &name, Location loc) const {
    return tensor_of(state_->find(name, loc), loc);
}
const std::vector<std::string> &CsvTable::text(const std::string &name, Location loc) const {
    return state_->text(name, "text", loc);
}

std::pair<Tensor, std::vector<std::string>> CsvTable::categories(const std::string &name,
                                                                 Location loc) const {
    const std::vector<std::string> &text = state_->text(name, "categories", loc);
    std::map<std::string, int64_t> numbers;
    for (const std::string &entry : text)
        if (!entry.empty())
            numbers.emplace(entry, 0);
    std::vector<std::string> values;
    for (auto &[value, number] : numbers) {
        number = static_cast<int64_t>(values.size());
        values.push_back(value);
    }
    std::vector<int64_t> codes;
    for (const std::string &entry : text)
        codes.push_back(entry.empty() ? -1 : numbers[entry]);
    return {lz::tensor(codes, {.device = Device::cpu()}, loc), values};
}

Tensor CsvTable::tensor(const std::vector<std::string> &names, DType dtype, Location loc) const {
    std::vector<Tensor> columns;
    for (const std::string &name : names.empty() ? this->names() : names) {
        const Column &column = state_->find(name, loc);
        if (!is_floating_point(dtype) && column.some_missing)
            throw DTypeError(
                fmt::format("CsvTable::tensor: column \"{}\" has missing values, which {} does not have",
                            name, lz::name(dtype)),
                loc);
        columns.push_back(tensor_of(column, loc).to(dtype, loc));
    }
    if (columns.empty())
        throw StateError("CsvTable::tensor: the table has no columns", loc);
    return stack(columns, 1, loc);
}

} // namespace lz::data
