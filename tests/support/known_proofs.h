#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace gradus::test {

/// Asking a backend for its proofs takes a second of processor time, and the answer is the same for all tests of one
/// user. So the first answer is kept below the build directory (`./do test` begins without any) and lent to each state
/// directory. Its key tells whether it still counts: the program takes no other for its own.
class KnownProofs {
  public:
    /// Lends what is known to `user`, who owns the new directory `state`.
    KnownProofs(const std::filesystem::path& state, uid_t user)
        : place_(state / "proofs"), kept_(std::filesystem::path(GRADUS_BINARY_DIR "/proofs") / std::to_string(user)) {
        std::error_code none;
        for (const auto& known : std::filesystem::directory_iterator(kept_, none)) {
            if (!isReal(known.path())) continue;
            for (const auto& directory : {state, place_})
                if (std::filesystem::create_directory(directory)) give(directory, 0700, user);
            std::ofstream(place_ / known.path().filename()) << textOf(known.path());
            give(place_ / known.path().filename(), 0600, user);
        }
    }
    KnownProofs(const KnownProofs&) = delete;
    KnownProofs& operator=(const KnownProofs&) = delete;

    /// Keeps what was proven meanwhile.
    ~KnownProofs() {
        std::error_code none;
        for (const auto& proven : std::filesystem::directory_iterator(place_, none)) {
            if (!isReal(proven.path())) continue;
            const std::filesystem::path file = kept_ / proven.path().filename();
            const std::string text = textOf(proven.path());
            if (text == textOf(file)) continue;
            std::filesystem::create_directories(kept_, none);
            const std::filesystem::path part = kept_ / ("." + std::to_string(::getpid()));
            std::ofstream(part) << text;
            std::filesystem::rename(part, file, none);
        }
    }

  private:
    /// Of a backend that the program has, not of one that a test made up.
    static bool isReal(const std::filesystem::path& file) {
        const std::string name = file.filename();
        return name.starts_with("probe-namespaces") || name == "probe-process";
    }
    static std::string textOf(const std::filesystem::path& file) {
        std::ifstream in(file);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    static void give(const std::filesystem::path& path, mode_t mode, uid_t user) {
        static_cast<void>(::chmod(path.c_str(), mode));
        if (::geteuid() == 0) static_cast<void>(::lchown(path.c_str(), user, user));
    }

    std::filesystem::path place_;
    std::filesystem::path kept_;
};

}  // namespace gradus::test
