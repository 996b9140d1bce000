#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policies/language/findings.h"
#include "policies/language/pipeline.h"
#include "policies/language/vocabulary.h"

namespace gradus {

/// All policies that can be named, shipped and of the project, and what they come to once each is put on top of what
/// it builds on and under the administrator's ceiling.
class PolicySet {
  public:
    PolicySet(const Vocabulary& vocabulary, Findings& findings);

    /// A policy of the project. A second one of that name is a finding.
    void add(const std::string& name, Settings settings, const Origin& origin);
    void setCeiling(Settings ceiling) { ceiling_ = std::move(ceiling); }
    const Settings& ceiling() const { return ceiling_; }

    bool knows(const std::string& name) const;
    std::vector<std::string> names() const;

    /// Resolves every policy of the project, used or not, so that each mistake is found.
    void resolveAll();
    /// A name that nothing answers to gives the defaults under the ceiling.
    EffectivePolicy effective(const std::string& name);

    /// Puts the ceiling on settings that are no policy (a check, [sandbox]); `where` names them in messages.
    void cap(Settings& settings, const std::vector<KeyRow>& rows, const std::string& where);

  private:
    struct Definition {
        Settings settings;
        Origin origin;
    };
    using Definitions = std::map<std::string, Definition>;

    const Definitions& shipped() const;
    const Definition* find(const std::string& name, bool shippedOnly) const;
    Settings resolve(const std::string& name, bool shippedOnly, std::vector<std::string>& path);
    Settings baseOf(const std::string& name, const Definition& definition, bool isShipped,
                    std::vector<std::string>& path);
    void reportLooser(const std::string& policy, const std::string& key, const Value& limit, const Value& wanted);
    void capNetwork(Settings& settings, const Value& demanded, const std::string& where);
    void capWithout(Settings& settings, const std::string& where);
    void reportCapped(const std::string& where, const std::string& key, const Value& limit, const Value& wanted);

    const Vocabulary& vocabulary_;
    Findings& findings_;
    mutable std::optional<Definitions> shipped_;
    Definitions project_;
    Settings ceiling_;
    std::map<std::string, Settings> resolved_;
    std::map<std::string, EffectivePolicy> effective_;
};

/// The keys that a ceiling file may have: the demands of a policy, without what names things of one project.
std::vector<KeyRow> ceilingRows();

}  // namespace gradus
