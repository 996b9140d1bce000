#include "stages/drivers/release_link.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "stages/changes/tree_writer_beneath.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::size_t kLongestLink = 4096;

void must(int error, std::string_view action, std::string_view name) {
    if (error != 0) throwFault(action, name, error);
}

/// Nothing where there is no such name, and for what is no link.
std::optional<std::string> readLink(int directory, const char* name) {
    std::array<char, kLongestLink> text{};
    const ssize_t length = ::readlinkat(directory, name, text.data(), text.size());
    if (length >= 0) return std::string(text.data(), static_cast<std::size_t>(length));
    if (errno == ENOENT || errno == EINVAL) return std::nullopt;
    throwFault("read the link", name, errno);
}

}  // namespace

std::optional<std::string> ReleaseLink::text() const {
    const Sighting seen = sight(directory_, kName);
    if (!seen.exists) return std::nullopt;
    auto text = readLink(directory_, kName);
    if (!text)
        throw Error(ErrorCode::kNotAllowed, "'{}' is {}, not a link to a release", kName, fileTypeName(seen.mode))
            .hint("gradus adopt STAGE makes a release of a directory");
    return text;
}

bool ReleaseLink::change(const std::optional<std::string>& from, const std::optional<std::string>& to) {
    tidy();
    if (text() != from) return false;
    bool isChanged = true;
    if (from != to) isChanged = !from ? make(*to) : !to ? remove(*from) : exchange(*from, *to);
    tidy();
    sync();
    return isChanged;
}

void ReleaseLink::prepare(const std::string& to) {
    must(files_.makeLink(directory_, kTemporary, to), "prepare the link", kName);
}

bool ReleaseLink::make(const std::string& to) {
    prepare(to);
    const int error = files_.move(directory_, kTemporary, directory_, kName, Move::kNoReplace);
    if (error == EEXIST) return false;
    must(error, "move into place", kName);
    return true;
}

bool ReleaseLink::exchange(const std::string& from, const std::string& to) {
    prepare(to);
    const int error = files_.move(directory_, kTemporary, directory_, kName, Move::kExchange);
    if (error == ENOENT) return false;
    must(error, "move into place", kName);
    if (readLink(directory_, kTemporary) == from) return true;
    // Somebody was faster between the look and the switch: theirs goes back.
    must(files_.move(directory_, kTemporary, directory_, kName, Move::kExchange), "give back", kName);
    return false;
}

bool ReleaseLink::remove(const std::string& from) {
    must(files_.move(directory_, kName, directory_, kTemporary, Move::kNoReplace), "take away", kName);
    if (readLink(directory_, kTemporary) == from) return true;
    must(files_.move(directory_, kTemporary, directory_, kName, Move::kNoReplace), "give back", kName);
    return false;
}

void ReleaseLink::tidy() {
    const Sighting left = sight(directory_, kTemporary);
    if (!left.exists) return;
    if (!S_ISLNK(left.mode))
        throw Error(ErrorCode::kNotAllowed, "'{}' is {}: somebody put it in place of '{}' just when that was switched",
                    kTemporary, fileTypeName(left.mode), kName)
            .hint("move it to where it belongs, then try again");
    must(files_.removeFile(directory_, kTemporary), "remove", kTemporary);
}

void ReleaseLink::sync() { must(files_.sync(directory_), "sync the directory of", kName); }

}  // namespace gradus
