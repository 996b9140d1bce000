// What runs inside is what runs outside, in the very environment the tests run in.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/stages/sandbox/clone_fixture.h"

namespace gradus {
namespace {

struct Tool {
    const char* name;
    const char* question;  ///< its answer must be the same inside and outside
};
class CloneFidelity : public CloneTest, public ::testing::WithParamInterface<Tool> {
  protected:
    static CloneRequest requestFor(const HostProject& project) {
        CloneRequest request;
        request.project = request.directory = project.path();
        request.environment = [](const std::string& name) -> std::optional<std::string> {
            const char* value = std::getenv(name.c_str());
            return value == nullptr ? std::nullopt : std::optional<std::string>(value);
        };
        return request;
    }
};

TEST_P(CloneFidelity, SameProgramSameVersionSameAnswer) {
    // As root with root's own home and project: that is where the tools of this machine are.
    const HostProject project({::geteuid(), ::getegid()});
    const CloneRequest request = requestFor(project);
    const ClonePlan plan = planClone(request);
    const std::string name = GetParam().name;
    const std::string found = onHost(plan.environment, project.path(), "command -v " + name, plan.identity);
    if (found.empty()) GTEST_SKIP() << name << " is not installed";
    EXPECT_EQ(resolvesDifferently(plan, request, name), std::nullopt);
    const std::string script =
        fmt::format("command -v {0}; readlink -f $(command -v {0}); ({1}) 2>&1", name, GetParam().question);
    const std::string outside = onHost(plan.environment, project.path(), script, plan.identity);
    EXPECT_EQ(output(plan, script), outside);
    EXPECT_GE(std::count(outside.begin(), outside.end(), '\n'), 3) << outside;
}
INSTANTIATE_TEST_SUITE_P(
    Tools, CloneFidelity,
    ::testing::Values(
        Tool{"python3",
             "python3 -VV; python3 -c 'import sys, ssl, sqlite3; print(sys.executable, sys.prefix, sys.path)'"},
        Tool{"pip3", "pip3 --version"},
        Tool{"node", "node --version; node -p 'process.execPath + process.arch + require(\"os\").homedir()'"},
        Tool{"npm", "npm --version; npm config get prefix"},
        Tool{"git", "git --version; git config user.name; git config user.email; git config --list | wc -l; true"},
        Tool{"gcc",
             "gcc --version; gcc -print-search-dirs; echo 'int main(){return 0;}' > /tmp/a.c && gcc -o /tmp/a.out "
             "/tmp/a.c && /tmp/a.out && echo built; rm -f /tmp/a.c /tmp/a.out"},
        Tool{"make", "make --version"}, Tool{"cargo", "cargo --version; cargo --list | wc -l"},
        Tool{"rustc", "rustc -vV; rustc --print sysroot"}, Tool{"go", "go version; go env GOROOT GOPATH"},
        Tool{"cmake", "cmake --version"}, Tool{"perl", "perl -V:version; perl -e 'print \"@INC\\n\"'"},
        Tool{"java", "java -version"}, Tool{"ruby", "ruby --version"}, Tool{"clang-14", "clang-14 --version"},
        Tool{"sh", "id -u; id -g; umask; ulimit -n; locale; date +%Z"}),
    [](const auto& parameter) {
        std::string name = parameter.param.name;
        std::erase(name, '-');
        return name;
    });

}  // namespace
}  // namespace gradus
