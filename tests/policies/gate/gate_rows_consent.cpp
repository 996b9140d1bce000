// Who may come alone, and whose yes counts. anna made revision 2 and promotes it; the others are other people.
#include "tests/policies/gate/gate_table.h"

namespace gradus::test {

namespace {

const char* const kOne = R"(approvals = [{ count = 1 }])";
const char* const kTwo = R"(approvals = [{ count = 2 }])";
const char* const kSre = R"(approvals = [{ count = 1, role = "sre", expires = "12h" }])";
const char* const kBoth = R"(approvals = [{ count = 1, role = "sre" }, { count = 2 }])";
const char* const kNotSponsor = R"(approvals = [{ count = 1, not = ["sponsor"] }])";
const char* const kNotPromoter = R"(approvals = [{ count = 1, not = ["promoter"] }])";
const char* const kAnyone = R"(alone = ["person", "agent", "daemon", "ci"])";
const char* const kNobody = "alone = []";
const char* const kAgentsToo = R"(alone = ["person", "agent"]
approvals = [{ count = 1 }])";
const char* const kAgentsNotSponsor = R"(alone = ["person", "agent"]
approvals = [{ count = 1, not = ["sponsor"] }])";

const char* const kReversible = R"([[stage.here.step]]
name = "migrate"
run = "true"
undo = "true")";
const char* const kIrreversible = R"([[stage.here.step]]
name = "migrate"
run = "true"
irreversible = true)";

const char* const kMissing = "step=wait closed=approvals ask=approvals";
const char* const kGiven = "step=apply open=approvals";

}  // namespace

std::vector<Row> consentRows() {
    return {
        {"a person's own change needs nobody by default", "", "", "step=apply open=alone na=approvals"},
        {"one approval is asked for", kOne, "", kMissing},
        {"one approval is given", kOne, "yes=ben", kGiven},
        {"the author's own does not count", kOne, "yes=anna", kMissing},
        {"the author's own does not count beside another", kTwo, "yes=anna yes=ben", kMissing},
        {"two people are two", kTwo, "yes=ben yes=carl", kGiven},
        {"one person twice is one", kTwo, "yes=ben yes=ben,age:3h", kMissing},
        {"three are enough for two", kTwo, "yes=ben yes=carl yes=dora", kGiven},
        {"who made an earlier revision does not count", kOne, "lineage=ben yes=ben", kMissing},
        {"another than the lineage counts", kOne, "lineage=ben yes=carl", kGiven},
        {"an agent does not count", kOne, "yes=fixer,kind:agent", kMissing},
        {"a daemon does not count", kOne, "yes=gradus,kind:daemon", kMissing},
        {"ci does not count", kOne, "yes=build,kind:ci", kMissing},
        {"an agent with a role does not count", kSre, "yes=fixer,kind:agent,role:sre", kMissing},
        {"a role is asked for", kSre, "yes=ben", kMissing},
        {"a role is held", kSre, "yes=ben,role:sre", kGiven},
        {"another role is another", kSre, "yes=ben,role:ops", kMissing},
        {"one of several roles is enough", kSre, "yes=ben,role:ops,role:sre", kGiven},
        {"the author with the role does not count", kSre, "yes=anna,role:sre", kMissing},
        {"an approval counts up to its end", kSre, "yes=ben,role:sre,age:11h59m", kGiven},
        {"an approval ends to the moment", kSre, "yes=ben,role:sre,age:12h", kMissing},
        {"an old approval is gone", kSre, "yes=ben,role:sre,age:3d", kMissing},
        {"an approval lasts a day where nothing is said", kOne, "yes=ben,age:23h59m", kGiven},
        {"an approval is over after a day", kOne, "yes=ben,age:24h", kMissing},
        {"a newer yes of the same person renews it", kSre, "yes=ben,role:sre,age:3d yes=ben,role:sre", kGiven},
        {"the gate closes when the approval ends", kSre, "yes=ben,role:sre,age:2h", "step=apply next=approvals:+10h"},
        {"of two the first to end closes the gate", kTwo, "yes=ben,age:2h yes=carl,age:5h",
         "step=apply next=approvals:+19h"},
        {"of three the second to end closes the gate", kTwo, "yes=ben,age:2h yes=carl,age:5h yes=dora,age:9h",
         "step=apply next=approvals:+19h"},
        {"a closed approval gate never opens by itself", kOne, "", std::string(kMissing) + " next=approvals:never"},
        {"another revision is another change", kOne, "yes=ben,revision:1", kMissing},
        {"a later revision is another change too", kOne, "yes=ben,revision:3", kMissing},
        {"another change is another change", kOne, "yes=ben,change:13", kMissing},
        {"other rules are other conditions", kOne, "yes=ben,rules:other", kMissing},
        {"other evidence is other proof", kOne, "yes=ben,evidence:other", kMissing},
        {"another tree is another stage", kOne, "yes=ben,base:other", kMissing},
        {"a yes from before the checks is kept", kOne, "yes=ben,evidence:none", kGiven},
        {"a yes from before the checks is bound to the tree", kOne, "yes=ben,evidence:none,base:other", kMissing},
        {"a yes from before the checks is bound to the rules", kOne, "yes=ben,evidence:none,rules:other", kMissing},
        {"a yes from before the checks is bound to the revision", kOne, "yes=ben,evidence:none,revision:1", kMissing},
        {"an approval that another promotion used is used up", kOne, "yes=ben,used:6", kMissing},
        {"an approval that this promotion used still counts for it", kOne, "yes=ben,used:7", kGiven},
        {"a used one and a fresh one", kOne, "yes=ben,used:6 yes=carl", kGiven},
        {"the promoter may approve what an agent made", kAgentsToo, "by=agent:fixer/anna promoter=ben yes=ben", kGiven},
        {"the promoter may not where the policy says so", kNotPromoter, "promoter=ben yes=ben", kMissing},
        {"another than the promoter may", kNotPromoter, "promoter=ben yes=carl", kGiven},
        {"the sponsor may approve", kAgentsToo, "by=agent:fixer/ben yes=ben", kGiven},
        {"the sponsor may not where the policy says so", kAgentsNotSponsor, "by=agent:fixer/ben yes=ben", kMissing},
        {"the sponsor of an earlier revision may not either", kAgentsNotSponsor, "lineage=agent:fixer/ben yes=ben",
         kMissing},
        {"another than the sponsor may", kAgentsNotSponsor, "by=agent:fixer/ben yes=carl", kGiven},
        {"without an agent there is no sponsor to exclude", kNotSponsor, "yes=ben", kGiven},
        {"the sponsor who made an earlier revision does not count", kAgentsToo,
         "by=agent:fixer/ben lineage=ben yes=ben", kMissing},
        {"every entry must be met", kBoth, "yes=ben,role:sre", kMissing},
        {"one person can meet several entries", kBoth, "yes=ben,role:sre yes=carl", kGiven},
        {"two without the role are not enough", kBoth, "yes=ben yes=carl", kMissing},

        {"an agent's change waits at a person's stage", "", "promoter=agent:fixer by=agent:fixer",
         "step=wait closed=alone ask=alone"},
        {"a person's yes lets an agent's change in", "", "promoter=agent:fixer by=agent:fixer yes=ben",
         "step=apply open=alone"},
        {"the sponsor's yes lets an agent's change in", "", "promoter=agent:fixer by=agent:fixer/ben yes=ben",
         "step=apply open=alone"},
        {"an agent's yes does not let an agent's change in", "",
         "promoter=agent:fixer by=agent:fixer yes=other,kind:agent", "step=wait closed=alone ask=alone"},
        {"who lets an agent in lets it in for a day", "", "promoter=agent:fixer by=agent:fixer yes=ben,age:4h",
         "step=apply next=alone:+20h"},
        {"who promotes what an agent made consents by it", "", "by=agent:fixer", "step=apply open=alone"},
        {"the sponsor who promotes it consents by it", "", "by=agent:fixer/anna", "step=apply open=alone"},
        {"nobody brings anything in where nobody may", kNobody, "by=agent:fixer", "step=wait closed=alone ask=alone"},
        {"a machine that promotes a person's change is not alone either", "", "promoter=daemon:gradus",
         "step=wait closed=alone ask=alone"},
        {"ci that promotes a person's change waits", "", "promoter=ci:build", "step=wait closed=alone ask=alone"},
        {"anyone may come where the policy says so", kAnyone, "by=agent:fixer promoter=daemon:gradus", "step=apply"},
        {"ci may come where ci may", R"(alone = ["person", "ci"])", "promoter=ci:build", "step=apply"},
        {"an agent may not come where only ci may", R"(alone = ["person", "ci"])", "by=agent:fixer promoter=ci:build",
         "step=wait closed=alone ask=alone"},
        {"an agent in the lineage counts as one", "", "lineage=agent:fixer", "step=wait closed=alone ask=alone"},
        {"nobody comes alone", kNobody, "", "step=wait closed=alone ask=alone"},
        {"nobody comes alone, but with another", kNobody, "yes=ben", "step=apply"},
        {"nobody comes alone, and nobody is another to oneself", kNobody, "yes=anna",
         "step=wait closed=alone ask=alone"},
        {"one yes answers alone and approvals", kOne, "promoter=agent:fixer by=agent:fixer yes=ben",
         "step=apply open=alone,approvals"},
        {"alone and approvals are asked for together", kOne, "promoter=agent:fixer by=agent:fixer",
         "step=wait closed=alone,approvals ask=alone,approvals"},
        {"a yes with the wrong role still answers alone", kSre, "promoter=agent:fixer by=agent:fixer yes=ben",
         "step=wait closed=approvals ask=approvals open=alone"},

        // A person is asked only for what then goes ahead.
        {"nobody is asked while the checks are missing", kOne, "checked=no", "step=check closed=approvals,evidence"},
        {"nobody is asked while the checks are old", kOne, "checked=age:8d", "step=check closed=approvals,evidence"},
        {"nobody is asked while files have to be merged", kOne, "moved=touched",
         "step=merge closed=approvals,freshness"},
        {"nobody is asked about a conflict", kOne, "moved=conflict", "step=stale closed=approvals,freshness"},
        {"nobody is asked during a halt", kOne, "halt", "step=wait closed=approvals,halt"},
        {"nobody is asked while the stage is stuck", kOne, "stuck=3", "step=wait closed=approvals,quarantine"},
        {"nobody is asked about a vetoed change", kOne, "veto=bytes:same", "step=wait closed=approvals,veto"},
        {"nobody is asked about a held change", kOne, "hold=change:12", "step=wait closed=approvals,hold"},
        {"nobody is asked while the stage is pinned", kOne, "pin=13", "step=wait closed=approvals,pin"},
        {"nobody is asked before the earlier stages said yes", kOne, "verified=local:missing",
         "step=wait closed=approvals,verified"},
        {"nobody is asked while others come first", kOne, "ahead=3", "step=wait closed=approvals,queue"},
        {"nobody is asked about a superseded change", kOne, "newer=9", "step=supersede closed=approvals,queue"},
        {"an approval given while halted is kept", kOne, "halt yes=ben", "step=wait closed=halt open=approvals"},
        {"an approval given before the checks waits for them", kOne, "checked=no yes=ben,evidence:none",
         "step=check closed=evidence open=approvals"},

        // Overrides.
        {"what can be taken back needs no word", kReversible, "", "step=apply na=steps"},
        {"what cannot be taken back needs one, also of who made and promotes it", kIrreversible, "",
         "step=wait closed=steps ask=steps"},
        {"who approves consents to it", kIrreversible, "yes=ben", "step=apply open=steps"},
        {"the author's approval is none", kIrreversible, "yes=anna", "step=wait closed=steps ask=steps"},
        {"who promotes may say so, the author too", kIrreversible, "override=steps,by:anna,role:none",
         "step=apply open=steps"},
        {"a word for another promotion is none", kIrreversible, "override=steps,by:anna,promotion:6",
         "step=wait closed=steps ask=steps"},
        {"a word for other steps is none", kIrreversible, "override=steps,by:anna,about:others",
         "step=wait closed=steps ask=steps"},
        {"a machine's word is none", kIrreversible, "override=steps,by:agent:fixer",
         "step=wait closed=steps ask=steps"},
        {"nobody is asked while something else is closed", kIrreversible, "hold=all", "step=wait closed=hold,steps"},
        {"a hold is overridden", "", "hold=all override=hold", "step=apply open=hold"},
        {"what is held since the override is held", "", "hold=all override=hold,age:2d", "step=wait closed=hold"},
        {"of two holds one came after the override", "", "hold=stage:here hold=change:12,at:-1h override=hold,age:2h",
         "step=wait closed=hold"},
        {"both holds came before the override", "", "hold=stage:here hold=change:12,at:-3h override=hold,age:2h",
         "step=apply open=hold"},
        {"an override under these rules counts", "", "hold=all override=hold,rules:same", "step=apply open=hold"},
        {"an override under other rules is none", "", "hold=all override=hold,rules:old", "step=wait closed=hold"},
        {"an override needs the role", "", "hold=all override=hold,role:sre", "step=wait closed=hold"},
        {"an override is for one promotion", "", "hold=all override=hold,promotion:6", "step=wait closed=hold"},
        {"an override is for one gate", "", "hold=all override=pin", "step=wait closed=hold"},
        {"an agent overrides nothing", "", "hold=all override=hold,by:agent:fixer", "step=wait closed=hold"},
        {"the author may override a hold", "", "hold=all override=hold,by:anna", "step=apply"},
        {"a policy can forbid overrides", "overridable = []", "hold=all override=hold", "step=wait closed=hold"},
        {"a policy can allow to override approvals", "overridable = [\"approvals\"]\napprovals = [{ count = 1 }]",
         "override=approvals", "step=apply open=approvals"},
        {"approvals are not overridden unless the policy says so", kOne, "override=approvals", kMissing},
        {"the author does not override approvals", "overridable = [\"approvals\"]\napprovals = [{ count = 1 }]",
         "override=approvals,by:anna", kMissing},
        {"who made an earlier revision does not override approvals",
         "overridable = [\"approvals\"]\napprovals = [{ count = 1 }]", "lineage=dora override=approvals", kMissing},
        {"a halt is never overridden", "", "halt override=halt", "step=wait closed=halt"},
        {"a veto is never overridden", "", "veto=bytes:same override=veto", "step=wait closed=veto"},
        {"a stuck stage is never overridden", "", "stuck=3 override=quarantine", "step=wait closed=quarantine"},
        {"freshness is never overridden", "", "moved=unrelated override=freshness", "step=check closed=freshness"},
        {"evidence is never overridden", "", "checked=no override=evidence", "step=check closed=evidence"},
        {"a replaced change stays replaced", "overridable = [\"queue\"]", "newer=9 override=queue",
         "step=supersede closed=queue"},
        {"the queue is jumped where the policy says so", "overridable = [\"queue\"]", "ahead=3 override=queue",
         "step=apply"},
        {"earlier stages are skipped in an emergency", "", "verified=local:missing override=verified", "step=apply"},
        {"an overridden gate does not close when an approval ends",
         "overridable = [\"approvals\"]\napprovals = [{ count = 1 }]", "yes=ben override=approvals",
         "step=apply next=approvals:never"},
    };
}

}  // namespace gradus::test
