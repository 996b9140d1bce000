#include "policies/language/rule_files.h"

#include <algorithm>

#include "policies/language/document.h"
#include "store/file.h"
#include "store/model/canonical.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostPolicies = 256;

std::string cureFor(const Error& error) {
    if (!error.hint().empty()) return error.hint();
    if (error.code() == ErrorCode::kUsage) return "put a text file of at most 256 KiB there, or remove it";
    return "make it a file that you may read";
}

std::string readRuleFile(const fs::path& path, std::string_view what) {
    try {
        return readSmallFile(path, kLargestRuleFile, what);
    } catch (const Error& error) {
        throw Error(error.code(), "{}", error.what()).hint(cureFor(error));
    }
}

/// What somebody could change from outside, or another user's file that root may read, is nothing that the project
/// says.
void requireInside(const fs::path& project, const fs::path& path) {
    std::error_code error;
    const fs::path root = fs::canonical(project, error);
    const fs::path real = error ? fs::path() : fs::canonical(path, error);
    if (error || std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end()) return;
    throw Error(ErrorCode::kNotAllowed, "{} is a link that leads out of the project, to {}", path.native(),
                real.native())
        .hint("rules are files of the project: put a copy of the file there instead of the link");
}

/// Whether something of that name is there, a dangling or looping link included: those must not read as "absent".
bool isThere(const fs::path& path) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    return status.type() != fs::file_type::not_found;
}

/// The same, where a parent that is no directory hides it: a link that leads nowhere, or a file. Throws Error then.
bool isThereBelow(const fs::path& path, std::string_view what) {
    if (isThere(path)) return true;
    for (fs::path parent = path.parent_path(); !parent.empty() && parent != parent.root_path();
         parent = parent.parent_path()) {
        if (!isThere(parent)) continue;
        std::error_code error;
        if (fs::is_directory(parent, error)) return false;
        throw Error(
            ErrorCode::kInfrastructure, "cannot look for {}: {} is {}", what, parent.native(),
            fs::is_symlink(fs::symlink_status(parent, error)) ? "a link that leads to no directory" : "no directory")
            .hint(fmt::format("make {} a directory that you may read, or remove it", parent.native()));
    }
    return false;
}

std::vector<fs::path> policyPaths(const fs::path& directory) {
    std::vector<fs::path> paths;
    std::error_code error;
    for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
        if (it->path().extension() == ".toml") paths.push_back(it->path());
    if (error)
        throw Error(ErrorCode::kInfrastructure, "cannot list {}: {}", directory.native(), error.message())
            .hint("make it a directory that you may read, or remove it");
    if (paths.size() > kMostPolicies)
        throw Error(ErrorCode::kUsage, "{} has {} policies, more than {}", directory.native(), paths.size(),
                    kMostPolicies)
            .hint("remove the ones that no stage uses");
    return paths;
}

}  // namespace

const RuleFile* RuleFiles::find(const std::string& path) const {
    const auto found = std::find_if(files.begin(), files.end(), [&](const RuleFile& f) { return f.path == path; });
    return found == files.end() ? nullptr : &*found;
}

Digest RuleFiles::digest() const {
    Canonical canonical("gradus.rule-files.1");
    canonical.list(files.size());
    for (const RuleFile& file : files) canonical.text(file.path).text(file.bytes);
    return canonical.hash();
}

bool isRulePath(std::string_view path) {
    if (path == kPipelineFile || path == ".gradus" || path == kPolicyDirectory) return true;
    return path.starts_with(std::string(kPolicyDirectory) + "/");
}

RuleFiles readRuleFiles(const fs::path& project) {
    RuleFiles rules;
    const fs::path pipeline = project / kPipelineFile;
    if (!isThere(pipeline))
        throw Error(ErrorCode::kNotFound, "there is no {} in {}", kPipelineFile, project.native())
            .hint("write one; the smallest is in docs/pipeline-file.md");
    rules.files.push_back({kPipelineFile, readRuleFile(pipeline, "the pipeline file")});
    requireInside(project, pipeline);
    const fs::path directory = project / kPolicyDirectory;
    if (isThereBelow(directory, "the policies")) {
        requireInside(project, directory);
        for (const fs::path& path : policyPaths(directory)) {
            rules.files.push_back({std::string(kPolicyDirectory) + "/" + path.filename().native(),
                                   readRuleFile(path, "the policy file")});
            requireInside(project, path);
        }
    }
    std::sort(rules.files.begin(), rules.files.end(),
              [](const RuleFile& a, const RuleFile& b) { return a.path < b.path; });
    return rules;
}

Ceiling readCeiling(const fs::path& file) {
    if (!isThereBelow(file, "the administrator ceiling")) return {};
    return {file.native(), readRuleFile(file, "the administrator ceiling")};
}

}  // namespace gradus
