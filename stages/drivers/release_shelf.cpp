#include "stages/drivers/release_shelf.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "stages/changes/git_work_tree.h"
#include "stages/changes/tree_writer_beneath.h"
#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kHeadDomain = "gradus.release.1";
constexpr std::string_view kMadeDomain = "gradus.made.1";
constexpr std::string_view kActivationDomain = "gradus.activation.1";
constexpr std::string_view kOutputsDomain = "gradus.release-outputs.1";
constexpr std::string_view kBegun = ".begun";
constexpr std::string_view kFiles = ".files";
constexpr std::string_view kHead = ".release";
constexpr std::string_view kShown = ".shown";
constexpr std::string_view kBrought = ".brought";
constexpr std::string_view kOutputs = ".outputs";
constexpr std::uint64_t kSmall = 1U << 20;
constexpr std::uint64_t kLarge = std::uint64_t{1} << 32;

std::string named(const std::string& id, std::string_view suffix) { return id + std::string(suffix); }

}  // namespace

ReleaseShelf::ReleaseShelf(const fs::path& state, FileOperations& files) : path_(state / "releases"), files_(files) {
    makeDirectoriesDurably(path_);
    directory_ = openFile(path_, O_RDONLY | O_DIRECTORY);
}

void ReleaseShelf::put(const std::string& name, std::string_view bytes) {
    putFile(files_, directory_.get(), name, bytes, 0600);
}

void ReleaseShelf::drop(const std::string& name) {
    const int error = files_.removeFile(directory_.get(), name);
    if (error != 0 && error != ENOENT) throwFault("remove", (path_ / name).native(), error);
}

std::optional<std::string> ReleaseShelf::get(const std::string& name, std::uint64_t cap) const {
    return readPlainFile(directory_.get(), name, cap);
}

void ReleaseShelf::begin(const std::string& id) { put(named(id, kBegun), ""); }

ReleaseHead ReleaseShelf::finish(const std::string& id, const std::string& record, const Digest& manifest,
                                 std::int64_t made, const std::vector<std::string>& outputs) {
    ReleaseHead head{id, manifest, sha256(record), made};
    if (!outputs.empty()) {
        Canonical list(kOutputsDomain);
        list.list(outputs.size());
        for (const std::string& path : outputs) list.text(path);
        put(named(id, kOutputs), list.bytes());
    }
    put(named(id, kFiles), record);
    Canonical out(kHeadDomain);
    out.text(id).digest(manifest).digest(head.record).number(made);
    put(named(id, kHead), out.bytes());
    return head;
}

void ReleaseShelf::show(const std::string& id) {
    if (!wasShown(id)) put(named(id, kShown), "");
}

void ReleaseShelf::hide(const std::string& id) { drop(named(id, kShown)); }

bool ReleaseShelf::wasShown(const std::string& id) const { return get(named(id, kShown), kSmall).has_value(); }

void ReleaseShelf::bring(const std::string& id) {
    if (!wasBrought(id)) put(named(id, kBrought), "");
}

bool ReleaseShelf::wasBrought(const std::string& id) const { return get(named(id, kBrought), kSmall).has_value(); }

std::optional<ReleaseHead> ReleaseShelf::head(const std::string& id) const {
    const auto bytes = get(named(id, kHead), kSmall);
    if (!bytes) return std::nullopt;
    CanonicalReader in(*bytes, kHeadDomain);
    ReleaseHead head;
    head.id = in.text();
    head.manifest = in.digest();
    head.record = in.digest();
    head.made = in.number();
    in.end();
    if (head.id != id) in.fail("it is about another release");
    return head;
}

TreeRecord ReleaseShelf::record(const ReleaseHead& head) const {
    const auto bytes = get(named(head.id, kFiles), kLarge);
    if (!bytes || sha256(*bytes) != head.record)
        throw Error(ErrorCode::kDamaged, "{} is not the record of release '{}'",
                    (path_ / named(head.id, kFiles)).native(), head.id)
            .hint("take the release as it is now: gradus adopt STAGE");
    return TreeRecord::decode(*bytes);
}

std::vector<std::string> ReleaseShelf::outputs(const std::string& id) const {
    std::vector<std::string> paths;
    const auto bytes = get(named(id, kOutputs), kLarge);
    if (!bytes) return paths;
    CanonicalReader in(*bytes, kOutputsDomain);
    for (std::uint64_t left = in.list(); left > 0; --left) paths.push_back(in.text());
    in.end();
    return paths;
}

std::vector<std::string> ReleaseShelf::begun() const {
    std::vector<std::string> ids;
    for (const std::string& name : namesBeneath(directory_.get(), SIZE_MAX))
        if (name.ends_with(kBegun)) ids.push_back(name.substr(0, name.size() - kBegun.size()));
    std::ranges::sort(ids);
    return ids;
}

// The beginning last: without it nobody would look for the rest.
void ReleaseShelf::forget(const std::string& id) {
    for (const std::string_view suffix : {kShown, kBrought, kHead, kOutputs, kFiles, kBegun}) drop(named(id, suffix));
    if (const int error = files_.sync(directory_.get())) throwFault("sync", path_.native(), error);
}

std::vector<MadePath> ReleaseShelf::made() const {
    const auto bytes = get("made", kSmall);
    std::vector<MadePath> made;
    if (!bytes) return made;
    CanonicalReader in(*bytes, kMadeDomain);
    for (std::uint64_t left = in.list(); left > 0; --left) {
        MadePath path{in.text(), std::nullopt};
        if (in.list() == 1) path.manifest = in.digest();
        made.push_back(std::move(path));
    }
    in.end();
    return made;
}

void ReleaseShelf::setMade(const std::vector<MadePath>& made) {
    Canonical out(kMadeDomain);
    out.list(made.size());
    for (const MadePath& path : made) {
        out.text(path.path).list(path.manifest ? 1 : 0);
        if (path.manifest) out.digest(*path.manifest);
    }
    put("made", out.bytes());
}

ReleaseShelf::Activation ReleaseShelf::activation() const {
    const auto bytes = get("activation", kSmall);
    if (!bytes) return {};
    CanonicalReader in(*bytes, kActivationDomain);
    Activation activation;
    activation.isOpen = in.number() != 0;
    activation.id = in.text();
    in.end();
    return activation;
}

void ReleaseShelf::setActivation(const Activation& activation) {
    put("activation", Canonical(kActivationDomain).number(activation.isOpen ? 1 : 0).text(activation.id).bytes());
}

}  // namespace gradus
