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
    : jail_(std::move(jail)), pool_(std::move(pool)), limits_(limits), umask_(umask), clock_(clock) {}

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
    if (!sendFrame(jail_.control.get(), JailMessage::kSetup, encode(setup))) {
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
    pooled_ = !setup.hostNetwork && !setup.system && !jail_.holds;
    return std::nullopt;
}

Outcome JailSession::run(const Command& command) {
    if (!open_) throw Error(ErrorCode::kUsage, "the sandbox is closed");
    const Time startedAt = clock_.now();
    RunExchange exchange(jail_.control.get(), command, limits_, umask_);
    exchange.start();
    exchange.follow();
    if (exchange.isLost()) {
        jail_.process.kill();
        pooled_ = false;
        close();
        throw Error(ErrorCode::kInfrastructure, "the sandbox was lost: gradus-jail ended without a report");
    }
    Outcome outcome = judge(exchange.takeReport(), limits_, ready_);
    outcome.startedAt = startedAt;
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
    uppers_.clear();
    if (pooled_ && pool_ && giveBack()) return;
    endJail(jail_);
}

}  // namespace gradus
