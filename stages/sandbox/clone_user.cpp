#include "stages/sandbox/clone_user.h"

#include <pwd.h>

#include <array>
#include <charconv>

#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr uid_t kFirstPerson = 1000;
constexpr uid_t kNobody = 65534;

template <typename Number>
bool readNumber(std::string_view text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

std::optional<KnownUser> parseUser(std::string_view line) {
    std::array<std::string_view, 7> fields;
    for (std::string_view& field : fields) {
        field = line.substr(0, line.find(':'));
        line.remove_prefix(std::min(field.size() + 1, line.size()));
    }
    KnownUser user{std::string(fields[0]), 0, 0, fields[5], fields[6]};
    if (user.name.empty() || !readNumber(fields[2], user.uid) || !readNumber(fields[3], user.gid)) return std::nullopt;
    return user;
}

std::vector<KnownUser> usersOfFile() {
    try {
        return parseUsers(readSmallFile("/etc/passwd", 4U << 20, "the user database"));
    } catch (const Error&) {
        return {};  // a machine without one: nobody is known
    }
}

}  // namespace

std::vector<KnownUser> parseUsers(std::string_view passwd) {
    std::vector<KnownUser> users;
    while (!passwd.empty()) {
        const std::string_view line = passwd.substr(0, passwd.find('\n'));
        passwd.remove_prefix(std::min(line.size() + 1, passwd.size()));
        if (auto user = parseUser(line)) users.push_back(std::move(*user));
    }
    return users;
}

std::optional<KnownUser> findUser(uid_t uid) {
    for (KnownUser& user : usersOfFile())
        if (user.uid == uid) return std::move(user);
    passwd entry{};
    passwd* found = nullptr;
    std::array<char, 16384> buffer{};
    if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return std::nullopt;
    return KnownUser{entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, entry.pw_shell};
}

std::vector<fs::path> homesOfPeople() {
    std::vector<fs::path> homes;
    for (const KnownUser& user : usersOfFile())
        if (user.uid >= kFirstPerson && user.uid != kNobody && user.home.is_absolute())
            homes.push_back(user.home.lexically_normal());
    return homes;
}

}  // namespace gradus
