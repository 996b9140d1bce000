#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "store/anchor.h"
#include "store/audit_log.h"
#include "store/model/audit_event.h"
#include "store/records.h"
#include "store/state_directory.h"

namespace gradus {

/// A promotion about to be opened.
struct PromotionDraft {
    std::int64_t project = 0;
    std::int64_t change = 0;
    std::int64_t revision = 1;
    std::string stage;
    Digest rules;
    std::optional<std::int64_t> undoes;
    Moment opened = {};                      ///< its time is that of the transaction
    std::optional<std::string> goal = {};    ///< the stage up to which somebody wants the change
    std::optional<std::int64_t> place = {};  ///< of what it takes the place of; nothing: it has its own
};

/// What a promotion is about to do, recorded before it does it.
struct PromotionIntent {
    std::string target;
    Digest checkpoint;
    Digest tree;  ///< that its checks looked at
    std::optional<Digest> previousTree;
    std::optional<Digest> steps = {};        ///< the object that lists them; nothing: there are none
    std::optional<std::int64_t> paths = {};  ///< how many it writes
};

/// One step of a promotion: it must stand at `from`, or nothing happens and an Error says so.
struct PromotionStep {
    std::int64_t promotion = 0;
    PromotionState from = PromotionState::kQueued;
    PromotionState to = PromotionState::kQueued;
    Cause cause = Cause::kProceeded;
    std::string reason = {};                      ///< free text, for people
    std::optional<PromotionIntent> intent = {};   ///< only to applying; takes the target, which must be free
    std::optional<Digest> tree = {};              ///< only to verifying: what the stage holds now
    bool back = false;                            ///< the stage holds what it held before this promotion
    bool attention = false;                       ///< somebody should look: edits were kept, or it is not well again
    std::int64_t kept = 0;                        ///< paths that were left as somebody else had made them
    std::optional<Digest> base = {};              ///< only to waiting: what the stage holds, as it was looked at
    std::optional<Digest> evidence = {};          ///< beside `base`: what its checks proved
    std::optional<ActorId> promoter = {};         ///< who asked for it, where somebody else drives
    std::optional<std::int64_t> replacedBy = {};  ///< only to superseded: the promotion that took its place
    std::string rules = {};                       ///< beside the reason: where that is written, "gradus.toml:12:9"
};

/// One write transaction. Every method records an event and, through the projection, the state that follows from it.
class Writer : public Records {
  public:
    /// The id of that actor or project, registered on first sight.
    ActorId actor(const Actor& actor);
    std::int64_t project(const ProjectIdentity& project, ActorId by);
    using Records::actor;
    using Records::project;

    void trustRules(std::int64_t project, ActorId by, const Digest& rules, const Digest& files);
    /// Gives the new change's id.
    std::int64_t submit(std::int64_t project, ActorId by, const Submission& submission);
    /// Gives the new revision's number.
    std::int64_t revise(std::int64_t change, ActorId by, const Submission& submission);
    /// Gives the new promotion's id.
    std::int64_t openPromotion(const PromotionDraft& draft, ActorId by);
    void movePromotion(const PromotionStep& step, ActorId by);
    /// Somebody wants it up to another stage than before.
    void aimPromotion(std::int64_t promotion, const std::string& goal, ActorId by);
    void recordCheck(const CheckResult& result, ActorId by);
    /// Takes an event's free text away for good, leaving its hash in the chain.
    void redact(std::int64_t seq, ActorId by);

    std::int64_t nextApproval() const;
    /// The event every method above goes through.
    Event record(EventDraft draft);

  private:
    friend class Store;
    Writer(Sql& sql, ChainHead& head, Time now, Random& random)
        : Records(sql), log_(sql), head_(head), now_(now), random_(random) {}
    void warnIfClockWentBack();
    EventDraft aboutPromotion(EventKind kind, std::int64_t promotion, ActorId by);

    AuditLog log_;
    ChainHead& head_;
    Time now_;
    Random& random_;
    std::int64_t batch_ = 0;
    bool spoiled_ = false;
    EventDraft promotion_;  // what events about the last promotion have in common: these columns never change
};

/// Everything that is remembered: one database per user, written by one process at a time, with its log anchored
/// outside it after every commit. One thread at a time per Store; any number of Stores and processes.
class Store {
  public:
    struct Surroundings {
        const Clock& clock;
        Random& random;
        Milliseconds lockPatience{30'000};
        /// Told of every commit; the anchor file of the state directory unless given.
        std::shared_ptr<AnchorSink> anchor = nullptr;  // shared: the caller may read it while the store writes it
    };

    /// Creates what is missing. Throws Error when it cannot be trusted: another program's database, a newer schema, a
    /// log that ends before its anchor or differs from it.
    static Store openForWriting(const StateDirectory& state, Surroundings surroundings);
    /// Nothing if there is no store yet. Changes nothing.
    static std::optional<Store> openForReading(const StateDirectory& state, Surroundings surroundings);
    ~Store();
    Store(Store&&) noexcept;
    Store& operator=(Store&&) noexcept;

    /// Routine writes fail on a full disk. A vital one (a rollback's record) first gives up the ballast and tries
    /// again.
    enum class Urgency { kRoutine, kVital };

    /// Runs `work` in one durable transaction: when write() returns, it survives a power cut; when it throws, nothing
    /// happened. `work` may run twice (see Urgency) and must do nothing but speak to its Writer.
    void write(const std::function<void(Writer&)>& work, Urgency urgency = Urgency::kRoutine);

    /// Before a way back writes beside the database (a driver's journal, what was in a tree): gives up the ballast
    /// where its disk is as good as full.
    void makeRoom() const noexcept;

    const Records& records() const;
    Sql& sql();
    const AnchorSink& anchor() const;
    const StateDirectory& state() const;
    std::string storeId() const;

    /// Moves what the write-ahead log holds into the database and cuts the log, so that text deleted before is in no
    /// file any more. False if a reader keeps it from happening now; a later checkpoint does it then.
    bool forgetDeleted();
    /// Why the anchor does not vouch for the newest event; nothing if it does.
    std::optional<std::string> anchorGap() const;
    bool hasKey() const;
    /// Recomputes every state table from the events.
    void rebuild();
    /// Starts a new anchor (and a new key, if that is lost) at the head of the log, on the record.
    void reanchor(ActorId by);
    /// A consistent copy of the database, whole or not there at all. Refuses to replace anything.
    void backup(const std::filesystem::path& target);
    /// The anchor and the key that belong to a backup made just before: the anchor as far as that database goes.
    void copyAnchor(const StateDirectory& backup);
    /// Problems SQLite finds in its own file and dangling references; empty if there are none. Reads everything.
    std::vector<std::string> check();

    struct Sizes {
        std::uintmax_t database = 0;
        std::uintmax_t writeAheadLog = 0;
        bool ballast = false;
        int schema = 0;
    };
    Sizes sizes();

  private:
    struct Inside;
    explicit Store(std::unique_ptr<Inside> inside);
    std::unique_ptr<Inside> inside_;
};

}  // namespace gradus
