#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "pipeline/service/first_rules.h"
#include "pipeline/service/project.h"
#include "pipeline/service/service.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuseExisting(const fs::path& file) {
    throw Error(ErrorCode::kNotAllowed, "there is a {} already", file.native())
        .hint("edit it, then put it in force with `gradus trust`");
}

// Never over a file that somebody wrote a moment ago. For root it belongs to whom the project belongs to.
void writeNew(const fs::path& file, const std::string& text) {
    const FileDescriptor written(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!written && errno == EEXIST) refuseExisting(file);
    if (!written)
        throw Error(ErrorCode::kInfrastructure, "cannot write {}: {}", file.native(), errnoText(errno))
            .hint("call as the user who owns the project");
    try {
        struct stat owner {};
        if (::geteuid() == 0 && ::stat(file.parent_path().c_str(), &owner) == 0) [[maybe_unused]]
            const int given = ::fchown(written.get(), owner.st_uid, owner.st_gid);
        writeAll(written.get(), text, file);
        syncFile(written.get(), file);
    } catch (const Error&) {
        ::unlink(file.c_str());
        throw;
    }
}

}  // namespace

FirstRules Service::firstRules(const fs::path& directory, bool onlyShow) {
    const fs::path root = projectRoot(directory);
    FirstRules first;
    first.file = root / kPipelineFile;
    std::error_code error;
    if (fs::exists(fs::symlink_status(first.file, error))) refuseExisting(first.file);
    const std::vector<FoundCheck> checks = findChecks(root);
    for (const FoundCheck& check : checks) first.found.push_back(check.found);
    first.text = firstPipelineFile(root, checks);
    if (onlyShow) return first;
    writeNew(first.file, first.text);
    first.written = true;
    const RuleFiles files = readRuleFiles(root);
    first.trusted = rules(root).state == RulesState::kTrusted;
    if (first.trusted) return first;
    if (caller().kind != ActorKind::kPerson) first.untrustedBecause = "only a person can trust rules";
    // What we wrote is known; what else lies there is for a person to read first.
    if (files.files.size() != 1 || files.files.front().bytes != first.text)
        first.untrustedBecause = "there are other rules beside it";
    if (!first.untrustedBecause.empty()) return first;
    first.trusted = trust(root, caller(), files.digest()).recorded;
    return first;
}

}  // namespace gradus
