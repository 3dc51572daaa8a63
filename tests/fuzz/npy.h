#pragma once
/// Changes of a .npy file, by itself or in an archive.

#include "structured.h"

#include <string>

namespace lz::fuzz {

/// Its header's length is right again, most of the time.
inline void change_npy(std::string &file, Random &random) {
    constexpr size_t kFirst = 8;
    if (file.size() < kFirst + 4 || !file.starts_with("\x93NUMPY"))
        return change(file);
    const size_t width = file[6] == 1 ? 2 : 4, begin = kFirst + width;
    uint32_t length = 0;
    std::memcpy(&length, file.data() + kFirst, width);
    if (length > file.size() - begin)
        return change(file);
    std::string head = file.substr(begin, length), elements = file.substr(begin + length);
    switch (random.below(8)) {
    case 0:
        change_length(elements, random);
        break;
    case 1:
        change(elements);
        break;
    case 2:
    case 3:
        change(head);
        break;
    case 4: { // another dtype
        constexpr const char *kDtypes[] = {"|b1", "<f2", ">f4", "<f8", ">i2", "<i8", "|u1", "<c8", "=i4"};
        if (const size_t at = head.find("'descr': '"); at != std::string::npos)
            head.replace(std::min(at + 10, head.size()), 3, kDtypes[random.below(std::size(kDtypes))]);
        break;
    }
    case 5: // the other order
        if (const size_t at = head.find("False"); at != std::string::npos)
            head.replace(at, 5, "True");
        break;
    default:
        change_digits(head, random);
    }
    uint64_t refitted = random.one_in(16) ? odd_number(random) : head.size();
    std::string made = file.substr(0, kFirst);
    made.append(reinterpret_cast<const char *>(&refitted), width);
    file = made + head + elements;
}

} // namespace lz::fuzz
