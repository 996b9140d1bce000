// A program that does nothing but write to a store, for the tests that take its power away.
//   store_writer STATE_DIRECTORY ACKNOWLEDGE_FD NAME
// After each commit, and only then, it writes "SEQ CHANGE TITLE" to the descriptor. It ends when it is killed, when
// nobody reads its acknowledgements any more, or at the first fault, which it tells as "error: …".
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "store/file.h"
#include "store/model/error.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::someSubmission;

struct Commit {
    std::int64_t seq = 0;
    std::int64_t change = 0;
};

/// What one transaction does: mostly a submission, now and then a whole promotion or a second revision.
Commit workOn(Writer& writer, const Climb& climb, const std::string& title, int turn) {
    const std::int64_t change = writer.submit(climb.project, climb.actor, someSubmission(title));
    if (turn % 4 == 1) climb.stage(writer, change, "staging", PromotionState::kPromoted);
    if (turn % 4 == 2) climb.stage(writer, change, "staging", PromotionState::kRolledBack);
    if (turn % 16 == 3) climb.whole(writer, title + " again");
    return {writer.counts().events, change};
}

void acknowledge(int fd, const std::string& line) { writeAll(fd, line + "\n", "the acknowledgements"); }

void writeForEver(const StateDirectory& state, int fd, const std::string& name) {
    const SystemClock clock;
    SystemRandom random;
    Store store = Store::openForWriting(state, {.clock = clock, .random = random});
    const Climb climb = Climb::begin(store);
    for (int turn = 0;; ++turn) {
        const std::string title = name + "-" + std::to_string(turn);
        Commit commit;
        store.write([&](Writer& writer) { commit = workOn(writer, climb, title, turn); });
        acknowledge(fd, fmt::format("{} {} {}", commit.seq, commit.change, title));
    }
}

}  // namespace
}  // namespace gradus

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fputs("usage: store_writer STATE_DIRECTORY ACKNOWLEDGE_FD NAME\n", stderr);
        return 2;
    }
    std::signal(SIGPIPE, SIG_DFL);
    const int fd = std::atoi(argv[2]);
    try {
        gradus::writeForEver({argv[1]}, fd, argv[3]);
    } catch (const std::exception& e) {
        gradus::acknowledge(fd, std::string("error: ") + e.what());
        return 1;
    }
}
