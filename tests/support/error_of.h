#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "store/model/error.h"

namespace gradus {

/// The Error that `call` throws; none is a failure of the test.
template <typename Call>
Error errorOf(const Call& call) {
    try {
        call();
    } catch (const Error& error) {
        return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error(ErrorCode::kUsage, "nothing was thrown");
}

inline bool mentions(const Error& error, std::string_view words) {
    return std::string_view(error.what()).find(words) != std::string_view::npos;
}

}  // namespace gradus
