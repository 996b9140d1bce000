#pragma once

#include <string>
#include <string_view>

namespace gradus {

/// A name as a file system takes it that tells neither upper from lower case nor one Unicode form of a letter from
/// another: two names that give the same are one file there. A key, not text to show.
std::u32string foldedName(std::string_view name);

}  // namespace gradus
