// A program that does nothing but write to a store, for the tests that take its power away.
//   store_writer STATE_DIRECTORY ACKNOWLEDGE_FD NAME
// After each commit, and only then, it writes "SEQ CHANGE OBJECT TITLE" to the descriptor. It ends when it is killed,
// when nobody reads its acknowledgements any more, or at the first fault, which it tells as "error: …".
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "store/file.h"
#include "store/model/error.h"
#include "store/objects.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::someSubmission;

struct Commit {
    std::int64_t seq = 0;
    std::int64_t change = 0;
};

/// The object a change refers to, put before the change is committed: from a few bytes to several blocks.
Digest putObject(Objects& objects, const std::string& title, int turn) {
    std::string content = title;
    for (int i = 0; i < turn % 8 * 200; ++i) content += sha256(content.substr(0, 64) + std::to_string(i)).view();
    return objects.put(content);
}

/// What one transaction does: mostly a submission, now and then a whole promotion or a second revision.
Commit workOn(Writer& writer, const Climb& climb, const Submission& submission, int turn) {
    const std::int64_t change = writer.submit(climb.project, climb.actor, submission);
    if (turn % 4 == 1) climb.stage(writer, change, "staging", PromotionState::kPromoted);
    if (turn % 4 == 2) climb.stage(writer, change, "staging", PromotionState::kRolledBack);
    if (turn % 16 == 3) climb.whole(writer, submission.title + " again");
    return {writer.counts().events, change};
}

void acknowledge(int fd, const std::string& line) { writeAll(fd, line + "\n", "the acknowledgements"); }

void writeForEver(const StateDirectory& state, int fd, const std::string& name) {
    const SystemClock clock;
    SystemRandom random;
    Store store = Store::openForWriting(state, {.clock = clock, .random = random});
    const Climb climb = Climb::begin(store);
    Objects objects(state.objects(), clock);
    for (int turn = 0;; ++turn) {
        Submission submission = someSubmission(name + "-" + std::to_string(turn));
        submission.changeSet = putObject(objects, submission.title, turn);
        Commit commit;
        store.write([&](Writer& writer) { commit = workOn(writer, climb, submission, turn); });
        acknowledge(
            fd, fmt::format("{} {} {} {}", commit.seq, commit.change, submission.changeSet.hex(), submission.title));
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
