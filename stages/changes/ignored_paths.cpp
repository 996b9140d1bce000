#include "stages/changes/ignored_paths.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kIndexCap = std::uint64_t{1} << 30;

}  // namespace

IgnoredPaths::IgnoredPaths(const fs::path& directory, const fs::path& excludesFile) : tree_(findWorkTree(directory)) {
    if (!tree_) return;
    const auto everywhere = excludesFile.empty() ? std::nullopt : readPlainFile(AT_FDCWD, excludesFile, kRulesCap);
    outermost_ = add(kNone, 0, everywhere.value_or(""));
    if (const auto exclude = readPlainFile(AT_FDCWD, tree_->common / "info/exclude", kRulesCap))
        outermost_ = add(outermost_, 0, *exclude);
    // A project inside an ignored directory of somebody's larger repository is not of that repository.
    if (!readAncestors()) outermost_ = kNone;
}

// The rules of the directories above ours. False when they exclude ours.
bool IgnoredPaths::readAncestors() {
    const std::string& prefix = tree_->prefix;
    for (std::size_t begin = 0; begin < prefix.size();) {
        if (const auto rules = readPlainFile(AT_FDCWD, tree_->root / prefix.substr(0, begin) / ".gitignore", kRulesCap))
            outermost_ = add(outermost_, begin, *rules);
        const std::size_t slash = prefix.find('/', begin);
        if (judge(outermost_, std::string_view(prefix).substr(0, slash), true).value_or(false)) return false;
        begin = slash + 1;
    }
    return true;
}

IgnoredPaths::Scope IgnoredPaths::add(Scope parent, std::size_t directoryLength, std::string_view rules) {
    links_.push_back({IgnoreRules(rules), directoryLength, parent});
    return static_cast<Scope>(links_.size() - 1);
}

IgnoredPaths::Scope IgnoredPaths::within(Scope parent, std::string_view directory, std::string_view rules) {
    if (parent == kNone) return kNone;
    const std::size_t length = directory.empty() ? 0 : directory.size() + 1;
    return add(parent, tree_->prefix.size() + length, rules);
}

std::optional<bool> IgnoredPaths::judge(Scope scope, std::string_view fullPath, bool isDirectory) const {
    for (; scope != kNone; scope = links_[static_cast<std::size_t>(scope)].parent) {
        const Link& link = links_[static_cast<std::size_t>(scope)];
        if (const auto said = link.rules.judge(fullPath.substr(link.directoryLength), isDirectory)) return said;
    }
    return std::nullopt;
}

bool IgnoredPaths::isExcluded(Scope scope, std::string_view path, bool isDirectory) const {
    if (scope == kNone) return false;
    if (tree_->prefix.empty()) return judge(scope, path, isDirectory).value_or(false);
    return judge(scope, tree_->prefix + std::string(path), isDirectory).value_or(false);
}

bool IgnoredPaths::isTracked(std::string_view path) {
    loadTracked();
    const std::string full = tree_->prefix + std::string(path);
    for (const TrackedNames& names : tracked_)
        if (names.contains(full)) return true;
    return unreadable_;
}

bool IgnoredPaths::hasTrackedBeneath(std::string_view directory) {
    loadTracked();
    const std::string full = tree_->prefix + std::string(directory);
    for (const TrackedNames& names : tracked_)
        if (names.containsBeneath(full)) return true;
    return unreadable_;
}

bool IgnoredPaths::isSkipped(std::string_view path) {
    if (!tree_) return false;
    loadTracked();
    const std::string full = tree_->prefix + std::string(path);
    return std::any_of(tracked_.begin(), tracked_.end(),
                       [&](const TrackedNames& names) { return names.isSkipped(full); });
}

// Only once something looks ignored: reading the index of a large project takes milliseconds.
void IgnoredPaths::loadTracked() {
    if (loaded_) return;
    loaded_ = true;
    if (::access((tree_->directory / "index").c_str(), F_OK) != 0 && errno == ENOENT) return;
    unreadable_ = !readIndex("index");
    if (unreadable_ || tracked_.back().sharedWith().empty()) return;
    unreadable_ = !readIndex("sharedindex." + tracked_.back().sharedWith());
}

bool IgnoredPaths::readIndex(const std::string& name) {
    const auto bytes = readPlainFile(AT_FDCWD, tree_->directory / name, kIndexCap);
    auto names = bytes ? TrackedNames::parse(*bytes) : std::nullopt;
    if (names) tracked_.push_back(std::move(*names));
    return names.has_value();
}

}  // namespace gradus
