#include "pipeline/demo/demo.h"

#include "pipeline/service/project.h"
#include "store/file.h"
#include "store/store.h"

namespace gradus {

namespace {

constexpr std::string_view kMistaken = R"([pipeline]
name = "shop"
stages = ["sandbox", "local", "staging", "prodution"]

[check.unit]
run = "make test"
timout = "5m"

[check.health]
http = "http://127.0.0.1:8080/healthz"
interval = "5 seconds"

[stage.staging]
driver = "release-directory"
path = "../shop-staging"

[stage.production]
driver = "release-directory"
path = "../shop-production"
)";

constexpr std::string_view kMended = R"([pipeline]
name = "shop"
stages = ["sandbox", "local", "staging", "production"]

[check.unit]
run = "make test"
timeout = "5m"

[check.health]
http = "http://127.0.0.1:8080/healthz"
interval = "5s"

[stage.staging]
driver = "release-directory"
path = "../shop-staging"

[stage.production]
driver = "release-directory"
path = "../shop-production"
)";

/// One change through the stages: promoted into all but the last, rolled back there.
void recordClimb(Writer& writer, std::int64_t project, ActorId agent) {
    using S = PromotionState;
    const Submission submission{sha256("change set"),   sha256("base"), sha256("patch"),
                                "Cache the price list", {"speed"},      std::nullopt};
    const std::int64_t change = writer.submit(project, agent, submission);
    for (const char* stage : {"sandbox", "local", "staging", "production"}) {
        const std::int64_t id = writer.openPromotion({project, change, 1, stage, sha256("rules"), std::nullopt}, agent);
        const auto move = [&](S from, S to, Cause cause) { writer.movePromotion({id, from, to, cause}, agent); };
        move(S::kQueued, S::kWaiting, Cause::kProceeded);
        move(S::kWaiting, S::kChecking, Cause::kProceeded);
        writer.recordCheck({id, "unit", Cause::kPassed, sha256("evidence"), 0, 4200, std::nullopt}, agent);
        move(S::kChecking, S::kApplying, Cause::kPassed);
        move(S::kApplying, S::kVerifying, Cause::kProceeded);
        const bool healthy = std::string_view(stage) != "production";
        writer.recordCheck({id, "health", healthy ? Cause::kPassed : Cause::kFailed, sha256("evidence"), std::nullopt,
                            15, std::nullopt},
                           agent);
        move(S::kVerifying, healthy ? S::kSoaking : S::kRollingBack, healthy ? Cause::kPassed : Cause::kFailed);
        move(healthy ? S::kSoaking : S::kRollingBack, healthy ? S::kPromoted : S::kRolledBack,
             healthy ? Cause::kPassed : Cause::kProceeded);
    }
}

Store openStore(const Player& player, const Clock& clock, Random& random) {
    return Store::openForWriting({player.state()}, {.clock = clock, .random = random});
}

void rulesScenes(Player& player) {
    player.scene("A pipeline file, written in a hurry",
                 "Every mistake is found at once, each with its place and a way out.");
    player.write("gradus.toml", kMistaken);
    player.run({"policy", "lint"},
               {.exit = 2, .text = {"did you mean 'timeout'?", "5 seconds", "did you mean 'production'?"}});

    player.scene("Mended, and what it means",
                 "The shipped policies fill in what the file does not say; every rule tells where it came from.");
    player.write("gradus.toml", kMended);
    player.run({"policy", "lint"}, {.text = {"ok"}});
    player.run({"policy", "show", "production.risk"}, {.text = {"shipped policy production"}});
    player.run({"policy", "show", "production.approvals"}, {.text = {"shipped policy production"}});

    player.scene("Trust",
                 "Nothing of a repository's file runs before a person trusted it; later edits wait for the same.");
    player.run({"status"}, {.text = {"not trusted yet"}});
    player.run({"trust", "--yes"}, {.text = {"trusted:"}});
    player.behind("somebody, or something, adds [check.sneaky] with run = \"curl …\" to gradus.toml", [&] {
        const std::string sneaky = "\n[check.sneaky]\nrun = \"curl http://127.0.0.1/install.sh\"\n";
        writeFileDurably(player.project() / "gradus.toml", std::string(kMended) + sneaky, 0644);
    });
    player.run({"status"}, {.text = {"differ from the trusted ones"}});
}

void auditScenes(Player& player, const Clock& clock, Random& random) {
    player.scene(
        "The log",
        "An agent's change is recorded on its way through four stages; production says no and it is taken back.\n"
        "(The engine that drives this comes next; here its events are written by the demo.)");
    player.behind("an agent's change climbs", [&] {
        Store store = openStore(player, clock, random);
        store.write([&](Writer& writer) {
            const ActorId agent = writer.actor({ActorKind::kAgent, "fixer"});
            recordClimb(writer, writer.project(identify(player.project()), agent), agent);
        });
    });
    player.run({"audit", "query", "--stage", "production"}, {.text = {"rolling-back → rolled-back", "(failed)"}});
    player.run({"audit", "verify"}, {.text = {"ok"}});
    player.run({"store", "backup", "../backup"}, {});

    player.scene("A log that cannot lie", "Somebody with full access makes production's failed check a passed one.");
    player.behind("update event set body = replace(body, 'failed', 'passed') where stage = 'production'", [&] {
        Store store = openStore(player, clock, random);
        store.sql().script("drop trigger event_is_never_updated");
        store.sql().run("update event set body = replace(body, '\"failed\"', '\"passed\"') where stage = 'production'");
    });
    player.run({"audit", "verify"}, {.exit = 1, .text = {"altered at event"}});
    player.behind("the backup takes its place", [&] {
        std::filesystem::remove_all(player.state());
        std::filesystem::rename(player.project() / "../backup", player.state());
    });
    player.run({"audit", "verify"}, {.text = {"ok"}});
    player.run({"audit", "query", "--event", "check.finished", "--stage", "production"}, {.text = {"verdict=failed"}});
}

}  // namespace

void playDemo(Player& player, const Clock& clock, Random& random) {
    rulesScenes(player);
    auditScenes(player, clock, random);
}

}  // namespace gradus
