#pragma once

#include "policies/language/vocabulary.h"

namespace gradus {

/// What can be plugged in, by name. `main` fills it from explicit lists (a registrar hidden in a static library would
/// be dropped by the linker) and hands its words to the policy language.
class Registry {
  public:
    /// Each throws Error where the description contradicts one that is there: a name taken, a key that every stage or
    /// check already has, a check kind without a key of its own to be known by.
    void addDriver(DriverWords driver);
    void addCheckKind(CheckKindWords kind);

    const Vocabulary& vocabulary() const { return vocabulary_; }

  private:
    Vocabulary vocabulary_;
};

}  // namespace gradus
