#pragma once

#include <set>
#include <string>
#include <vector>

#include "policies/language/check_graph.h"
#include "policies/language/draft.h"

namespace gradus {

/// Turns a draft into a pipeline: checks first, then stages, then what speaks about them.
class Resolver {
  public:
    Resolver(const Draft& draft, PolicySet& policies, const Vocabulary& vocabulary, Findings& findings)
        : draft_(draft), policies_(policies), vocabulary_(vocabulary), findings_(findings) {}

    Pipeline resolve();

  private:
    void addFileChecks();
    void addPolicyChecks(const EffectivePolicy& policy);
    void addCheck(const std::string& name, const Settings& settings, const Origin& origin);
    void judgeHostCheck(const Check& check);
    void buildGraph();
    void finishChecks();
    void judgeServices(const Settings& settings, const std::string& who);

    void addStages();
    void addStage(const Value& stageName);
    std::string missingDriverHint(const std::string& stage) const;
    const DriverWords* driverOf(const std::string& name, const Settings& settings, const Origin& origin);
    std::string policyOf(const std::string& name, const Settings& settings);
    void refuseMissingDriverKeys(const Stage& stage, const DriverWords& driver);
    /// A duration of the stage that is at least the policy's.
    void resolveLeast(Stage& stage, const std::string& key, const char* doing);
    void resolveStageChecks(Stage& stage, const DriverWords& driver);
    std::vector<Value> wantedChecks(const Stage& stage, const DriverWords& driver);
    void resolveMonitor(Stage& stage);
    void resolveSteps(Stage& stage, const DriverWords& driver);
    void judgeStep(const Stage& stage, const Value& step);
    /// A file of the work tree is not what a person trusted, and another one tomorrow.
    void judgeProgram(const Stage& stage, const Value& step, const std::string& key);
    /// What earlier stages had built comes along, as far as the driver can carry it.
    void addBuilders(std::vector<Value>& wanted, const DriverWords& driver) const;
    void judgeOutputs(const Stage& stage, const DriverWords& driver);
    void judgeUncarried();
    void judgeTargetless(const Stage& stage, const DriverWords& driver);
    void judgeAgainstPolicy(const Stage& stage, const Check& check);
    void refuseLoweredGuarantees(const Stage& stage, const Check& check);
    void refuseUnlistedStages();

    void addWindows();
    void addSandbox();
    bool isKnownCheck(const Value& name, const std::string& who);
    std::vector<std::string> checkNames() const;

    const Draft& draft_;
    PolicySet& policies_;
    const Vocabulary& vocabulary_;
    Findings& findings_;
    Pipeline pipeline_;
    CheckGraph graph_;
    std::set<std::string> fileChecks_;
    std::set<std::string> builders_;  ///< checks of the stages so far that build something
    bool isCarried_ = false;          ///< some stage takes what they build
};

}  // namespace gradus
