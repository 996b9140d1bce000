#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stages/sandbox/sandboxes_inside.h"

namespace gradus {

/// What the report says of the plan: the home, what a person should know, a command that resolves differently inside.
void notePlan(const CommandRequest& command, const CloneRequest& request, const ClonePlan& plan,
              ExecutionReport& report);

ExecutionNetwork networkOf(const CommandRequest& request);
std::vector<std::string> destinationsOf(const CommandRequest& request);
ExecutionDraft draftOf(const Confiner& confiner, const ProcessIdentity& me, const CommandRequest& request,
                       const ClonePlan& plan, std::int64_t sandbox);

/// Between the first commit and the last: whatever throws, the record says that it ended, and nothing else is left.
class Unfinished {
  public:
    using Write = std::function<void(const std::function<void(SandboxWriter&, Writer&)>&)>;
    Unfinished(Write write, std::function<void(SandboxWriter&)> give)
        : write_(std::move(write)), give_(std::move(give)) {}
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    ~Unfinished() {
        if (!give_) return;
        try {
            write_([&](SandboxWriter& writer, Writer&) { give_(writer); });
        } catch (const std::exception&) {
            // The fault that brought us here is the one to tell; the next start finds our record and ends it.
        }
    }
    void isFinished() { give_ = nullptr; }

  private:
    Write write_;
    std::function<void(SandboxWriter&)> give_;
};

/// Overlays of a plan besides the project's that go where the sandbox goes, and their names as parts of its layers.
using Parts = std::vector<std::pair<std::size_t, std::filesystem::path>>;
Parts partsOf(const ClonePlan& plan, const ServicesAround& services);
/// The overlay writes to its part of the layer.
void useDisk(const Layers& layers, std::int64_t layer, const std::filesystem::path& part, Overlay& overlay);
void useDisk(const Layers& layers, std::int64_t layer, const Parts& parts, Workspace& workspace);
void standOn(const StandingBase& base, CloneRequest& clone);

}  // namespace gradus
