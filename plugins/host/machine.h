#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace gradus {

/// One thing about this machine that sandboxes depend on.
struct MachineFact {
    enum class Word {
        kGood,
        kLimits,  ///< sandboxes work, with less than they could have
        kStops,   ///< sandboxes cannot be built
    };
    std::string name;
    Word word = Word::kGood;
    std::string seen;
    std::string cure;  ///< the exact command, where there is one
};

/// What the kernel's settings say to user `uid`. `root` stands for `/`, so that other machines can be described.
/// Settings are read, not tried: the proof of a guarantee is a backend's probe.
std::vector<MachineFact> machineFacts(uid_t uid, const std::filesystem::path& root = "/");

}  // namespace gradus
