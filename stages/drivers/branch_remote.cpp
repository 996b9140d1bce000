#include "stages/drivers/branch_remote.h"

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

/// As git tells them apart: "host:path" has a colon before the first slash.
bool isPath(std::string_view url) {
    const std::size_t colon = url.find(':');
    return colon == url.npos || url.find('/') < colon;
}

[[noreturn]] void refuse(const std::string& remote, const std::string& url) {
    throw Error(ErrorCode::kNotAllowed, "the remote '{}' leads to {}, which is no path on this machine",
                printable(remote), printable(url))
        .hint(
            "what was pushed over a network cannot be taken back for sure: leave `push` out and push yourself, or "
            "use the driver 'command'");
}

}  // namespace

fs::path remotePath(const GitWorkTree& git, const GitPlumbing& plumbing, const std::string& remote) {
    std::vector<std::string> urls = plumbing.settings("remote." + remote + ".pushurl");
    if (urls.empty()) urls = plumbing.settings("remote." + remote + ".url");
    if (urls.empty())
        throw Error(ErrorCode::kUsage, "the repository {} has no remote '{}'", git.root.native(), printable(remote))
            .hint(fmt::format("git -C {} remote add {} PATH", git.root.native(), printable(remote)));
    if (urls.size() > 1)
        throw Error(ErrorCode::kNotAllowed, "the remote '{}' has {} addresses, and only one can be pushed to",
                    printable(remote), urls.size())
            .hint("give the stage a remote with one address");
    const std::string& url = urls.front();
    if (url.starts_with("file:///")) return url.substr(std::string_view("file://").size());
    if (url.empty() || !isPath(url)) refuse(remote, url);
    return git.root / url;
}

}  // namespace gradus
