#include "pipeline/engine/built.h"

#include <algorithm>
#include <map>
#include <set>

#include "store/change_sets.h"
#include "store/model/canonical.h"
#include "store/model/error.h"

namespace gradus {

namespace {

bool isDirectory(const std::optional<Entry>& entry) { return entry && entry->type == EntryType::kDirectory; }

void addNeeds(const Pipeline& pipeline, const Check& check, std::set<std::string>& all) {
    for (const std::string& need : check.settings.list("needs")) {
        const auto needed = pipeline.checks.find(need);
        if (needed != pipeline.checks.end() && all.insert(need).second) addNeeds(pipeline, needed->second, all);
    }
}

}  // namespace

bool builds(const Check& check) { return check.settings.find("outputs") != nullptr; }

std::vector<std::string> buildersFor(const Pipeline& pipeline, const Stage& stage, const Check& check) {
    std::set<std::string> needed;
    addNeeds(pipeline, check, needed);
    std::vector<std::string> builders;
    for (const std::string& name : stage.checks)
        if (needed.contains(name) && builds(pipeline.checks.at(name))) builders.push_back(name);
    return builders;
}

// Of two checks that build the same path, one would win without anybody having said which.
ChangeSet builtTogether(const Objects& objects, const std::vector<Digest>& outputs, const std::string& stage) {
    std::map<std::string, PathChange> all;
    for (const Digest& output : outputs) {
        const ChangeSet built = readChanges(objects, output);
        for (const PathChange& change : built.changes()) {
            const auto [same, isNew] = all.emplace(change.path, change);
            if (isNew || same->second == change || (isDirectory(change.after) && isDirectory(same->second.after)))
                continue;
            throw Error(ErrorCode::kNotAllowed, "two checks of {} build '{}', and not the same", stage, change.path)
                .hint("let their `outputs` name different files");
        }
    }
    std::vector<PathChange> changes;
    for (auto& [path, change] : all) changes.push_back(std::move(change));
    return ChangeSet(std::move(changes));
}

ChangeSet withBuilt(const ChangeSet& changes, const ChangeSet& built) {
    std::map<std::string, PathChange> all;
    for (const PathChange& change : changes.changes()) all.emplace(change.path, change);
    for (const PathChange& change : built.changes()) {
        PathChange& known = all.emplace(change.path, change).first->second;
        // What the change removes, a build may put in its place.
        if (!known.after) known.after = change.after;
    }
    std::vector<PathChange> together;
    for (auto& [path, change] : all) together.push_back(std::move(change));
    return ChangeSet(std::move(together));
}

Digest overOutputs(const Digest& digest, const std::vector<Digest>& outputs) {
    if (outputs.empty()) return digest;
    Canonical form("gradus.over-outputs.1");
    form.digest(digest).list(outputs.size());
    for (const Digest& output : outputs) form.digest(output);
    return form.hash();
}

}  // namespace gradus
