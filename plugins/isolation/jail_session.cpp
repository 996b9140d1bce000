#include "plugins/isolation/jail_session.h"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include "plugins/isolation/jail_verdict.h"
#include "plugins/isolation/run_exchange.h"

namespace gradus {

namespace {

constexpr Milliseconds kResetPatience{10'000};

}  // namespace

JailSession::JailSession(Jail jail, std::shared_ptr<JailPool> pool, const Limits& limits, mode_t umask,
                         const Clock& clock)
    : jail_(std::move(jail)), pool_(std::move(pool)), limits_(limits), umask_(umask), clock_(clock) {
    if (pool_) pool_->begun();
}

JailSession::~JailSession() { JailSession::close(); }

std::optional<JailFrame> JailSession::nextFrame(Milliseconds patience) {
    pollfd event{jail_.control.get(), POLLIN, 0};
    if (::poll(&event, 1, static_cast<int>(patience.count())) <= 0) {
        jail_.process.kill();
        errno = ETIMEDOUT;
        return std::nullopt;
    }
    return receiveFrame(jail_.control.get());
}

std::optional<Failure> JailSession::setUp(const JailSetup& setup, Milliseconds patience) {
    const FileDescriptor broker = broker_ ? broker_->takeJailEnd() : FileDescriptor();
    const std::vector<int> descriptors = broker ? std::vector{broker.get()} : std::vector<int>();
    if (!sendFrame(jail_.control.get(), JailMessage::kSetup, encode(setup), descriptors)) {
        lost_ = true;
        return failure("start", "the plan");
    }
    std::optional<JailFrame> frame = nextFrame(patience);
    // One from the pool first says that it has forgotten its last sandbox.
    if (frame && frame->kind == JailMessage::kIdle) frame = nextFrame(patience);
    if (!frame && errno == ETIMEDOUT) return failure("start", "the jail does not answer", ETIMEDOUT);
    if (frame && frame->kind == JailMessage::kFailed)
        if (auto failed = decodeFailed(frame->body)) return failed;
    const auto ready = frame && frame->kind == JailMessage::kReady ? decodeReady(frame->body) : std::nullopt;
    if (!ready || frame->descriptors.size() != setup.overlays.size()) {
        lost_ = true;
        return failure("start", "the jail ended without a word", EPROTO);
    }
    ready_ = *ready;
    uppers_ = std::move(frame->descriptors);
    givenLayers_ = std::any_of(setup.overlays.begin(), setup.overlays.end(),
                               [](const JailOverlay& overlay) { return !overlay.upper.empty(); });
    pooled_ = !setup.hostNetwork && !setup.system && setup.routes.empty() && !jail_.holds;
    return std::nullopt;
}

bool JailSession::isAlive() const {
    pollfd event{jail_.control.get(), 0, 0};
    return open_ && ::poll(&event, 1, 0) == 0;
}

Outcome JailSession::run(const Command& command) {
    if (!open_) throw Error(ErrorCode::kUsage, "the sandbox is closed");
    const Time startedAt = clock_.now();
    RunExchange exchange(jail_.control.get(), command, limits_, umask_);
    exchange.start();
    exchange.follow();
    jail_.init = exchange.takeInit();
    if (exchange.isLost()) {
        jail_.process.kill();
        pooled_ = false;
        close();
        if (exchange.isOverdue())
            throw Error(ErrorCode::kInfrastructure,
                        "the sandbox was lost: its time was up, and gradus-jail did not end the command");
        throw Error(ErrorCode::kInfrastructure, "the sandbox was lost: gradus-jail ended without a report");
    }
    Outcome outcome = judge(exchange.takeReport(), limits_, ready_);
    outcome.startedAt = startedAt;
    if (broker_) {
        BrokerLog log = broker_->takeLog();
        outcome.sideEffects.networkAllowed = std::move(log.allowed);
        auto& denied = outcome.sideEffects.networkDenied;
        denied.insert(denied.begin(), log.refused.begin(), log.refused.end());
    }
    return outcome;
}

void JailSession::prepare() {
    if (open_) sendFrame(jail_.control.get(), JailMessage::kPrepare, {});
}

int JailSession::upper(std::size_t index) const {
    if (!open_ || index >= uppers_.size()) throw Error(ErrorCode::kUsage, "no such layer: {}", index);
    return uppers_[index].get();
}

// The caller's own layers may be mounted again as soon as close() returns, so that is waited for. Anything else a jail
// forgets in its own time.
bool JailSession::giveBack() {
    if (!sendFrame(jail_.control.get(), JailMessage::kReset, {})) return false;
    if (givenLayers_) {
        const std::optional<JailFrame> frame = nextFrame(kResetPatience);
        if (!frame || frame->kind != JailMessage::kIdle) return false;
    }
    jail_.forgets = !givenLayers_;
    return pool_->put(jail_);
}

// Its end of the stream is all a jail needs to take everything down.
void JailSession::beginClose() {
    if (!open_ || (pooled_ && pool_)) return;
    uppers_.clear();
    jail_.control = FileDescriptor();
}

void JailSession::close() {
    if (!open_) return;
    open_ = false;
    broker_.reset();
    uppers_.clear();
    if (pooled_ && pool_ && giveBack()) return;
    endJail(jail_);
    if (pool_) pool_->left();
}

}  // namespace gradus
