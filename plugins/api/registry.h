#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/api/check.h"
#include "plugins/api/isolation.h"
#include "policies/language/vocabulary.h"

namespace gradus {

/// A way to isolate, by name; made only when somebody asks for it.
struct BackendMaker {
    std::string name;
    /// The clock must outlive the backend.
    std::function<std::unique_ptr<IsolationBackend>(const Clock& clock)> make;
};

/// What can be plugged in, by name. `main` fills it from explicit lists (a registrar hidden in a static library would
/// be dropped by the linker) and hands its words to the policy language.
class Registry {
  public:
    /// Each throws Error where the description contradicts one that is there: a name taken, a key that every stage or
    /// check already has, a check kind without a key of its own to be known by.
    void addDriver(DriverWords driver);
    /// Without `kind`, checks can be written down and read, not run.
    void addCheckKind(CheckKindWords words, std::unique_ptr<CheckKind> kind = nullptr);

    /// In the order of what they cost, cheapest first.
    void addBackend(BackendMaker backend);

    const std::vector<BackendMaker>& backends() const { return backends_; }
    const CheckKinds& checkKinds() const { return checkKinds_; }
    const Vocabulary& vocabulary() const { return vocabulary_; }

  private:
    Vocabulary vocabulary_;
    std::vector<BackendMaker> backends_;
    CheckKinds checkKinds_;
};

}  // namespace gradus
