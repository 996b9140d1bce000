#include "plugins/isolation/name_questions.h"

#include <netdb.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <system_error>

#include "plugins/host/quiet_thread.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::size_t kMostQuestions = 8;

}  // namespace

/// Shared with the resolver threads, which may still wait for a name when whoever asked is gone: nothing ends
/// getaddrinfo.
struct NameQuestions::Answers {
    std::mutex mutex;
    std::vector<std::pair<std::uint64_t, std::vector<NetworkAddress>>> all;
    FileDescriptor wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

std::vector<NetworkAddress> resolveAsTheHostDoes(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &::freeaddrinfo);
    std::vector<NetworkAddress> all;
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next)
        if (auto address = addressIn(*entry->ai_addr)) all.push_back(*address);
    return all;
}

NameQuestions::NameQuestions(EventLoop& loop, Resolver resolver, Answer answer)
    : loop_(loop), resolver_(std::move(resolver)), answer_(std::move(answer)), answers_(std::make_shared<Answers>()) {
    if (!answers_->wake) throw Error(ErrorCode::kInfrastructure, "cannot wait for names: {}", errnoText(errno));
    loop_.watch(answers_->wake.get(), EPOLLIN, [this](std::uint32_t) { hear(); });
}

NameQuestions::~NameQuestions() { loop_.unwatch(answers_->wake.get()); }

void NameQuestions::ask(std::uint64_t key, const std::string& host) {
    waiting_.emplace_back(key, host);
    begin();
}

void NameQuestions::forget(std::uint64_t key) {
    std::erase_if(waiting_, [&](const auto& question) { return question.first == key; });
}

void NameQuestions::begin() {
    while (asking_ < kMostQuestions && !waiting_.empty()) {
        const auto [key, host] = std::move(waiting_.front());
        waiting_.pop_front();
        try {
            quietThread([answers = answers_, resolver = resolver_, host = host, key = key] {
                std::vector<NetworkAddress> found;
                try {
                    found = resolver(host);
                } catch (const std::exception&) {
                    found.clear();  // as for a name that nobody knows
                }
                const std::lock_guard<std::mutex> lock(answers->mutex);
                answers->all.emplace_back(key, std::move(found));
                ::eventfd_write(answers->wake.get(), 1);
            }).detach();
            ++asking_;
        } catch (const std::system_error&) {
            answer_(key, Result::kNoThread, {});
        }
    }
}

void NameQuestions::hear() {
    eventfd_t ignored = 0;
    ::eventfd_read(answers_->wake.get(), &ignored);
    decltype(answers_->all) all;
    {
        const std::lock_guard<std::mutex> lock(answers_->mutex);
        all.swap(answers_->all);
    }
    for (auto& [key, found] : all) {
        --asking_;
        answer_(key, Result::kFound, std::move(found));
    }
    begin();
}

}  // namespace gradus
