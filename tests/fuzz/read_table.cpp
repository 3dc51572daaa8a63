// libFuzzer: the reader of CSV takes any text. What it accepts, has columns of one length.
#include <lazuli/data/csv.h>

#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try {
        const lz::data::CsvTable table = lz::data::parse_csv(
            std::string(reinterpret_cast<const char *>(data), size), {.header = size % 2 == 0});
        for (const std::string &name : table.names())
            if (static_cast<int64_t>(table.dtype(name)
                                         ? table.column(name).numel()
                                         : static_cast<int64_t>(table.text(name).size())) != table.rows())
                std::abort();
    } catch (const lz::IoError &) {
    }
    return 0;
}
