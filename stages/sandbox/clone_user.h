#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

struct KnownUser {
    std::string name;
    uid_t uid = 0;
    gid_t gid = 0;
    std::filesystem::path home;
    std::filesystem::path shell;
};

/// The lines of a passwd file (passwd(5)) that can be understood.
std::vector<KnownUser> parseUsers(std::string_view passwd);

/// From /etc/passwd, which costs microseconds; other sources of users are asked only for one that is not in it.
std::optional<KnownUser> findUser(uid_t uid);

/// Homes of people in /etc/passwd.
std::vector<std::filesystem::path> homesOfPeople();

}  // namespace gradus
