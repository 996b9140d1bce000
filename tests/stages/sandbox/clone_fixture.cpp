#include "tests/stages/sandbox/clone_fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

FakeHome::FakeHome(const Identity& owner, const fs::path& parent) : owner_(owner) {
    std::string name = (parent / "gradus-home-XXXXXX").native();
    if (::mkdtemp(name.data()) == nullptr)
        throw Error(ErrorCode::kInfrastructure, "no directory in {}", parent.native());
    path_ = name;
    own(path_);
    write("code/shop/README.md", "hello\n");
    variables = {{"HOME", path_.native()}, {"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"LANG", "C.UTF-8"}};
}

FakeHome::~FakeHome() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

void FakeHome::own(const fs::path& path) const { EXPECT_EQ(::lchown(path.c_str(), owner_.uid, owner_.gid), 0) << path; }

void FakeHome::write(const std::string& name, const std::string& text) const {
    fs::path directory = path_;
    for (const fs::path& part : fs::path(name).parent_path()) {
        directory /= part;
        if (::mkdir(directory.c_str(), 0755) == 0) own(directory);
    }
    std::ofstream(path_ / name) << text;
    own(path_ / name);
}

void FakeHome::program(const std::string& name, const std::string& text) const {
    write(name, text);
    EXPECT_EQ(::chmod((path_ / name).c_str(), 0755), 0);
}

void FakeHome::link(const std::string& name, const std::string& text) const {
    write(name, "");
    fs::remove(path_ / name);
    fs::create_symlink(text, path_ / name);
    own(path_ / name);
}

CloneRequest FakeHome::request() const {
    CloneRequest request;
    request.project = project();
    request.directory = project();
    request.environment = [variables = variables](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    return request;
}

Outcome CloneTest::run(const ClonePlan& plan, const std::string& script) {
    Limits limits;
    limits[LimitName::kWallTime] = Limit{60'000, true};
    Command command = shell(script, plan.directory);
    command.environment = plan.environment;
    return backend().open(plan.workspace, limits, Network::kNone, plan.identity)->run(command);
}

std::string CloneTest::output(const ClonePlan& plan, const std::string& script) {
    const Outcome outcome = run(plan, script);
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << script << "\n" << describe(outcome);
    return outcome.out.text();
}

std::string onHost(const std::vector<std::string>& environment, const fs::path& directory, const std::string& script,
                   const Identity& identity) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], 1);
        ::close(ends[0]);
        ::close(ends[1]);
        std::vector<char*> variables;
        for (const std::string& line : environment) variables.push_back(const_cast<char*>(line.c_str()));
        variables.push_back(nullptr);
        const bool changed = ::geteuid() != 0 || (::setgid(identity.gid) == 0 && ::setuid(identity.uid) == 0);
        if (!changed || ::chdir(directory.c_str()) != 0) ::_exit(126);
        ::execle("/bin/sh", "sh", "-c", script.c_str(), nullptr, variables.data());
        ::_exit(127);
    }
    ::close(ends[1]);
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
        text.append(buffer.data(), static_cast<std::size_t>(got));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    return text;
}

bool mentions(const std::vector<std::string>& lines, const std::string& part) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
}

}  // namespace gradus
