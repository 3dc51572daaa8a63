// libFuzzer: program files are loaded. Their machine code is never an input's: an input says what of the
// manifest, the texts and the constants of a file that this process made is another, in records of eight
// bytes; the checksum is right again then, as if somebody had written the file so. A file whose constants
// alone are others is called as well. Another manifest or text may describe other launches of the same code,
// and who writes such a file behind a right checksum can write the code as well
// (docs/programs-as-files.md, "Whom to trust"): such a one has to load, or to be refused by a typed error.
#include "structured.h"

#include "ir/saved/container.h"

#include <lazuli/io.h>
#include <lazuli/lazuli.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

namespace {

using namespace lz;

/// What is changed, and how.
struct Edit {
    uint8_t section, how;
    uint16_t place; ///< in shares of 1/65536 of the section
    uint32_t value;
};
static_assert(sizeof(Edit) == 8);

class Files {
public:
    static const Files &get() {
        static const Files *const files = new Files;
        return *files;
    }

    /// The file with these changes.
    std::vector<std::byte> changed(std::span<const Edit> edits) const {
        std::vector<std::string> contents;
        for (const ir::Section &section : file_.sections)
            contents.emplace_back(reinterpret_cast<const char *>(section.bytes.data()), section.bytes.size());
        for (const Edit &edit : edits)
            change(contents[section_of(edit)], edit);
        ir::Container made{file_.version, {}};
        for (size_t s = 0; s < contents.size(); ++s)
            made.sections.push_back({file_.sections[s].kind, std::as_bytes(std::span(contents[s]))});
        return ir::write_container(made);
    }
    /// Whether these changes are of constants alone.
    bool constants_alone(std::span<const Edit> edits) const {
        return std::ranges::all_of(edits, [this](const Edit &edit) {
            return file_.sections[section_of(edit)].kind == ir::SectionKind::Constant;
        });
    }
    /// The path of the safetensors file that it refers to.
    std::string weights() const { return weights_.path(); }

private:
    Files() {
        const std::string folder =
            std::filesystem::temp_directory_path() / ("lazuli-fuzz-" + std::to_string(getpid()));
        std::filesystem::create_directories(folder);
        const std::string program = folder + "/f.lzp", weights = folder + "/w.safetensors";
        manual_seed(1);
        const Tensor w = randn({16, 8}), b = randn({8}), own = randn({5, 8});
        save({{{"w", w}, {"b", b}}}, weights);
        auto f = compile([&](const Tensor &x, const Tensor &at, double scale) {
            const Tensor h = softmax(matmul(x, w) + b, -1) * scale;
            return std::vector<Tensor>{h + own, h.index_select(0, at), x, x.sum() + rand({3})};
        });
        for (int call = 0; call < 5; ++call)
            f(randn({5, 16}), arange(3), 0.5 + call);
        save_program(program, f, {.weights = weights});
        bytes_ = bytes_of(program);
        const std::string elements = bytes_of(weights);
        weights_.write(reinterpret_cast<const uint8_t *>(elements.data()), elements.size());
        std::filesystem::remove_all(folder);
        file_ = ir::read_container(std::as_bytes(std::span(bytes_)));
        for (size_t s = 0; s < file_.sections.size(); ++s)
            if (file_.sections[s].kind != ir::SectionKind::Code)
                open_.push_back(s);
    }

    size_t section_of(const Edit &edit) const {
        return open_[edit.section < 128 ? 0 : edit.section % open_.size()];
    }

    static std::string bytes_of(const std::string &path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

    static void change(std::string &text, const Edit &edit) {
        if (text.empty())
            return;
        size_t place = size_t{edit.place} * text.size() >> 16;
        switch (edit.how % 6) {
        case 0: // some bytes of a number
        case 1:
        case 2:
            std::memcpy(&text[place], &edit.value, std::min<size_t>(1 + edit.how % 6, text.size() - place));
            break;
        case 3: // digits of a text
            while (place < text.size() && (text[place] < '0' || text[place] > '9'))
                ++place;
            if (place < text.size())
                text[place] = static_cast<char>('0' + edit.value % 10);
            break;
        case 4:
            text.erase(place, 1 + edit.value % 8);
            break;
        default:
            text.insert(place, text.substr(size_t{edit.value & 0xffff} * text.size() >> 16,
                                           1 + (edit.value >> 16) % 32));
        }
    }

    lz::fuzz::MemoryFile weights_;
    std::string bytes_;
    ir::Container file_;
    std::vector<size_t> open_; ///< sections that are changed: all but code
};

/// Calls it with ones, unless that would take long.
void call(const Program &program) {
    std::vector<Tensor> inputs;
    for (const ProgramTensor &input : program.inputs()) {
        int64_t elements = 1;
        for (const int64_t extent : input.shape)
            elements *= std::min<int64_t>(extent, 1 << 17);
        if (elements > 1 << 16 || input.device != "cpu")
            return;
        inputs.push_back(ones(input.shape, {.dtype = input.dtype}));
    }
    std::vector<double> numbers;
    for (const std::optional<double> &number : program.signatures()[0].numbers)
        numbers.push_back(number.value_or(2));
    for (const Tensor &result : program(inputs, numbers))
        if (result.defined())
            result.eval();
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    Files::get();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    std::vector<Edit> edits(std::min<size_t>(size / sizeof(Edit), 4));
    if (!edits.empty())
        std::memcpy(edits.data(), data, edits.size() * sizeof(Edit));
    const std::vector<std::byte> file = Files::get().changed(edits);
    static lz::fuzz::MemoryFile memory;
    memory.write(reinterpret_cast<const uint8_t *>(file.data()), file.size());
    try {
        const Program program =
            load_program(memory.path(), {.from_anybody = true, .weights = Files::get().weights()});
        if (Files::get().constants_alone(edits))
            call(program);
    } catch (const lz::InternalError &) { // nobody's file makes one
        throw;
    } catch (const lz::Error &) {
    }
    return 0;
}
