#pragma once

#include <string>

namespace gradus {

/// Of whoever runs this; the number where there is no name.
std::string loginName();

}  // namespace gradus
