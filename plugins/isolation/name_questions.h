#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/isolation/address_rule.h"
#include "plugins/isolation/event_loop.h"

namespace gradus {

/// What a name stands for, asked outside; nothing if nobody knows it. May take long; called on threads of its own.
using Resolver = std::function<std::vector<NetworkAddress>(const std::string& host)>;

/// As the host's own programs resolve it.
std::vector<NetworkAddress> resolveAsTheHostDoes(const std::string& host);

/// Names that are asked for, a few at a time, without anybody waiting for the answers: they come through the loop.
class NameQuestions {
  public:
    enum class Result { kFound, kNoThread };
    /// `key` is the asker's.
    using Answer = std::function<void(std::uint64_t key, Result result, std::vector<NetworkAddress> found)>;

    /// The loop is borrowed.
    NameQuestions(EventLoop& loop, Resolver resolver, Answer answer);
    ~NameQuestions();
    NameQuestions(const NameQuestions&) = delete;
    NameQuestions& operator=(const NameQuestions&) = delete;

    void ask(std::uint64_t key, const std::string& host);
    /// Not asked any more, if it was not yet; an answer that is under way comes.
    void forget(std::uint64_t key);

  private:
    struct Answers;

    void begin();
    void hear();

    EventLoop& loop_;
    const Resolver resolver_;
    const Answer answer_;
    std::shared_ptr<Answers> answers_;  ///< with resolver threads
    std::deque<std::pair<std::uint64_t, std::string>> waiting_;
    std::size_t asking_ = 0;
};

}  // namespace gradus
