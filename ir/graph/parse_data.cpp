#include "ir/graph/parse_data.h"

#include "ir/text/scanner.h"
#include "ir/text/text.h"

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace lz::ir {

namespace {

class DataParser {
public:
    explicit DataParser(TextScanner &scanner) : s_(scanner) {}

    void data(const TensorType &t, Param &p) {
        if (s_.accept_word("random")) {
            s_.expect('(');
            p.init = InitKind::Random;
            p.seed = s_.unsigned_integer("a seed");
            s_.expect(')');
        } else {
            s_.expect_word("dense");
            p.init = InitKind::Dense;
            s_.expect('<');
            dense(t, p.bytes);
            s_.expect('>');
        }
    }

private:
    void dense(const TensorType &t, std::vector<std::byte> &bytes) {
        const size_t at = s_.position();
        if (s_.peek() == '"') {
            const std::string_view hex = s_.raw_string("hexadecimal data");
            if (!hex.starts_with("0x") || static_cast<int64_t>(hex.size() - 2) % 2 != 0 ||
                static_cast<int64_t>((hex.size() - 2) / 2) != t.bytes())
                s_.fail_at(at, to_string(t) + " has " + std::to_string(t.bytes()) +
                                   " bytes: expected \"0x\" and two digits for each");
            bytes.reserve((hex.size() - 2) / 2);
            for (size_t i = 2; i < hex.size(); i += 2) {
                const int high = hex_digit(hex[i]), low = hex_digit(hex[i + 1]);
                if (high < 0 || low < 0)
                    s_.fail_at(at, "`" + quoted(hex.substr(i, 2)) + "` are no hexadecimal digits");
                bytes.push_back(static_cast<std::byte>(high * 16 + low));
            }
            return;
        }
        const bool bracketed = s_.accept('[');
        const char end = bracketed ? ']' : '>';
        int64_t elements = 0;
        if (s_.peek() != end) {
            do {
                if (++elements > t.numel())
                    break;
                element(t.dtype, bytes);
            } while (s_.accept(','));
        }
        if (bracketed && elements <= t.numel())
            s_.expect(']');
        if (elements != t.numel())
            s_.fail_at(at, to_string(t) + " has " + std::to_string(t.numel()) + " elements, the list has " +
                               (elements > t.numel() ? "more" : std::to_string(elements)));
    }

    static int hex_digit(char c) {
        constexpr std::string_view digits = "0123456789abcdef";
        const size_t at = digits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + ('a' - 'A')) : c);
        return at == std::string_view::npos ? -1 : static_cast<int>(at);
    }

    void element(DType dtype, std::vector<std::byte> &bytes) {
        const auto put = [&]<class T>(T v) {
            const auto *p = reinterpret_cast<const std::byte *>(&v);
            bytes.insert(bytes.end(), p, p + sizeof v);
        };
        const auto integer = [&]<class T>(T) {
            put(static_cast<T>(
                s_.integer_in("an element", std::numeric_limits<T>::min(), std::numeric_limits<T>::max())));
        };
        switch (dtype) {
        case DType::Bool:
            return put(static_cast<uint8_t>(s_.integer_in("0 or 1", 0, 1)));
        case DType::U8:
            return integer(uint8_t{});
        case DType::I8:
            return integer(int8_t{});
        case DType::I16:
            return integer(int16_t{});
        case DType::I32:
            return integer(int32_t{});
        case DType::I64:
            return integer(int64_t{});
        case DType::F16:
            return put(float_to_half(s_.real_float("an element")));
        case DType::BF16:
            return put(float_to_bfloat(s_.real_float("an element")));
        case DType::F32:
            return put(s_.real_float("an element"));
        case DType::F64:
            return put(s_.real("an element"));
        }
    }

    TextScanner &s_;
};

} // namespace

void parse_data(TextScanner &scanner, const TensorType &type, Param &param) {
    DataParser(scanner).data(type, param);
}

} // namespace lz::ir
