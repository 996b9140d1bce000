#pragma once

#include "pipeline/engine/check_runner.h"
#include "plugins/checks/builtin.h"
#include "tests/policies/language/loading.h"
#include "tests/stages/sandbox/sandboxes_fixture.h"

namespace gradus {

/// Checks of a pipeline file, run for real over a project and a change to it.
class CheckRunnerTest : public SandboxesTest {
  protected:
    CheckRunnerTest() {
        addBuiltinChecks(registry_);
        tree_.project = project_.path();
        tree_.directory = project_.path();
    }

    /// `checks` in a file whose stages are sandbox, local and one with a directory; `stage` may say more.
    void rules(const std::string& checks) {
        LoadResult loaded = loadText(
            "[pipeline]\nname = \"p\"\nstages = [\"sandbox\", \"live\"]\n"
            "[stage.live]\ndriver = \"release-directory\"\npath = \"../live\"\n" +
            checks);
        ASSERT_TRUE(loaded.pipeline) << renderDiagnostics(loaded.diagnostics, false);
        pipeline_ = std::move(*loaded.pipeline);
    }

    std::vector<CheckReport> before(const std::string& stage = "sandbox") {
        return runner().before(pipeline_, *pipeline_.findStage(stage), tree_, progress_, cancel_.get_token());
    }
    std::vector<CheckReport> after() {
        return runner().after(pipeline_, *pipeline_.findStage("live"), project_.path(), {}, progress_,
                              cancel_.get_token());
    }
    CheckRunner runner() {
        if (!objects_) objects_.emplace(state_.objects(), clock_);
        return CheckRunner({sandboxes(), *objects_, registry_.checkKinds(), {"PATH=/usr/bin:/bin"}});
    }

    /// The change writes `text` to `path`.
    void change(const std::string& path, const std::string& text) {
        if (!objects_) objects_.emplace(state_.objects(), clock_);
        std::vector<PathChange> all = tree_.changes.changes();
        all.push_back({path, std::nullopt, Entry{EntryType::kFile, 0644, objects_->put(text), text.size()}});
        tree_.changes = ChangeSet(std::move(all));
    }

    static std::string describe(const std::vector<CheckReport>& reports) {
        std::string text;
        for (const CheckReport& report : reports)
            text +=
                fmt::format("{} {}: {}\n", report.check, nameOf(kCauses, report.answer.verdict), report.answer.reason);
        return text;
    }

    Registry registry_;
    Pipeline pipeline_;
    TreeUnderTest tree_;
    CheckProgress progress_;
    std::stop_source cancel_;
    std::optional<Objects> objects_;
};

}  // namespace gradus
