#include <stdlib.h>

#include <filesystem>

#include "pipeline/cli/context.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/demo/demo.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

/// Gone when the demo is over, however it ends.
class Playground {
  public:
    Playground() : path_(fs::temp_directory_path() / "gradus-demo-XXXXXX") {
        std::string name = path_.native();
        if (mkdtemp(name.data()) == nullptr)
            throw Error(ErrorCode::kInfrastructure, "cannot make a directory like {}", path_.native());
        path_ = name;
    }
    ~Playground() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    Playground(const Playground&) = delete;
    Playground& operator=(const Playground&) = delete;
    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

Result demo(Context& context) {
    const Playground playground;
    std::string shown;
    const auto say = [&](std::string_view text) {
        shown += text;
        if (!context.json) {
            context.lines.text(text);
            context.lines.flush();
        }
    };
    SystemRandom random;
    Player player(fs::canonical("/proc/self/exe"), playground.path(), say, context.json ? Paint(false) : context.paint);
    say("Gradus moves a change from a disposable copy to production, one proven step at a time, and takes it back by\n"
        "itself. Here it does so with a very small shop, in a directory that goes when this ends. Every command below "
        "is\n"
        "run for real, and this stops if one of them does not do what the text says.");
    playDemo(player, context.host.clock(), random);
    if (!context.json)
        context.lines.text("\nEverything above was checked while it was shown. Your turn: gradus try -- COMMAND\n");
    return {.data = {{"transcript", shown}}, .streamed = !context.json};
}

}  // namespace

std::vector<Verb> demoVerbs(const OpenService& /*open*/) {
    return {{.words = "demo",
             .group = Group::kGradus,
             .summary = "show what gradus does, on a throw-away project",
             .examples = {{"gradus demo", "a minute of reading; touches nothing of yours"}},
             .handler = demo}};
}

}  // namespace gradus
