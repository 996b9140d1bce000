#pragma once

#include <cstdint>
#include <string_view>

namespace gradus {

/// In how many places a test file switches a test off, by the words that usual frameworks have for it
/// (pytest.mark.skip, it.skip, t.Skip, #[ignore], GTEST_SKIP, @Disabled …). For TouchedPath::moreSkips: after minus
/// before.
std::int64_t countSkips(std::string_view text);

}  // namespace gradus
