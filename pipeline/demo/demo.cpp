#include "pipeline/demo/demo.h"

#include "store/file.h"
#include "store/model/error.h"
#include "store/store.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kRules = R"([pipeline]
name = "shop"
stages = ["sandbox", "local", "staging", "production"]

[check.tests]
run = "sh test.sh"

[check.health]                  # looks at what runs, after the switch
run = ["sh", "shop.sh", "../../../production.settings"]
on = "host"
when = "after"

[stage.staging]
driver = "release-directory"
path = "../staging"
checks = ["tests"]

[stage.production]
driver = "release-directory"
path = "../production"
checks = ["tests", "health"]

[policy.production]             # the shipped one asks for an approval and five minutes of soaking, too
extends = "none"
)";

constexpr std::string_view kShop = R"sh(#!/bin/sh
# Prints what three apples cost, with the settings of where it runs.
. "$1"
[ -n "$price" ] || { echo "no price in $1" >&2; exit 1; }
echo "three apples: $((3 * price))"
)sh";

constexpr std::string_view kTest = R"sh(#!/bin/sh
[ "$(sh shop.sh ./settings.example)" = "three apples: 6" ] && echo ok || {
    echo "the sum is wrong";
    exit 1;
}
)sh";

constexpr std::string_view kExample = "price=2\n";

class Demo {
  public:
    Demo(Player& player, const Clock& clock, Random& random) : player_(player), clock_(clock), random_(random) {}

    void play() {
        aProject();
        aBadChange();
        aGoodChange();
        aChangeThatFailsInProduction();
        aKill();
        theLog();
    }

  private:
    void aProject() {
        player_.scene("A shop with a pipeline",
                      "Four stages; what must be shown before each is touched; and the health of what runs in "
                      "production.\nNothing of the file runs before a person trusted it.");
        for (const auto& [name, text] :
             {std::pair{"shop.sh", kShop}, {"test.sh", kTest}, {"settings.example", kExample}})
            writeFileDurably(player_.project() / name, text, 0644);
        writeFileDurably(settings(), kExample, 0644);
        player_.write("gradus.toml", kRules);
        player_.shell(
            "git init -q -b main . && git add -A && git -c user.name=Ada -c user.email=ada@example.org commit -qm "
            "'the shop'");
        player_.run({"trust", "--yes"}, {.text = {"trusted:"}});
    }

    void aBadChange() {
        player_.scene("An agent's bad change is stopped before anything is touched",
                      "It works in a sandbox, a clone of this very directory. Its tests fail there: the answer is no.");
        change("sed -i s/3/4/ shop.sh", "Sell by the dozen", "c1");
        player_.run({"promote", "c1"}, {.exit = 1, .text = {"the sum is wrong", "rejected"}});
        player_.shell("git status --short && grep -c '3 \\* price' shop.sh");
    }

    void aGoodChange() {
        player_.scene("A good one climbs to production",
                      "Each stage's tree is checked as it will be, in a sandbox, before the stage is touched.");
        change("sed -i 's/three apples/three fine apples/' shop.sh test.sh", "Praise the apples", "c2");
        player_.run({"promote", "c2"}, {.text = {"production"}});
        player_.shell(
            "git diff --stat && readlink ../production/current && sh ../production/current/shop.sh "
            "../production.settings");
        expectProduction("three fine apples");
    }

    void aChangeThatFailsInProduction() {
        player_.scene("One that passes its checks, and fails in production, comes back by itself",
                      "It reads a setting that the example has and production has not. Nobody could know before the "
                      "switch;\nthe health check does, and production is what it was, byte for byte.");
        const std::string before = fs::read_symlink(production() / "current").native();
        change("sed -i 's/price/euros/g' shop.sh settings.example", "Count in euros", "c3");
        player_.run({"promote", "c3"}, {.exit = 5, .text = {"rolled-back", "health"}});
        if (fs::read_symlink(production() / "current").native() != before)
            throw Error(ErrorCode::kDamaged, "the demo expected production to be what it was");
        player_.shell("sh ../production/current/shop.sh ../production.settings");
        player_.runAs("agent:fixer", {"promote", "c3"}, {.exit = 8, .text = {"hold"}});
        player_.run({"rollback", "staging"}, {.text = {"taken back"}});
        player_.run({"undo"}, {.text = {"taken back"}});
    }

    void aKill() {
        player_.scene("kill -9 in the middle of a promotion",
                      "Production has been switched, its health check is still looking, and the power goes, as it "
                      "were.");
        change("sed -i 's/fine apples/fine red apples/' shop.sh test.sh", "Say what colour they are", "c4");
        player_.behind("production becomes slow", [&] { writeFileDurably(settings(), "price=2\nsleep 30\n", 0644); });
        const fs::path current = production() / "current";
        const std::string before = fs::read_symlink(current).native();
        player_.runAndKill({"promote", "c4"}, [&] { return fs::read_symlink(current).native() != before; });
        player_.behind("production is quick again", [&] { writeFileDurably(settings(), kExample, 0644); });
        player_.run({"status"}, {.text = {"gradus recover"}});
        player_.run({"recover"}, {.text = {"was"}});
        expectProduction("three fine");
    }

    void theLog() {
        player_.scene("Who did what, and why was it allowed",
                      "Every step is on record, chained and anchored outside the database.");
        player_.run({"audit", "query", "--stage", "production", "--event", "promotion.moved"},
                    {.text = {"rolling-back → rolled-back", "(failed)"}});
        player_.run({"audit", "verify"}, {.text = {"ok"}});
        player_.behind("somebody with full access makes the failed check a passed one", [&] {
            Store store = Store::openForWriting({player_.state()}, {.clock = clock_, .random = random_});
            store.sql().script("drop trigger event_is_never_updated");
            store.sql().run(
                "update event set body = replace(body, '\"failed\"', '\"passed\"') where stage = 'production'");
        });
        player_.run({"audit", "verify"}, {.exit = 1, .text = {"altered at event"}});
    }

    /// What an agent does in a sandbox, handed in.
    void change(const std::string& script, const std::string& title, const std::string& handle) {
        const std::string sandbox = "s-" + handle;
        player_.runAs("agent:fixer", {"try", "--name", sandbox, "--", "sh", "-c", script}, {.text = {"kept as"}});
        player_.runAs("agent:fixer", {"submit", "--from-sandbox", sandbox, "--title", title}, {.text = {handle}});
    }

    void expectProduction(std::string_view text) {
        const std::string shop = readSmallFile(production() / "current/shop.sh", 4096, "the shop");
        if (shop.find(text) == std::string::npos)
            throw Error(ErrorCode::kDamaged, "the demo expected '{}' in production", text);
    }

    fs::path settings() const { return player_.project().parent_path() / "production.settings"; }
    fs::path production() const { return player_.project().parent_path() / "production"; }

    Player& player_;
    const Clock& clock_;
    Random& random_;
};

}  // namespace

void playDemo(Player& player, const Clock& clock, Random& random) { Demo(player, clock, random).play(); }

}  // namespace gradus
