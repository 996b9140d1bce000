#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "stages/changes/base_view.h"
#include "stages/changes/contents.h"
#include "stages/changes/directory_listing.h"
#include "stages/changes/harvest.h"
#include "stages/changes/ignored_paths.h"

namespace gradus {

/// One harvest. Directories wait in a list and are opened one at a time, so neither depth nor width costs descriptors.
class Harvester {
  public:
    Harvester(const HarvestSource& source, const HarvestOptions& options);
    Harvest run();
    /// The base is a repository's own directory: how many of its files are not as in the base.
    std::uint64_t countRepository();

  private:
    enum class Ignored { kNo, kUnlessTracked, kWholly };

    /// A directory to visit: one that layers have, or one of the base that is hidden or gone.
    struct Place {
        std::string path;
        std::vector<std::size_t> layers{};  ///< that have a directory here, topmost first
        BaseEntry base{};
        std::optional<Entry> before{};  ///< what the base has, if it is known and no directory
        bool trusted = true;            ///< the way to `base` is the one of the start
        bool unmoved = false;           ///< no name in the base's directory above has changed since
        bool shines = true;             ///< what the base has here is seen where no layer says otherwise
        bool judged = false;            ///< the path's own change is told already
        bool inRepository = false;      ///< a repository's own directory, or below it: files are only counted
        Ignored ignored = Ignored::kNo;
        bool bySelf = false;  ///< ignored because a new directory, this or one above it, ignores itself
        IgnoredPaths::Scope scope = IgnoredPaths::kNone;
    };

    /// The directory being visited.
    struct Visit {
        const Place& place;
        std::vector<FileDescriptor> layers{};
        std::vector<std::size_t> numbers{};  ///< of the layers, in the source
        FileDescriptor base{};
        struct stat top {};    ///< of the topmost layer's directory
        std::string origin{};  ///< of the lowest layer's directory
        bool shines = true;
        bool trusted = true;
        bool absentKnown = false;  ///< a name that the base lacks was lacking at the start
        IgnoredPaths::Scope scope = IgnoredPaths::kNone;
        std::size_t firstDraft = 0;
        std::size_t firstChild = 0;
    };

    /// One name of the directory being visited: what the layers have, topmost first; nothing when only the base has it.
    struct Subject {
        std::span<const DirectoryItem> items{};
        const char* name = nullptr;
        std::string path{};
        BaseEntry base{};
        Ignored ignored = Ignored::kNo;
    };

    struct Draft {
        PathChange change;
        bool wasAbsent = false;     ///< known once the directory has been asked again
        bool wasDirectory = false;  ///< in the base: it can go only if all that it holds goes
        bool isCopy = false;        ///< a layer's copy of something that the base had once
    };

    /// What stays in a directory of the base that is to go.
    struct Kept {
        std::string path;
        bool onlyIgnored = true;
    };

    Place topmost() const;
    void visitAll(Place top);
    void visit(Place& place);
    bool ignoresItself(const Visit& visit);
    bool openLayers(Visit& visit);
    bool openBase(Visit& visit);
    bool isTheSame(const Visit& visit, int directory, const struct stat& info) const;
    bool judgeDirectory(const Visit& visit);
    void readRules(Visit& visit);
    std::vector<DirectoryItem> listNames(const Visit& visit);
    void judgeNames(Visit& visit, std::span<const DirectoryItem> items);
    void settleAbsent(const Visit& visit);

    void judgeName(Visit& visit, std::span<const DirectoryItem> items, const char* name);
    bool isLeftAlone(const Subject& subject) const;
    void countInRepository(Visit& visit, const Subject& subject);
    bool isOtherThanBase(const Visit& visit, const Subject& subject) const;
    Ignored ignoredAt(const Visit& visit, const Subject& subject, bool isDirectory);
    bool countIgnored(Visit& visit, const Subject& subject);
    void judgeSubject(Visit& visit, Subject& subject);
    void judgeFile(Visit& visit, Subject& subject);
    void judgeLink(Visit& visit, Subject& subject);
    void judgeAbsent(Visit& visit, Subject& subject);
    static bool isGone(const Visit& visit, const Subject& subject);
    void judgeRead(Visit& visit, Subject& subject, int file, const struct stat& info);
    static bool isNew(const Visit& visit);
    bool isCopyOfBase(const Visit& visit, const Subject& subject, const OverlayMarks& top) const;
    void countIgnoredFile(const Visit& visit);
    void pushDirectory(const Visit& visit, const Subject& subject, std::optional<Entry> before);
    void pushGone(const Visit& visit, const Subject& subject, bool judged);
    static int layerOf(const Visit& visit, const Subject& subject);

    /// The base's entry with its digest; nothing when it is absent, unknown (then `base.known` is false) or refused.
    /// `other` is the size of what it is compared with.
    std::optional<Entry> readBase(const Visit& visit, Subject& subject, bool& refused,
                                  std::optional<std::uint64_t> other = {});
    std::optional<Entry> readBaseFile(const Visit& visit, Subject& subject, bool& refused,
                                      std::optional<std::uint64_t> other);
    std::optional<Entry> readBaseLink(const Visit& visit, Subject& subject);
    /// Tells the change unless there is none; says whether it could.
    bool record(std::string_view path, const BaseEntry& base, const std::optional<Entry>& before,
                const std::optional<Entry>& after, mode_t mode);

    void refuse(std::string_view path, std::string reason);
    void reportForged(std::string_view path, const OverlayMarks& marks);
    void keepInPlace(const Subject& subject, bool ignored);
    void countEntry(const std::string& path);
    void countRepositoryEntry();
    [[noreturn]] void tooMany() const;
    /// Throws Error when it is to end early.
    void goOn() const;
    std::optional<Contents::Content> contentOf(int file, const struct stat& info, const std::string& path,
                                               std::optional<std::uint64_t> otherSize);
    Harvest finish();
    bool mayGo(const Draft& draft);

    const HarvestSource& source_;
    const HarvestOptions& options_;
    MarkSpace marks_;
    BaseView base_;
    Contents contents_;
    IgnoredPaths ignored_;
    std::unordered_set<std::string> notOurs_;
    std::vector<Place> waiting_;
    std::vector<Draft> drafts_;
    std::unordered_map<std::string, Kept> kept_;
    std::uint64_t entries_ = 0;
    std::uint64_t inRepository_ = 0;  ///< entries of repositories that were looked at
    std::uint64_t pathBytes_ = 0;
    Harvest result_;
};

}  // namespace gradus
