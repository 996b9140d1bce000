#include "store/model/error.h"

#include <system_error>

namespace gradus {

std::string errnoText(int error) { return std::generic_category().message(error); }

}  // namespace gradus
