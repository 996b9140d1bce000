#pragma once

#include <optional>
#include <string>

#include "store/model/word.h"
#include "store/store.h"

namespace gradus {

/// What people say, recorded within one write transaction. Whether they may is the caller's to judge; what is not as a
/// step expects it (an approval used before, a hold that is not there) is an Error, and nothing of the transaction is
/// kept.
class WordWriter {
  public:
    /// `uid` is that of the process that speaks for `by`: on record beside the name.
    WordWriter(Writer& writer, ActorId by, std::int64_t uid) : writer_(writer), by_(by), uid_(uid) {}

    /// Gives the new approval's id.
    std::int64_t approve(const Approval& approval);
    void withdraw(const Approval& approval);
    /// The promotion is about to act on its strength; nobody does so again.
    void use(const Approval& approval, std::int64_t promotion);
    /// Withdraws what was said for it, and holds it there for machines.
    void reject(const Rejection& rejection);

    /// Holding what is held replaces the reason and the end.
    void hold(const Hold& hold);
    void release(std::int64_t project, const std::optional<std::int64_t>& change,
                 const std::optional<std::string>& stage);
    /// Another pin of the stage is replaced.
    void pin(const Pin& pin);
    void unpin(std::int64_t project, const std::string& stage);
    void veto(const Veto& veto);
    void unveto(const Veto& veto);
    /// Of one project, or of every one.
    void halt(const std::optional<std::int64_t>& project, const std::string& reason);
    void resume(const std::optional<std::int64_t>& project);
    void overrideGate(const GateOverride& word);

  private:
    EventDraft about(EventKind kind, const std::optional<std::string>& reason) const;
    EventDraft aboutApproval(EventKind kind, const Approval& approval) const;

    Writer& writer_;
    ActorId by_;
    std::int64_t uid_;
};

}  // namespace gradus
