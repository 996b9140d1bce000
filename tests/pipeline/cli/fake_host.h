#pragma once

#include <map>
#include <string>

#include "pipeline/cli/host.h"
#include "store/model/error.h"
#include "tests/support/scratch.h"

namespace gradus {

class StringSink final : public Sink {
  public:
    void write(std::string_view bytes) override { text += bytes; }
    void flush() override {}
    std::string text;
};

/// A world in memory: what was said is kept in `outText` and `errText`.
class FakeHost final : public Host {
  public:
    Sink& out() override { return outText; }
    Sink& err() override { return errText; }
    Terminal terminal() const override { return facts; }
    std::optional<std::string> ask(const std::string& question, const std::stop_token& /*stop*/) override {
        errText.text += question;
        return answer;
    }
    const Clock& clock() const override { return time; }
    std::optional<std::string> variable(const std::string& name) const override {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
    }
    std::filesystem::path directory() const override { return here; }
    void enterDirectory(const std::filesystem::path& directory) override {
        if (directory == "/nowhere") throw Error(ErrorCode::kUsage, "-C '{}': no such directory", directory.string());
        here /= directory;
    }

    StringSink outText;
    StringSink errText;
    Terminal facts;
    std::optional<std::string> answer;  ///< nothing: there is no terminal to ask at
    test::FakeClock time;
    std::map<std::string, std::string> variables = {{"TERM", "xterm"}};
    std::filesystem::path here = "/home/me";
};

}  // namespace gradus
