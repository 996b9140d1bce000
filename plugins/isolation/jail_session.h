#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "plugins/api/isolation.h"
#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail_pool.h"
#include "plugins/isolation/network_broker.h"

namespace gradus {

/// The engine's end of one gradus-jail: a Sandbox.
class JailSession final : public Sandbox {
  public:
    /// The pool is shared by a backend and its sandboxes, which may outlive it; the jail goes back there.
    JailSession(Jail jail, std::shared_ptr<JailPool> pool, const Limits& limits, mode_t umask, const Clock& clock);
    /// Before setUp(): who connects, for a plan with routes.
    void use(std::unique_ptr<NetworkBroker> broker) { broker_ = std::move(broker); }
    ~JailSession() override;

    /// Sends the plan and waits for the jail to have built it.
    std::optional<Failure> setUp(const JailSetup& setup, Milliseconds patience);
    /// The jail had been waiting and ended without a word about the plan: a fresh one has no such excuse.
    bool isLost() const { return lost_ && jail_.waited; }
    /// The jail has not ended while nothing was asked of it.
    bool isAlive() const;

    Outcome run(const Command& command) override;
    void prepare() override;
    int upper(std::size_t index) const override;
    void beginClose() override;
    void close() override;

  private:
    std::optional<JailFrame> nextFrame(Milliseconds patience);
    bool giveBack();

    Jail jail_;
    std::shared_ptr<JailPool> pool_;
    Limits limits_;
    mode_t umask_;
    const Clock& clock_;
    std::unique_ptr<NetworkBroker> broker_;
    JailReady ready_;
    std::vector<Descriptor> uppers_;
    bool givenLayers_ = false;  ///< directories of the caller's are mounted
    bool pooled_ = false;       ///< it may be used again
    bool lost_ = false;
    bool open_ = true;
};

}  // namespace gradus
