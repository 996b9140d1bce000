#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "stages/sandbox/clone.h"
#include "tests/plugins/sandbox_fixture.h"

namespace gradus {

/// A home with a project in it, made up for one test and owned by whom the commands run as; gone with it.
class FakeHome {
  public:
    explicit FakeHome(const Identity& owner, const std::filesystem::path& parent = "/var/tmp");
    ~FakeHome();
    FakeHome(const FakeHome&) = delete;
    FakeHome& operator=(const FakeHome&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path project() const { return path_ / "code/shop"; }
    void write(const std::string& name, const std::string& text) const;
    void program(const std::string& name, const std::string& text) const;
    void link(const std::string& name, const std::string& text) const;
    void own(const std::filesystem::path& path) const;

    /// As its owner would have it.
    std::map<std::string, std::string> variables;
    /// For the project of this home.
    CloneRequest request() const;

  private:
    Identity owner_;
    std::filesystem::path path_;
};

class CloneTest : public SandboxTest {
  protected:
    /// A script in a sandbox of that plan, from the plan's directory and with its environment.
    Outcome run(const ClonePlan& plan, const std::string& script);
    std::string output(const ClonePlan& plan, const std::string& script);
};

/// On the host: what a command prints, as the user who owns `home` if root calls.
std::string onHost(const std::vector<std::string>& environment, const std::filesystem::path& directory,
                   const std::string& script, const Identity& identity);

bool mentions(const std::vector<std::string>& lines, const std::string& part);
std::string joined(const std::vector<std::string>& lines);

}  // namespace gradus
