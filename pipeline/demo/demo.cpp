#include "pipeline/demo/demo.h"

#include <fmt/format.h>

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

[policy.staging]                # the shipped ones ask for more: proven limits, an approval, five minutes of soaking
extends = "none"

[policy.production]
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

constexpr std::string_view kTypedWithZero = "price=08\n";

constexpr std::string_view kZeroTest = R"sh(#!/bin/sh
[ "$(sh shop.sh ./settings.zero)" = "three fine apples: 24" ] || {
    echo "a price typed as 08 is not eight";
    exit 1;
}
)sh";

class Demo {
  public:
    Demo(Player& player, const Clock& clock, Random& random) : player_(player), clock_(clock), random_(random) {}

    void play() {
        aProject();
        aBadChange();
        aGoodChange();
        aRace();
        aChangeThatFailsInProduction();
        aKill();
        theLog();
    }

  private:
    void aProject() {
        player_.scene("A shop with a pipeline",
                      "Four stages; what must be shown before each is touched; and the health of what runs in "
                      "production.\nNothing of the file runs before a person trusted it.");
        writeFileDurably(player_.project() / "settings.example", kExample, 0644);
        writeFileDurably(settings(), kExample, 0644);
        player_.write("shop.sh", kShop);
        player_.write("test.sh", kTest);
        player_.write("gradus.toml", kRules);
        player_.shell(
            "git init -q -b main . && git add -A && git -c user.name=Ada -c user.email=ada@example.org commit -qm "
            "'the shop'");
        player_.run({"trust", "--yes"}, {.text = {"trusted:"}});
    }

    void aBadChange() {
        player_.scene("An agent's bad change is stopped before anything is touched",
                      "It works in a sandbox, a clone of this very directory. Its tests fail there: the answer is no.");
        change("sed -i 's/3 . price/4 * price/' shop.sh", "four", "Sell four for three", "c1");
        player_.run({"promote", "c1"}, {.exit = 1, .text = {"the sum is wrong", "rejected"}});
        player_.remark("nothing is changed out here, and the shop still sells:");
        player_.shell("git status --short; sh shop.sh ./settings.example");
        expectShop("3 * price");
    }

    void aGoodChange() {
        player_.scene("A good one climbs to production",
                      "Each stage's tree is checked as it will be, in a sandbox, before the stage is touched.");
        change("sed -i 's/three apples/three fine apples/' shop.sh test.sh", "fine", "Praise the apples", "c2");
        player_.run({"promote", "c2"}, {.text = {"production"}});
        player_.shell(
            "git diff --stat && readlink ../production/current && sh ../production/current/shop.sh "
            "../production.settings");
        expectProduction("three fine apples");
    }

    // Two of them are right; the smaller one wins. The third makes the new test pass and breaks the old one.
    void aRace() {
        player_.scene("A test fails, and there are three ideas: race them",
                      "Each works at once in a clone of its own, over one frozen copy of the project, and is judged by "
                      "the same checks.\nThe winner is promoted; the losers are kept for a day, to be looked into.");
        player_.write("settings.zero", kTypedWithZero);
        player_.write("test-zero.sh", kZeroTest);
        player_.shell("sh test-zero.sh || true");
        const std::string guess = "sed -i 's/3 . price/24/' shop.sh";
        const std::string inPlace = "sed -i 's/3 . price/3 * ${price#0}/' shop.sh";
        const std::string strip = "sed -i '/^[.] /a price=${price#0}' shop.sh";
        player_.runShown(
            "gradus race --check 'sh test.sh' --check 'sh test-zero.sh' --to production \\\n"
            "      guess=\"sed -i 's/3 . price/24/' shop.sh\" \\\n"
            "      inline=\"sed -i 's/3 . price/3 * \\${price#0}/' shop.sh\" \\\n"
            "      strip=\"sed -i '/^[.] /a price=\\${price#0}' shop.sh\"",
            {"race", "--check", "sh test.sh", "--check", "sh test-zero.sh", "--to", "production", "guess=" + guess,
             "inline=" + inPlace, "strip=" + strip},
            {.text = {"1  strip      passed     2/2", "2  inline     passed     2/2", "3  guess      failed     1/2",
                      "r1: strip won, submitted as c3", "✓ production   promoted"}});
        expectProduction("price=${price#0}");
        player_.run({"race", "show", "r1", "--diff", "guess"}, {.text = {"+echo \"three fine apples: $((24))\""}});
        player_.shell("sh ../production/current/shop.sh ./settings.zero");
    }

    void aChangeThatFailsInProduction() {
        player_.scene("One that passes its checks, and fails in production, comes back by itself",
                      "It reads a setting that the example has and production has not. Nobody could know before the "
                      "switch;\nthe health check does, and production is what it was, byte for byte.");
        const std::string before = fs::read_symlink(production() / "current").native();
        change("sed -i 's/price/euros/g' shop.sh settings.example", "euros", "Count in euros", "c4");
        player_.run({"promote", "c4"}, {.exit = 5, .text = {"rolled-back", "health"}});
        if (fs::read_symlink(production() / "current").native() != before)
            throw Error(ErrorCode::kDamaged, "the demo expected production to be what it was");
        player_.shell("sh ../production/current/shop.sh ../production.settings");
        player_.remark("what failed there is held: no machine brings it in again, only a person who decides to");
        player_.runAs("agent:fixer", {"promote", "c4"}, {.exit = 8, .text = {"hold"}});
        player_.remark("out of staging and the work tree, too");
        player_.run({"rollback", "staging"}, {.text = {"taken back"}});
        player_.run({"undo"}, {.text = {"taken back"}});
    }

    void aKill() {
        player_.scene("kill -9 in the middle of a promotion",
                      "Production has been switched, its health check is still looking, and the power goes, as it "
                      "were.");
        change("sed -i 's/fine apples/fine red apples/' shop.sh test.sh", "red", "Say what colour they are", "c5");
        // As long as that file is there: what asks must not outlive the demo. What it looks at before the switch is
        // quick.
        const fs::path slow = player_.project().parent_path() / "slow";
        player_.behind("production becomes slow", [&] {
            writeFileDurably(slow, "", 0644);
            writeFileDurably(
                settings(),
                fmt::format("price=2\nwhile [ -e '{}' ] && grep -q red \"$0\"; do sleep 0.1; done\n", slow.native()),
                0644);
        });
        const fs::path current = production() / "current";
        const std::string before = fs::read_symlink(current).native();
        player_.runAndKill({"promote", "c5"}, [&] { return fs::read_symlink(current).native() != before; });
        player_.behind("production is quick again", [&] {
            writeFileDurably(settings(), kExample, 0644);
            fs::remove(slow);
        });
        player_.run({"status"}, {.text = {"gradus recover"}});
        player_.run({"recover"}, {.text = {"was"}});
        expectProduction("three fine");
    }

    void theLog() {
        player_.scene("Who did what, and why was it allowed",
                      "Every step is on record, chained and anchored outside the database.");
        player_.remark("what production went through; `gradus audit timeline` tells all of it");
        player_.run({"audit", "timeline", "production"}, {.text = {"c2.1 entered production", "c3.1 entered production",
                                                                   "it was rolled back", "c5.1 entered production"}});
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
    void change(const std::string& script, const std::string& sandbox, const std::string& title,
                const std::string& handle) {
        player_.runAs("agent:fixer", {"try", "--name", sandbox, "--", "sh", "-c", script}, {.text = {"kept as"}});
        player_.runAs("agent:fixer", {"submit", "--from-sandbox", sandbox, "--title", title}, {.text = {handle}});
    }

    void expectShop(std::string_view text) {
        if (readSmallFile(player_.project() / "shop.sh", 4096, "the shop").find(text) == std::string::npos)
            throw Error(ErrorCode::kDamaged, "the demo expected '{}' in the work tree", text);
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
