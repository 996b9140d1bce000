#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/child_process.h"
#include "tests/support/scratch.h"

namespace gradus::bench {

/// Another tool that confines a program, ready to run /bin/true once per start.
struct Peer {
    std::string name;
    std::vector<std::string> words;
    double goal = 0;     ///< how many times faster a pooled sandbox should be; 0: no more than printed
    std::string whyNot;  ///< why it cannot be measured here; empty if it can
};

/// Runs it to the end with nothing to read and nowhere to write. True if it exited 0.
bool runs(const std::vector<std::string>& words);

/// The command line of bwrap with the namespaces of our sandboxes; its first word is empty where there is no bwrap.
std::vector<std::string> bwrapCommand();

/// All of them, in one directory of their own: a bundle for runc, an image of busybox, a dockerd that listens on a
/// socket there and has no bridge and touches no packet filter. Whatever was started ends with this.
class Peers {
  public:
    Peers();
    ~Peers();
    Peers(const Peers&) = delete;
    Peers& operator=(const Peers&) = delete;

    const std::vector<Peer>& all() const { return all_; }

  private:
    void add(const std::string& name, std::vector<std::string> words, double goal);
    void refuse(const std::string& name, std::string whyNot);
    void addRunc();
    void addDocker();
    void addPodman();
    std::string makeImage();
    std::string startDocker();
    std::vector<std::string> podman() const;

    test::ScratchDirectory scratch_;
    std::optional<std::filesystem::path> image_;  ///< once it was made
    std::unique_ptr<ChildProcess> daemon_;
    bool usedPodman_ = false;
    std::vector<Peer> all_;
};

}  // namespace gradus::bench
