#pragma once

#include <stop_token>
#include <string>

#include "store/model/clock.h"

namespace gradus {

/// One GET, without redirects: what is asked about is the address, not what it points to.
struct HttpQuestion {
    std::string address;  ///< http:// or https://
    Milliseconds timeout{0};
    std::stop_token cancel;
};

struct HttpReply {
    enum class Kind {
        kAnswered,   ///< with `status`
        kRefused,    ///< nobody listens there
        kSilent,     ///< no answer in time
        kGarbled,    ///< the connection broke, or what came is no HTTP
        kUntrusted,  ///< the certificate is not one we believe
        kNotAsked,   ///< the name or a way there is unknown here: this says nothing about the service
    };
    Kind kind = Kind::kNotAsked;
    int status = 0;
    std::string detail;  ///< a line for a person
};

/// Asks once. Never throws.
using HttpAsk = void(const HttpQuestion& question, HttpReply& reply);

/// The module that has it, and its name there.
inline constexpr const char* kHttpModule = "gradus-http.so";
inline constexpr const char* kHttpAsk = "gradusHttpAsk";

}  // namespace gradus
