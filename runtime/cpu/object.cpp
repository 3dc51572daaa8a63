#include "runtime/cpu/object.h"

#include "ir/host/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <elf.h>
#include <map>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>

#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
#include <dlfcn.h>
#endif

namespace lz::runtime {
namespace {

/// A function that emitted code may call.
struct Known {
    std::string_view name;
    void *address;
};

template <class F>
void *address_of(F *function) {
    return reinterpret_cast<void *>(function);
}

void *find_function(const std::string &name) {
    if (void *const ours = ir::find_host_function(name))
        return ours;
    static const Known kKnown[] = {
        {"memcpy", address_of(&std::memcpy)},
        {"memmove", address_of(&std::memmove)},
        {"memset", address_of(&std::memset)},
        {"fmod", address_of(static_cast<double (*)(double, double)>(&::fmod))},
        {"fmodf", address_of(static_cast<float (*)(float, float)>(&::fmodf))},
    };
    const auto *const found = std::ranges::find(kKnown, name, &Known::name);
    if (found != std::end(kKnown))
        return found->address;
#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
    if (name.starts_with("__asan_") || name.starts_with("__tsan_") || name.starts_with("__sanitizer_"))
        return dlsym(RTLD_DEFAULT, name.c_str());
#endif
    return nullptr;
}

/// Pages of its own.
class Pages {
public:
    explicit Pages(size_t bytes) : bytes_(bytes) {
        void *const memory =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            throw ir::Failure(ir::ErrorKind::OutOfMemory,
                              fmt::format("There is no memory for {} bytes of machine code.", bytes));
        data_ = static_cast<std::byte *>(memory);
    }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;
    ~Pages() { ::munmap(data_, bytes_); }
    std::byte *data() const { return data_; }
    size_t size() const { return bytes_; }
    bool protect(size_t from, size_t to, int protection) const {
        return from == to || ::mprotect(data_ + from, to - from, protection) == 0;
    }

private:
    std::byte *data_;
    size_t bytes_;
};

class ObjectModule final : public Module {
public:
    ObjectModule(std::string name, std::unique_ptr<const Pages> pages, std::map<std::string, void *> entries)
        : name_(std::move(name)), pages_(std::move(pages)), entries_(std::move(entries)) {}

    void *entry(const std::string &symbol) const override {
        const auto found = entries_.find(symbol);
        if (found == entries_.end())
            throw ir::Failure(ir::ErrorKind::Compile,
                              fmt::format("The code of kernel {} has no function {}.", name_, symbol));
        return found->second;
    }

private:
    const std::string name_;
    const std::unique_ptr<const Pages> pages_;
    const std::map<std::string, void *> entries_;
};

/// `jmp *0(%rip)` and the address behind it: calls reach two gigabytes only.
constexpr size_t kStubBytes = 16;
constexpr std::byte kMov{0x8b}, kLea{0x8d};
/// Of a loaded object: far below what references reach.
constexpr int64_t kMostBytes = int64_t{256} << 20;
constexpr std::array<uint8_t, 6> kJump = {0xff, 0x25, 0, 0, 0, 0};

/// One object on its way into memory.
class ObjectLoader {
public:
    explicit ObjectLoader(const CompiledKernel &kernel) : name_(kernel.name), file_(kernel.object) {}

    std::unique_ptr<Module> load() {
        read_header();
        read_symbols();
        place_sections();
        pages_ = std::make_unique<Pages>(size_);
        copy_sections();
        for (const Elf64_Shdr &section : sections_)
            if (section.sh_type == SHT_RELA)
                relocate(section);
            else if (section.sh_type == SHT_REL)
                fail("it has references of a kind that x86-64 does not have");
        if (!pages_->protect(0, code_end_, PROT_READ | PROT_EXEC) ||
            !pages_->protect(code_end_, size_, PROT_READ))
            fail(fmt::format("its pages cannot be made executable: {}", std::strerror(errno)));
        std::map<std::string, void *> entries = find_entries();
        return std::make_unique<ObjectModule>(name_, std::move(pages_), std::move(entries));
    }

private:
    [[noreturn]] void fail(const std::string &why) const {
        throw ir::Failure(ir::ErrorKind::Compile,
                          fmt::format("The code of kernel {} could not be loaded: {}.", name_, why));
    }

    /// Items of a table in the file.
    template <class T>
    std::vector<T> table(uint64_t offset, uint64_t bytes, const char *what) const {
        if (offset > file_.size() || bytes > file_.size() - offset || bytes % sizeof(T) != 0)
            fail(fmt::format("its {} are not in it", what));
        std::vector<T> items(bytes / sizeof(T));
        if (!items.empty())
            std::memcpy(items.data(), file_.data() + offset, bytes);
        return items;
    }

    void read_header() {
        Elf64_Ehdr header{};
        if (file_.size() < sizeof header)
            fail("it is too short for an ELF object");
        std::memcpy(&header, file_.data(), sizeof header);
        if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
            header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL)
            fail("it is no ELF object");
        if (header.e_machine != EM_X86_64)
            fail("it is for another kind of processor");
        if (header.e_shentsize != sizeof(Elf64_Shdr))
            fail("its sections are not in it");
        sections_ =
            table<Elf64_Shdr>(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), "sections");
    }

    void read_symbols() {
        for (const Elf64_Shdr &section : sections_) {
            if (section.sh_type != SHT_SYMTAB)
                continue;
            if (!symbols_.empty() || section.sh_link >= sections_.size())
                fail("it has not one table of names");
            symbols_ = table<Elf64_Sym>(section.sh_offset, section.sh_size, "names");
            const Elf64_Shdr &names = sections_[section.sh_link];
            const std::vector<char> text = table<char>(names.sh_offset, names.sh_size, "names");
            names_.assign(text.begin(), text.end());
        }
    }
    std::string name_of(const Elf64_Sym &symbol) const {
        if (symbol.st_name >= names_.size())
            fail("a name is not in it");
        return names_.c_str() + symbol.st_name; // the string ends in a zero of its own
    }

    bool is_loaded(const Elf64_Shdr &section) const {
        return (section.sh_flags & SHF_ALLOC) != 0 && section.sh_size > 0 &&
               section.sh_type != SHT_X86_64_UNWIND && section.sh_type != SHT_NOTE;
    }
    static bool is_code(const Elf64_Shdr &section) { return (section.sh_flags & SHF_EXECINSTR) != 0; }

    /// Code and stubs, then, on other pages, data.
    void place_sections() {
        offsets_.assign(sections_.size(), std::nullopt);
        const auto place = [&](bool code) {
            for (size_t s = 0; s < sections_.size(); ++s) {
                const Elf64_Shdr &section = sections_[s];
                if (!is_loaded(section) || is_code(section) != code)
                    continue;
                const uint64_t alignment = std::max<uint64_t>(section.sh_addralign, 1);
                if (section.sh_type != SHT_PROGBITS || !std::has_single_bit(alignment) ||
                    alignment > page_bytes() || section.sh_offset > file_.size() ||
                    section.sh_size > file_.size() - section.sh_offset)
                    fail("a section is not in it");
                size_ = (size_ + alignment - 1) & ~(alignment - 1);
                offsets_[s] = size_;
                size_ += section.sh_size;
                if (size_ > static_cast<size_t>(kMostBytes))
                    fail("it is larger than kernels are");
            }
        };
        place(true);
        size_ = (size_ + kStubBytes - 1) & ~(kStubBytes - 1);
        for (const Elf64_Sym &symbol : symbols_)
            if (symbol.st_shndx == SHN_UNDEF && symbol.st_name != 0 &&
                stubs_.try_emplace(name_of(symbol), size_).second)
                size_ += kStubBytes;
        size_ = code_end_ = whole_pages(size_);
        place(false);
        size_ = whole_pages(size_);
        if (code_end_ == 0)
            fail("there is no code in it");
    }
    static size_t page_bytes() {
        static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
        return bytes;
    }
    static size_t whole_pages(size_t bytes) { return (bytes + page_bytes() - 1) & ~(page_bytes() - 1); }

    void copy_sections() {
        for (size_t s = 0; s < sections_.size(); ++s)
            if (offsets_[s])
                std::memcpy(pages_->data() + *offsets_[s], file_.data() + sections_[s].sh_offset,
                            sections_[s].sh_size);
        for (const auto &[name, offset] : stubs_) {
            void *const target = find_function(name);
            if (!target)
                fail(fmt::format("it calls {}, which kernels do not call", name));
            std::memcpy(pages_->data() + offset, kJump.data(), kJump.size());
            std::memcpy(pages_->data() + offset + kJump.size(), &target, sizeof target);
        }
    }

    /// Where a symbol is, in the pages.
    uint64_t place_of(const Elf64_Sym &symbol) const {
        if (symbol.st_shndx == SHN_UNDEF) {
            const auto stub = stubs_.find(name_of(symbol));
            if (stub == stubs_.end())
                fail("a name is not in it");
            return stub->second;
        }
        if (symbol.st_shndx >= offsets_.size() || !offsets_[symbol.st_shndx] ||
            symbol.st_value > sections_[symbol.st_shndx].sh_size)
            fail("a name is of nothing in it");
        return *offsets_[symbol.st_shndx] + symbol.st_value;
    }

    void relocate(const Elf64_Shdr &references) {
        if (references.sh_info >= sections_.size())
            fail("its references are of no section");
        const std::optional<size_t> &base = offsets_[references.sh_info];
        if (!base)
            return; // of what is not loaded
        const Elf64_Shdr &section = sections_[references.sh_info];
        for (const Elf64_Rela &r :
             table<Elf64_Rela>(references.sh_offset, references.sh_size, "references")) {
            const uint32_t type = static_cast<uint32_t>(ELF64_R_TYPE(r.r_info));
            if (ELF64_R_SYM(r.r_info) >= symbols_.size())
                fail("a reference names nothing");
            const Elf64_Sym &symbol = symbols_[ELF64_R_SYM(r.r_info)];
            if (section.sh_size < sizeof(int32_t) || r.r_offset > section.sh_size - sizeof(int32_t))
                fail("a reference is outside of its section");
            const bool call = type == R_X86_64_PLT32;
            std::byte *const at = pages_->data() + *base + r.r_offset;
            // An address that is read from memory: a stub has a function's; that of what is in the object is
            // computed instead, as linkers do (x86-64 psABI, B.2).
            const bool relaxed = type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
            bool address = relaxed || type == R_X86_64_GOTPCREL;
            if (relaxed && symbol.st_shndx != SHN_UNDEF && r.r_offset >= 2 && at[-2] == kMov) {
                at[-2] = kLea;
                address = false;
            } else if ((symbol.st_shndx == SHN_UNDEF) != address && !call) {
                fail("it reads what is not in it");
            }
            int64_t target = 0;
            if (type != R_X86_64_PC32 && !call && !address && !relaxed)
                fail(fmt::format("it has a reference of kind {}", type));
            if (__builtin_add_overflow(static_cast<int64_t>(place_of(symbol) + (address ? kJump.size() : 0)),
                                       r.r_addend, &target) ||
                target < -kMostBytes || target > kMostBytes)
                fail("a reference is too far away");
            const auto distance = static_cast<int32_t>(target - static_cast<int64_t>(*base + r.r_offset));
            std::memcpy(at, &distance, sizeof distance);
        }
    }

    std::map<std::string, void *> find_entries() const {
        std::map<std::string, void *> entries;
        for (const Elf64_Sym &symbol : symbols_)
            if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL &&
                ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
                entries[name_of(symbol)] = pages_->data() + place_of(symbol);
        return entries;
    }

    const std::string &name_;
    const std::vector<std::byte> &file_;
    std::vector<Elf64_Shdr> sections_;
    std::vector<Elf64_Sym> symbols_;
    std::string names_;
    std::vector<std::optional<size_t>> offsets_; ///< in the pages, of sections that are loaded
    std::map<std::string, size_t> stubs_;        ///< by name, likewise
    size_t size_ = 0, code_end_ = 0;
    std::unique_ptr<Pages> pages_;
};

} // namespace

std::unique_ptr<Module> load_object(const CompiledKernel &kernel) {
    if (kernel.format != ir::CodeFormat::Object)
        throw ir::Failure(ir::ErrorKind::Compile,
                          fmt::format("The code of kernel {} is not for this processor.", kernel.name));
    return ObjectLoader(kernel).load();
}

} // namespace lz::runtime
