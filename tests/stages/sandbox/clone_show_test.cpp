// What a project names with `show` is seen, read-only; credentials never are.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "store/model/error.h"
#include "tests/stages/sandbox/clone_fixture.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class CloneShow : public CloneTest {
  protected:
    static std::string refusal(const FakeHome& home, const fs::path& path) {
        CloneRequest request = home.request();
        request.show = {path};
        request.hiddenPaths = {home.path() / "state"};
        try {
            planClone(request);
            return "none";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kNotAllowed);
            return error.what();
        }
    }
};

TEST_F(CloneShow, APlaceThatWouldBeHiddenIsSeenReadOnly) {
    const FakeHome home(someone());
    home.write("fixtures/a.json", "fixture\n");
    home.write("other/b", "private\n");
    home.link("alias", "fixtures");
    CloneRequest request = home.request();
    request.show = {home.path() / "fixtures", home.path() / "alias", home.path() / "gone"};
    const ClonePlan plan = planClone(request);
    EXPECT_EQ(output(plan,
                     "cat ~/fixtures/a.json ~/alias/a.json; (echo x > ~/fixtures/a.json) 2>/dev/null || echo refused; "
                     "rm ~/fixtures/a.json 2>/dev/null || echo refused; ls -A ~"),
              "fixture\nfixture\nrefused\nrefused\nalias\ncode\nfixtures\n");
    EXPECT_TRUE(mentions(plan.notes, "gone is to be shown and is not there"));
    EXPECT_TRUE(mentions({plan.home.front().why}, "named by `show`"));
}

TEST_F(CloneShow, CredentialsAreNeverShown) {
    const FakeHome home(someone());
    home.write(".ssh/id_ed25519", "secret\n");
    home.write("state/state.db", "x");
    home.link("keys", ".ssh");
    const auto refused = [&](const fs::path& path, const std::string& why) {
        EXPECT_NE(refusal(home, path).find(why), std::string::npos) << path << ": " << refusal(home, path);
    };
    refused(home.path() / ".ssh", "which no sandbox shows");
    refused(home.path() / ".ssh/id_ed25519", "it lies in");
    refused(home.path() / "keys", "which no sandbox shows");
    refused(home.path(), "it is");
    refused(home.path().parent_path(), "it holds");
    refused(home.path() / "state", "it is");
    refused("/etc/shadow", "it is /etc/shadow");
    refused("/etc/ssl", "it holds /etc/ssl/private");
    refused("/", "it holds");
    refused("/home", "it is");
    refused("/proc/1", "/proc is the sandbox's own");
    refused("/var/lib/docker/volumes", "it lies in /var/lib/docker");
}

TEST_F(CloneShow, SecretsAndSocketsInsideOfAShownPlaceStayHidden) {
    const FakeHome home(someone());
    home.write("fixtures/a.json", "fixture\n");
    home.write("fixtures/.netrc", "secret\n");
    const fs::path path = home.path() / "fixtures/s";
    const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.native().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener, 1), 0);
    CloneRequest request = home.request();
    request.show = {home.path() / "fixtures"};
    EXPECT_EQ(output(planClone(request),
                     "cat ~/fixtures/a.json; test -S ~/fixtures/s || echo no socket; wc -c < ~/fixtures/.netrc"),
              "fixture\nno socket\n0\n");
    ::close(listener);
    EXPECT_NE(refusal(home, path).find("neither a file nor a directory"), std::string::npos);
}

}  // namespace
}  // namespace gradus
