#include "tests/support/cuda/ptx/decode.h"
#include "tests/support/cuda/ptx/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace lz::ptx {
namespace {

class Parser {
public:
    Parser(std::string_view text, void (*place)(Variable &, void *), void *context)
        : text_(text), place_(place), context_(context) {}

    Module parse() {
        while (skip_space(), at_ < text_.size()) {
            const std::string_view word = take_word();
            if (word == ".version" || word == ".address_size" || word == ".file") {
                skip_line();
            } else if (word == ".target") {
                module_.target = std::string(take_word());
                skip_line();
            } else if (word == ".section") {
                while (at_ < text_.size() && text_[at_] != '{')
                    ++at_;
                skip_block();
            } else if (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common") {
                continue;
            } else if (word == ".global" || word == ".const") {
                parse_variable();
            } else if (word == ".shared") {
                parse_module_shared();
            } else if (word == ".entry") {
                parse_kernel();
            } else {
                fail(fmt::format("`{}` is not known here", word));
            }
        }
        return std::move(module_);
    }

private:
    [[noreturn]] void fail(const std::string &what) const {
        throw ParseError(fmt::format("line {} of the PTX: {}.", line_, what));
    }

    // --- words
    static bool in_word(char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
    }
    void skip_line() {
        while (at_ < text_.size() && text_[at_] != '\n')
            ++at_;
    }
    void skip_space() {
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '\n')
                ++line_;
            if (std::isspace(static_cast<unsigned char>(c)) || c == '\0') {
                ++at_;
            } else if (text_.substr(at_, 2) == "//") {
                skip_line();
            } else if (text_.substr(at_, 2) == "/*") {
                const size_t end = std::min(text_.find("*/", at_), text_.size() - 2);
                line_ += static_cast<uint32_t>(std::count(text_.begin() + static_cast<ptrdiff_t>(at_),
                                                          text_.begin() + static_cast<ptrdiff_t>(end), '\n'));
                at_ = end + 2;
            } else {
                return;
            }
        }
    }
    void skip_block() {
        int depth = 0;
        do {
            if (at_ >= text_.size())
                fail("a block is not closed");
            depth += text_[at_] == '{' ? 1 : text_[at_] == '}' ? -1 : 0;
            line_ += text_[at_] == '\n';
            ++at_;
        } while (depth > 0);
    }
    char peek() {
        skip_space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool accept(char c) {
        if (peek() != c)
            return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!accept(c))
            fail(fmt::format("`{}` was expected before `{}`", c, text_.substr(at_, 24)));
    }
    std::string_view take_word() {
        skip_space();
        const size_t begin = at_;
        while (at_ < text_.size() && in_word(text_[at_]))
            ++at_;
        if (at_ == begin)
            fail(fmt::format("a word was expected before `{}`", text_.substr(at_, 24)));
        return text_.substr(begin, at_ - begin);
    }
    uint64_t take_number() {
        const std::string_view word = take_word();
        return number(word);
    }
    uint64_t number(std::string_view word) const {
        if (!word.empty() && word.back() == 'U')
            word.remove_suffix(1);
        const bool hex = word.starts_with("0x") || word.starts_with("0X");
        uint64_t value = 0;
        const char *const end = word.data() + word.size();
        const auto [rest, error] = std::from_chars(word.data() + (hex ? 2 : 0), end, value, hex ? 16 : 10);
        if (error != std::errc() || rest != end)
            fail(fmt::format("`{}` is no number", word));
        return value;
    }

    // --- declarations
    struct Declared {
        uint32_t align = 1, count = 1;
        Type type = Type::None;
        std::string_view name;
        bool open = false; ///< name[]
        uint32_t bytes() const { return count * size_of(type); }
    };
    /// `.align 4 .b8 name[32]` or `.u64 .ptr .global .align 1 name`, the space before it being read.
    Declared take_declaration() {
        Declared d;
        bool of_pointee = false; // what follows .ptr
        for (;;) {
            const std::string_view word = take_word();
            if (word == ".align") {
                const auto align = static_cast<uint32_t>(take_number());
                if (!of_pointee)
                    d.align = align;
            } else if (word == ".ptr") {
                of_pointee = true;
            } else if (of_pointee &&
                       (word == ".global" || word == ".shared" || word == ".const" || word == ".local")) {
                continue;
            } else if (word.front() == '.') {
                d.type = type_named(word.substr(1));
                if (d.type == Type::None)
                    fail(fmt::format("the type `{}` is not known", word));
                d.align = std::max(d.align, size_of(d.type));
            } else {
                d.name = word;
                break;
            }
        }
        while (accept('[')) {
            if (accept(']')) {
                d.open = true;
                continue;
            }
            d.count *= static_cast<uint32_t>(take_number());
            expect(']');
        }
        return d;
    }
    static uint32_t reserve(uint32_t &top, const Declared &d) {
        const uint32_t at = (top + d.align - 1) / d.align * d.align;
        top = at + d.bytes();
        return at;
    }

    /// Of the module: in global memory, where the loader says. Initial values are numbers.
    void parse_variable() {
        const Declared d = take_declaration();
        Variable v;
        v.name = std::string(d.name);
        v.align = d.align;
        v.bytes.resize(std::max(d.bytes(), 1u));
        if (accept('=')) {
            size_t at = 0;
            const bool list = accept('{');
            do {
                const bool minus = accept('-');
                uint64_t bits = literal(take_word()).bits;
                bits = minus ? -bits : bits;
                if (at + size_of(d.type) > v.bytes.size())
                    fail(fmt::format("`{}` has more initial values than elements", d.name));
                std::memcpy(v.bytes.data() + at, &bits, size_of(d.type));
                at += size_of(d.type);
            } while (list && accept(','));
            if (list)
                expect('}');
        }
        expect(';');
        place_(v, context_);
        globals_[d.name] = v.address;
        module_.variables.push_back(std::move(v));
    }
    /// `.extern .shared .align 16 .b8 name[]`: what a launch adds.
    void parse_module_shared() {
        const Declared d = take_declaration();
        expect(';');
        if (!d.open)
            fail(fmt::format("shared memory `{}` of the whole module is not known; inside a kernel it is",
                             d.name));
        dynamic_.push_back(d.name);
    }

    // --- kernels
    void parse_kernel() {
        Kernel k;
        k.name = std::string(take_word());
        Decoder decoder(k, globals_);
        if (accept('(') && !accept(')')) {
            do {
                if (take_word() != ".param")
                    fail("a parameter begins with .param");
                const Declared d = take_declaration();
                const uint32_t at = reserve(k.parameter_bytes, d);
                k.parameters.push_back({at, d.bytes()});
                decoder.add_symbol(d.name, at);
            } while (accept(','));
            expect(')');
        }
        while (peek() != '{')
            parse_directive(k);
        parse_body(k, decoder);
        decoder.finish();
        if (!module_.kernels.emplace(k.name, std::move(k)).second)
            fail("two kernels have one name");
    }
    void parse_directive(Kernel &k) {
        const std::string_view word = take_word();
        if (word == ".maxntid" || word == ".reqntid") {
            k.exact_threads = word == ".reqntid";
            k.max_threads = {1, 1, 1};
            size_t i = 0;
            do
                k.max_threads.at(i++) = static_cast<uint32_t>(take_number());
            while (i < 3 && accept(','));
        } else if (word == ".reqnctapercluster") {
            k.cluster = {1, 1, 1};
            size_t i = 0;
            do
                k.cluster.at(i++) = static_cast<uint32_t>(take_number());
            while (i < 3 && accept(','));
        } else if (word == ".explicitcluster") {
            return; // launches have clusters, of the size that is said beside it
        } else if (word == ".minnctapersm" || word == ".maxnreg" || word == ".maxnctapersm" ||
                   word == ".maxclusterrank") {
            take_number(); // of the assembler
        } else {
            fail(fmt::format("the directive `{}` of a kernel is not known", word));
        }
    }
    void parse_body(Kernel &k, Decoder &decoder) {
        expect('{');
        bool dynamic_placed = false;
        for (int depth = 1; depth > 0;) {
            if (accept('}')) {
                --depth;
            } else if (accept('{')) {
                ++depth;
            } else if (peek() == '.') {
                const std::string_view word = take_word();
                if (word == ".reg") {
                    parse_registers(decoder);
                } else if (word == ".shared") {
                    const Declared d = take_declaration();
                    decoder.add_symbol(d.name, reserve(k.shared_bytes, d));
                    expect(';');
                } else if (word == ".local") {
                    const Declared d = take_declaration();
                    decoder.add_symbol(d.name, reserve(k.local_bytes, d));
                    expect(';');
                } else if (word == ".pragma") {
                    parse_pragma();
                } else if (word == ".loc") {
                    skip_line();
                } else {
                    fail(fmt::format("`{}` is not known in a kernel", word));
                }
            } else {
                if (!dynamic_placed) { // after all that has a size
                    const uint32_t at = (k.shared_bytes + 15) / 16 * 16;
                    for (const std::string_view name : dynamic_)
                        decoder.add_symbol(name, at);
                    dynamic_placed = true;
                }
                parse_instruction(decoder);
            }
        }
    }
    /// Of the instruction behind it.
    void parse_pragma() {
        constexpr std::string_view kUsed = "\"used_bytes_mask ";
        skip_space();
        if (text_.substr(at_).starts_with(kUsed)) {
            at_ += kUsed.size();
            used_bytes_ = static_cast<uint32_t>(take_number());
        }
        skip_line();
    }
    void parse_registers(Decoder &decoder) {
        const std::string_view word = take_word();
        const Type type = type_named(word.substr(1));
        if (type == Type::None)
            fail(fmt::format("registers of `{}` are not known", word));
        do {
            const std::string_view name = take_word();
            if (accept('<')) {
                const uint64_t count = take_number();
                expect('>');
                for (uint64_t i = 0; i < count; ++i)
                    decoder.add_register(fmt::format("{}{}", name, i), type);
            } else {
                decoder.add_register(name, type);
            }
        } while (accept(','));
        expect(';');
    }
    void parse_instruction(Decoder &decoder) {
        RawInstr raw;
        if (accept('@')) {
            raw.guard_negated = accept('!');
            raw.guard = take_word();
        }
        raw.line = (skip_space(), line_);
        raw.used_bytes = std::exchange(used_bytes_, UINT32_MAX);
        raw.name = take_word();
        if (raw.guard.empty() && peek() == ':' && text_.substr(at_, 2) != "::") {
            ++at_;
            if (peek() == '.' && text_.substr(at_).starts_with(".branchtargets")) {
                take_word();
                std::vector<std::string_view> targets;
                do
                    targets.push_back(take_word());
                while (accept(','));
                expect(';');
                decoder.add_table(raw.name, std::move(targets));
            } else {
                decoder.add_label(raw.name);
            }
            return;
        }
        while (text_.substr(at_, 2) == "::") { // a qualifier such as L1::no_allocate
            at_ += 2;
            const std::string_view more = take_word();
            raw.name = {raw.name.data(), static_cast<size_t>(more.data() + more.size() - raw.name.data())};
        }
        if (peek() != ';')
            do
                raw.groups.push_back(take_group());
            while (accept(','));
        expect(';');
        decoder.add(raw);
    }
    std::vector<RawOperand> take_group() {
        std::vector<RawOperand> group;
        if (accept('{')) {
            do
                group.push_back(take_operand());
            while (accept(','));
            expect('}');
        } else {
            do
                group.push_back(take_operand());
            while (accept('|'));
        }
        return group;
    }
    RawOperand take_operand() {
        if (accept('[')) {
            RawOperand o = take_operand();
            o.address = true;
            if (accept('+')) {
                const bool minus = accept('-');
                const auto offset = static_cast<int64_t>(take_number());
                o.offset = minus ? -offset : offset;
            }
            expect(']');
            return o;
        }
        const bool negated = accept('!'), minus = accept('-');
        RawOperand o = literal(take_word());
        o.negated = negated;
        if (minus)
            o.bits = -o.bits;
        return o;
    }
    /// A number, 0f and 0d with the bits of a float, or a name.
    RawOperand literal(std::string_view word) const {
        RawOperand o;
        if (!std::isdigit(static_cast<unsigned char>(word[0]))) {
            o.name = word;
            return o;
        }
        const char second = word.size() > 1 ? static_cast<char>(word[1] | 0x20) : '\0';
        if (word[0] == '0' && (second == 'f' || second == 'd')) {
            o.kind = second == 'f' ? RawOperand::Kind::Float32 : RawOperand::Kind::Float64;
            const char *const end = word.data() + word.size();
            const auto [rest, error] = std::from_chars(word.data() + 2, end, o.bits, 16);
            if (error != std::errc() || rest != end)
                fail(fmt::format("`{}` is no number", word));
        } else {
            o.kind = RawOperand::Kind::Integer;
            o.bits = number(word);
        }
        return o;
    }

    std::string_view text_;
    size_t at_ = 0;
    uint32_t line_ = 1;
    uint32_t used_bytes_ = UINT32_MAX; ///< of the next instruction
    void (*place_)(Variable &, void *);
    void *context_;
    Module module_;
    std::unordered_map<std::string_view, uint64_t> globals_;
    std::vector<std::string_view> dynamic_;
};

} // namespace

Module parse(std::string_view text, void (*place)(Variable &, void *context), void *context) {
    return Parser(text, place, context).parse();
}

} // namespace lz::ptx
