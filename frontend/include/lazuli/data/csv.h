#pragma once
/// Tables of text: CSV files, packed by gzip or not.

#include "lazuli/tensor.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lz::data {

/// How a CSV file is written.
struct CsvOptions {
    /// Between fields.
    char delimiter = ',';
    /// Around fields that have delimiters or lines in them; doubled inside.
    char quote = '"';
    /// Whether the first line has the names of the columns. Without it they are "0", "1", ...
    bool header = true;
    /// Fields that stand for no value.
    std::vector<std::string> missing = {"", "NA", "N/A", "NaN", "nan", "null", "NULL"};
    /// The most bytes of text, unpacked; 0: what the host has free.
    int64_t max_bytes = 0;
};

/// Columns with one type each: i64 where all fields are whole numbers, boolean where all are `true` or
/// `false` (or True, TRUE, ...), f64 where all are numbers or missing, else text. Copies share the columns.
class LZ_API CsvTable {
public:
    /// No rows and no columns.
    CsvTable();
    /// The number of lines without the header.
    int64_t rows() const;
    /// The names of the columns, in order.
    std::vector<std::string> names() const;
    /// The dtype of a column; none for text. Throws IndexError for a name that there is not.
    std::optional<DType> dtype(const std::string &name, Location loc = Location::current()) const;
    /// A column of numbers, [rows]; what is missing is NaN. Throws DTypeError for text.
    Tensor column(const std::string &name, Location loc = Location::current()) const;
    /// A column of text; what is missing is empty. Throws DTypeError for numbers.
    const std::vector<std::string> &text(const std::string &name, Location loc = Location::current()) const;
    /// A column of text as numbers of its different values, which are in the second in order: i64[rows], -1
    /// for what is missing.
    std::pair<Tensor, std::vector<std::string>> categories(const std::string &name,
                                                           Location loc = Location::current()) const;
    /// Columns of numbers beside each other, [rows, names]; all columns unless names are given. NaN where
    /// something is missing. Throws DTypeError for text, and where an integer dtype would have to hold what
    /// is missing.
    Tensor tensor(const std::vector<std::string> &names = {}, DType dtype = DType::F32,
                  Location loc = Location::current()) const;

private:
    friend LZ_API CsvTable read_csv(const std::string &path, const CsvOptions &options, Location loc);
    friend LZ_API CsvTable parse_csv(std::string text, const CsvOptions &options, Location loc);
    struct State;
    std::shared_ptr<const State> state_;
};

/// Reads a file, packed by gzip or not. Throws IoError, with the line, for lines of different lengths and
/// quotes that do not end.
[[nodiscard]] LZ_API CsvTable read_csv(const std::string &path, const CsvOptions &options = {},
                                       Location loc = Location::current());
/// The same of text.
[[nodiscard]] LZ_API CsvTable parse_csv(std::string text, const CsvOptions &options = {},
                                        Location loc = Location::current());

} // namespace lz::data
