#include "store/model/name_fold.h"

#include <algorithm>
#include <cstdint>

#include "store/model/name_fold_tables.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

using name_fold::CaseRange;
using name_fold::Decomposed;

char32_t lowerCase(char32_t letter) {
    if (letter < 0x80) return letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter;
    const auto range = std::find_if(name_fold::kCases.begin(), name_fold::kCases.end(),
                                    [&](const CaseRange& one) { return letter >= one.first && letter <= one.last; });
    if (range == name_fold::kCases.end()) return letter;
    const bool isAmong = (letter - range->first) % static_cast<char32_t>(range->step) == 0;
    return isAmong ? static_cast<char32_t>(static_cast<std::int64_t>(letter) + range->away) : letter;
}

// Unicode 14, chapter 3.12.
bool decomposeHangul(char32_t letter, std::u32string& into) {
    constexpr char32_t kFirst = 0xac00;
    constexpr char32_t kVowels = 21;
    constexpr char32_t kTails = 28;
    if (letter < kFirst || letter > 0xd7a3) return false;
    const char32_t index = letter - kFirst;
    into.push_back(0x1100 + index / (kVowels * kTails));
    into.push_back(0x1161 + index % (kVowels * kTails) / kTails);
    if (index % kTails != 0) into.push_back(0x11a7 + index % kTails);
    return true;
}

void decompose(char32_t letter, std::u32string& into) {
    if (letter < 0xc0) return into.push_back(lowerCase(letter));
    if (decomposeHangul(letter, into)) return;
    const auto row = std::lower_bound(name_fold::kDecomposed.begin(), name_fold::kDecomposed.end(), letter,
                                      [](const Decomposed& one, char32_t value) { return one.whole < value; });
    if (row == name_fold::kDecomposed.end() || row->whole != letter) return into.push_back(lowerCase(letter));
    decompose(row->first, into);
    if (row->second != 0) decompose(row->second, into);
}

// Of the scripts that the table knows.
bool isMark(char32_t letter) {
    return (letter >= 0x300 && letter <= 0x36f) || (letter >= 0x591 && letter <= 0x5bd) ||
           (letter >= 0x64b && letter <= 0x65f) || letter == 0x3099 || letter == 0x309a;
}

}  // namespace

std::u32string foldedName(std::string_view name) {
    constexpr char32_t kNotUtf8 = 0x110000;
    std::u32string folded;
    while (!name.empty()) {
        const CodePoint point = firstCodePoint(name);
        if (point.valid)
            decompose(point.value, folded);
        else
            folded.push_back(kNotUtf8 + point.value);
        name.remove_prefix(point.length);
    }
    // Marks of one letter in one order, whatever order they were typed in.
    for (auto at = folded.begin(); at != folded.end();) {
        const auto marks = std::find_if(at, folded.end(), isMark);
        at = std::find_if_not(marks, folded.end(), isMark);
        std::sort(marks, at);
    }
    return folded;
}

}  // namespace gradus
