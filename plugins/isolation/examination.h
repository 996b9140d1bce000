#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugins/api/isolation.h"

namespace gradus {

/// Asks questions inside sandboxes of one backend; from several threads at once. Who asks is gradus-jail itself
/// (--prove), shown inside by `workspace` at `program`.
class Examination {
  public:
    Examination(IsolationBackend& backend, Workspace workspace, std::filesystem::path program, Identity identity);

    Outcome ask(const Limits& limits, const std::string& what, const std::string& argument = "0");
    /// It holds if the answer was yes and nothing else was seen from outside.
    static Proof judged(Guarantee guarantee, const Outcome& outcome, bool seenFromOutside = true);

    Proof kernelFilter(const std::string& expected = "0000000000000000");
    Proof memoryLimit();
    Proof taskLimit();
    Proof cpuLimit();
    Proof diskLimit();
    /// What is written through an overlay whose upper directory lies in an image of `megabytes`.
    Outcome fill(const Workspace& more, const std::filesystem::path& directory, std::uint64_t megabytes);

  private:
    static Proof limited(Guarantee guarantee, const Outcome& outcome, bool held, const std::string& tried);

    IsolationBackend& backend_;
    Workspace workspace_;
    std::filesystem::path program_;
    Identity identity_;
};

/// A guarantee, and how it is found out. A question that throws is answered with no, and why.
struct Question {
    Guarantee guarantee;
    std::function<Proof()> ask;
};
/// All at once: most of the time is spent waiting for a limit to strike.
std::vector<Proof> answers(const std::vector<Question>& questions);

}  // namespace gradus
