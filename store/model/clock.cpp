#include "store/model/clock.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "store/model/error.h"

namespace gradus {

Time SystemClock::now() const { return std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now()); }

Moment SystemClock::moment() const {
    timespec since{};
    ::clock_gettime(CLOCK_BOOTTIME, &since);
    Moment moment{now()};
    moment.boot = boot_;
    moment.uptime = std::chrono::duration_cast<Milliseconds>(std::chrono::seconds(since.tv_sec) +
                                                             std::chrono::nanoseconds(since.tv_nsec));
    return moment;
}

Milliseconds elapsed(const Moment& from, const Moment& to) {
    const bool isOneBoot = !from.boot.empty() && from.boot == to.boot;
    if (isOneBoot) return std::max(to.uptime - from.uptime, Milliseconds(0));
    return std::max({to.at - from.at, from.boot.empty() ? Milliseconds(0) : to.uptime, Milliseconds(0)});
}

std::string SystemRandom::bytes(std::size_t count) {
    std::string out(count, '\0');
    std::size_t have = 0;
    while (have < count) {
        const ssize_t got = getrandom(out.data() + have, count - have, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw Error(ErrorCode::kInfrastructure, "getrandom: {}", errnoText(errno));
        have += static_cast<std::size_t>(got);
    }
    return out;
}

std::string formatTime(Time time) {
    const auto millis = toMillis(time);
    // Floor, not truncation: a moment before 1970 still has a positive number of milliseconds.
    const std::int64_t remainder = ((millis % 1000) + 1000) % 1000;
    const std::time_t seconds = millis / 1000 - (millis % 1000 < 0 ? 1 : 0);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, remainder);
}

}  // namespace gradus
