#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/cli/style.h"

namespace gradus {

/// Plays commands of this very program for an audience: shows each command and its output, and stops with an Error
/// when one does not do what the text around it claims.
class Player {
  public:
    using Say = std::function<void(std::string_view)>;

    /// Commands run in `directory`, with a state of their own below it.
    Player(std::filesystem::path program, std::filesystem::path directory, Say say, Paint paint);

    void scene(std::string_view title, std::string_view words);
    /// Shows a file and writes it.
    void write(std::string_view name, std::string_view text);
    /// What a command must do for the demo to go on.
    struct Expect {
        int exit = 0;
        std::vector<std::string> text = {};  ///< each must be somewhere in its output
    };
    void run(const std::vector<std::string>& words, const Expect& expect);
    /// The same, shown as a person would write it: quotes where they read best, and on several lines.
    void runShown(std::string_view shown, const std::vector<std::string>& words, const Expect& expect);
    /// The same, said by somebody else: "agent:fixer".
    void runAs(const std::string& actor, const std::vector<std::string>& words, const Expect& expect);
    /// Starts it, waits until `when` holds, and kills it: kill -9.
    void runAndKill(const std::vector<std::string>& words, const std::function<bool()>& when);
    /// A line of shell in the project; it must succeed.
    void shell(const std::string& line);
    /// A word on what is seen next.
    void remark(std::string_view words);
    /// Something done behind the program's back.
    void behind(std::string_view words, const std::function<void()>& deed);

    std::filesystem::path state() const { return directory_ / "state"; }
    std::filesystem::path project() const { return directory_ / "shop"; }

  private:
    void show(const std::string& output);
    void prompt(std::string_view line);
    std::vector<std::string> environment() const;
    void runIn(std::vector<std::string> environment, std::string_view line, const std::vector<std::string>& words,
               const Expect& expect);

    std::filesystem::path program_;
    std::filesystem::path directory_;
    Say say_;
    Paint paint_;
    int scene_ = 0;
};

}  // namespace gradus
