#pragma once

#include "tests/pipeline/end_to_end/sandbox_program.h"

namespace gradus::test {

/// The program, and what is done with kept sandboxes by hand.
class RoomProgram : public SandboxProgramTest {
  protected:
    std::string made(Words words = {}) {
        words.insert(words.begin(), {"sandbox", "new", "-q"});
        std::string handle = gradus(words).out;
        if (!handle.empty()) handle.pop_back();
        return handle;
    }
    Ended exec(const std::string& sandbox, const std::string& script) {
        return gradus({"sandbox", "exec", sandbox, "--", "sh", "-c", script});
    }
    std::map<std::string, std::string> diff(const std::string& sandbox) {
        return kindsOf(gradusJson({"sandbox", "diff", sandbox})["data"]);
    }
};

}  // namespace gradus::test
