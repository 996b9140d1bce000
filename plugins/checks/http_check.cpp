#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "plugins/checks/builtin.h"
#include "plugins/checks/http_client.h"
#include "plugins/host/module.h"
#include "policies/language/duration.h"
#include "store/model/error.h"

namespace gradus {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using Kind = HttpReply::Kind;

/// One attempt; a service that takes longer to say that it is well is not.
constexpr Milliseconds kMostPerAttempt{5000};

std::string textOf(const HttpReply& reply) {
    switch (reply.kind) {
        case Kind::kAnswered:
            return fmt::format("status {}", reply.status);
        case Kind::kRefused:
            return "connection refused";
        case Kind::kSilent:
            return "no answer in time";
        case Kind::kGarbled:
            return "no HTTP: " + reply.detail;
        case Kind::kUntrusted:
            return "the certificate is not trusted: " + reply.detail;
        case Kind::kNotAsked:
            return "could not ask: " + reply.detail;
    }
    return {};
}

/// Asks until there were enough right answers in a row, or the time is up.
class Asking {
  public:
    explicit Asking(const CheckContext& context)
        : context_(context),
          settings_(context.check.settings),
          wanted_(std::max<std::int64_t>(settings_.number("consecutive-success"), 1)),
          deadline_(std::chrono::steady_clock::now() + settings_.duration("timeout")) {}

    CheckAnswer run() {
        auto* const ask = moduleFunction<HttpAsk>(kHttpModule, kHttpAsk);
        for (;; pause()) {
            const Milliseconds left = timeLeft();
            if (context_.cancel.stop_requested()) return answer(Cause::kCancelled, "cancelled");
            if (left <= Milliseconds(0)) return outOfTime();
            HttpReply reply;
            ask({settings_.text("http"), std::min(left, kMostPerAttempt), context_.cancel}, reply);
            if (context_.cancel.stop_requested()) continue;
            // Cut off by the end of all time, not by its own: that takes nothing from the right answers before it.
            if (reply.kind == Kind::kSilent && left < kMostPerAttempt && inARow_ > 0) return outOfTime();
            take(reply);
            if (inARow_ >= wanted_) return answer(Cause::kPassed, fmt::format("{}, {} in a row", last_, inARow_));
        }
    }

  private:
    bool isRight(const HttpReply& reply) const {
        const std::vector<std::int64_t> expected = expectedStatus();
        return reply.kind == Kind::kAnswered &&
               std::find(expected.begin(), expected.end(), reply.status) != expected.end();
    }

    std::vector<std::int64_t> expectedStatus() const {
        std::vector<std::int64_t> all;
        const Value* said = settings_.find("expect-status");
        if (said == nullptr) return {200};
        for (const Value& item : said->items) all.push_back(item.number);
        return all;
    }

    void take(const HttpReply& reply) {
        ++asked_;
        inARow_ = isRight(reply) ? inARow_ + 1 : 0;
        everReached_ = everReached_ || reply.kind != Kind::kNotAsked;
        const std::string text = textOf(reply);
        if (text != last_) log_ += fmt::format("attempt {}: {}\n", asked_, text);
        if (log_.size() > kMostLog) log_.erase(0, log_.size() - kMostLog);
        last_ = text;
        context_.progress(last_);
    }

    // A service that does not listen, answers wrongly or stays silent is a no: it was given all the time there is. A
    // name that means nothing here says nothing about it; nor do right answers of which there were not enough yet.
    CheckAnswer outOfTime() const {
        const std::string after = formatDuration(settings_.duration("timeout"));
        if (asked_ > 0 && !everReached_) return answer(Cause::kErrored, last_);
        if (inARow_ > 0)
            return answer(Cause::kTimedOut,
                          fmt::format("{} right answers in a row of {} after {}", inARow_, wanted_, after));
        return answer(Cause::kFailed, fmt::format("{}, {} attempts in {}", last_, asked_, after));
    }

    CheckAnswer answer(Cause verdict, std::string reason) const {
        CheckAnswer answer;
        answer.verdict = verdict;
        answer.reason = std::move(reason);
        answer.log = log_;
        return answer;
    }

    Milliseconds timeLeft() const {
        return std::chrono::ceil<Milliseconds>(deadline_ - std::chrono::steady_clock::now());
    }

    void pause() const {
        std::mutex mutex;
        std::condition_variable_any never;
        std::unique_lock lock(mutex);
        never.wait_for(
            lock, context_.cancel,
            std::clamp(settings_.duration("interval"), Milliseconds(0), std::max(timeLeft(), Milliseconds(0))),
            [] { return false; });
    }

    static constexpr std::size_t kMostLog = std::size_t{64} * 1024;

    const CheckContext& context_;
    const Settings& settings_;
    const std::int64_t wanted_;
    const SteadyTime deadline_;
    std::int64_t asked_ = 0;
    std::int64_t inARow_ = 0;
    bool everReached_ = false;
    std::string last_;
    std::string log_;
};

class HttpCheck final : public CheckKind {
  public:
    CheckAnswer run(const CheckContext& context) const override { return Asking(context).run(); }
};

}  // namespace

std::unique_ptr<CheckKind> httpCheck() { return std::make_unique<HttpCheck>(); }

CheckKindWords httpCheckWords() {
    return {.name = "http",
            .documentation = "Asks an address; the expected status, several times in a row, is a yes.",
            .keys =
                {
                    {.name = "http",
                     .type = ValueType::kUrl,
                     .documentation = "The address that is asked.",
                     .example = "\"http://127.0.0.1:8080/healthz\"",
                     .required = true},
                    {.name = "expect-status",
                     .type = ValueType::kCountList,
                     .documentation = "The status that is a yes.",
                     .example = "[200, 204]",
                     .fallback = "200",
                     .least = 100,
                     .most = 599},
                    {.name = "consecutive-success",
                     .type = ValueType::kCount,
                     .documentation = "How often in a row it must be so.",
                     .example = "3",
                     .fallback = "1",
                     .least = 1,
                     .most = 1000},
                    {.name = "interval",
                     .type = ValueType::kDuration,
                     .documentation = "The time between two attempts.",
                     .example = "\"5s\"",
                     .fallback = "\"5s\"",
                     .least = 100,
                     .most = 3'600'000},
                },
            .when = "after",
            .timeout = std::chrono::seconds(10)};
}

}  // namespace gradus
