// Real software, built and tested inside and outside: the same words, the same bytes.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/stages/sandbox/clone_fixture.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

struct Source {
    const char* name;   ///< of the Debian package
    const char* build;  ///< builds it and runs its tests
    const char* built;  ///< what must be the same, byte for byte
};
class CloneBuild : public CloneTest, public ::testing::WithParamInterface<Source> {};

TEST_P(CloneBuild, GivesTheSameResultsInsideAndOutside) {
    const fs::path sources = fs::path(GRADUS_SOURCE_DIR) / "build/sources" / GetParam().name;
    if (!fs::exists(sources)) GTEST_SKIP() << sources << " is not there: ./do test --long fetches it";
    const HostProject project({::geteuid(), ::getegid()});
    const fs::path directory = project.path() / "src" / GetParam().name;
    fs::copy(sources, directory, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    CloneRequest request;
    request.project = request.directory = directory;
    request.environment = [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    };
    const ClonePlan plan = planClone(request);
    const std::string script = fmt::format("({}) 2>&1; echo exit $?; sha256sum {}", GetParam().build, GetParam().built);
    const std::string before = project.fingerprint();
    const std::string inside = output(plan, script);
    EXPECT_EQ(project.fingerprint(), before) << "the build inside wrote outside";
    const std::string outside = onHost(plan.environment, directory, script, plan.identity);
    EXPECT_EQ(inside, outside);
    EXPECT_NE(outside.find("exit 0\n"), std::string::npos) << outside;
}
INSTANTIATE_TEST_SUITE_P(Packages, CloneBuild,
                         ::testing::Values(Source{"zlib", "./configure && make && make test",
                                                  "libz.a libz.so minigzip example64"},
                                           Source{"bzip2", "make && make check", "libbz2.a bzip2 bzip2recover"}),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace gradus
