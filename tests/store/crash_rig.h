#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "store/file.h"
#include "store/model/digest.h"
#include "store/state_directory.h"

namespace gradus::test {

/// A commit that a writer was told is durable.
struct Acknowledged {
    std::int64_t seq = 0;
    std::int64_t change = 0;
    std::string title;
    std::optional<Digest> object;  ///< put before the commit that refers to it
};

/// One store_writer in a process of its own. Killed and reaped with its owner, and by the kernel should the test die.
class WriterProcess {
  public:
    WriterProcess(const std::filesystem::path& program, const StateDirectory& state, const std::string& name);
    WriterProcess(WriterProcess&& other) noexcept;
    ~WriterProcess();

    int acknowledgements() const { return pipe_.get(); }
    bool isRunning() const { return pid_ > 0; }
    /// kill -9, and waits until it is gone.
    void kill();
    /// Takes in what was acknowledged so far, without waiting. A complaint of the writer is kept, too.
    void takeAcknowledgements(std::vector<Acknowledged>& into, std::vector<std::string>& complaints);

  private:
    pid_t pid_ = -1;
    FileDescriptor pipe_;
    std::string partial_;
    bool ended_ = false;
};

/// Several writers at once on one store, and what they were told.
class Writers {
  public:
    Writers(const std::filesystem::path& program, const StateDirectory& state, int count, const std::string& name);

    /// Waits until `count` more commits were acknowledged. False if a writer failed or nothing moved for long.
    bool await(std::size_t count);
    /// Takes in what arrives within that time.
    void listen(std::chrono::microseconds time);
    void kill(std::size_t index);
    void killAll();
    std::size_t size() const { return processes_.size(); }

    const std::vector<Acknowledged>& acknowledged() const { return acknowledged_; }
    const std::vector<std::string>& complaints() const { return complaints_; }

  private:
    /// False once no writer has anything more to say.
    bool takeWhatArrives(std::chrono::microseconds patience);

    std::vector<WriterProcess> processes_;
    std::vector<Acknowledged> acknowledged_;
    std::vector<std::string> complaints_;
};

/// What a rig saw. A failure is a value: for a mutant it is the wanted outcome.
struct RigReport {
    int rounds = 0;
    std::size_t commits = 0;
    std::optional<std::string> failure;
};

/// Creates a store with nothing in it yet.
void prepareStore(const StateDirectory& state);

enum class After { kKill, kPowerCut };

/// What is wrong with a store that was cut off in the middle of writing; nothing if it kept every promise: no
/// acknowledged commit or object lost, every object whole, the log verifies, the state follows from it, the anchor only
/// ever goes forward, and it can be written again.
std::optional<std::string> brokenPromise(const StateDirectory& state, const std::vector<Acknowledged>& acknowledged,
                                         After after);

/// Rounds of: several writers on one store, one killed at a random moment, the others a little later.
RigReport runKillRig(const std::filesystem::path& program, int rounds, unsigned seed);

/// store_writer, or a mutant of it.
std::filesystem::path writerProgram(const std::string& mutant = "");

/// `usual`, or `extended` when GRADUS_LONG is set.
int roundsOf(int usual, int extended);

}  // namespace gradus::test
