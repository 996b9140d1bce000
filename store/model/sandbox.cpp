#include "store/model/sandbox.h"

#include <array>
#include <charconv>

#include "store/model/error.h"

namespace gradus {

std::string formatOwner(const ProcessIdentity& owner) {
    return fmt::format("{} {} {} {}", owner.bootId, owner.pidNamespace, owner.pid, owner.startTime);
}

ProcessIdentity parseOwner(std::string_view text) {
    ProcessIdentity owner;
    const std::size_t boot = text.find(' ');
    owner.bootId = text.substr(0, boot);
    const char* at = boot == std::string_view::npos ? nullptr : text.data() + boot + 1;
    const char* const end = text.data() + text.size();
    for (std::int64_t* number : {&owner.pidNamespace, &owner.pid, &owner.startTime}) {
        const auto [next, error] = at == nullptr ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                                                 : std::from_chars(at, end, *number);
        if (error != std::errc() || (next != end && *next != ' '))
            throw Error(ErrorCode::kDamaged, "'{}' names no process as they are recorded", text);
        at = next == end ? nullptr : next + 1;
    }
    if (at != nullptr) throw Error(ErrorCode::kDamaged, "'{}' names no process as they are recorded", text);
    return owner;
}

}  // namespace gradus
