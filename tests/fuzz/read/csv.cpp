// libFuzzer: the reader of CSV takes any text, packed or not. What it accepts, has columns of one length. The
// first byte of an input says whether the file has a header, and another delimiter.
#include "structured.h"

#include <lazuli/data/csv.h>

namespace {

void change_text(std::string &text, lz::fuzz::Random &random) {
    constexpr const char *kPieces[] = {",",
                                       "\n",
                                       "\r\n",
                                       "\"",
                                       "\"\"",
                                       "\"a\nb\"",
                                       "NA",
                                       "true",
                                       "1e400",
                                       "-0",
                                       "+1",
                                       "nan",
                                       "inf",
                                       " 7 ",
                                       "0x1",
                                       "\xef\xbb\xbf",
                                       ";",
                                       "1.5",
                                       "9223372036854775808"};
    if (random.one_in(2))
        return lz::fuzz::change(text);
    text.insert(random.below(text.size() + 1), kPieces[random.below(std::size(kPieces))]);
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return lz::fuzz::mutate(
        data, size, max_size, seed, [](const std::string &input, lz::fuzz::Random &random) -> std::string {
            if (input.empty())
                return {};
            return input.substr(0, 1) +
                   lz::fuzz::change_packed(input.substr(1), random,
                                           [&](std::string &plain) { change_text(plain, random); });
        });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static lz::fuzz::MemoryFile file;
    const uint8_t choice = size > 0 ? data[0] : 0;
    file.write(data + (size > 0), size - (size > 0));
    try {
        const lz::data::CsvTable table =
            lz::data::read_csv(file.path(), {.delimiter = choice & 2 ? ';' : ',',
                                             .header = choice % 2 == 0,
                                             .max_bytes = choice & 4 ? 64 : 1 << 20});
        for (const std::string &name : table.names()) {
            const auto rows = table.dtype(name) ? table.column(name).numel()
                                                : static_cast<int64_t>(table.text(name).size());
            if (rows != table.rows())
                std::abort();
        }
    } catch (const lz::IoError &) {
    }
    return 0;
}
