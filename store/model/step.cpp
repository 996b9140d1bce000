#include "store/model/step.h"

#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"

namespace gradus {

namespace {

constexpr std::string_view kDomain = "gradus.steps.1";

void addWords(Canonical& out, const std::vector<std::string>& words) {
    out.list(words.size());
    for (const std::string& word : words) out.text(word);
}

std::vector<std::string> wordsFrom(CanonicalReader& in) {
    std::vector<std::string> words;
    for (std::uint64_t left = in.list(); left > 0; --left) words.push_back(in.text());
    return words;
}

template <typename Enum, std::size_t kCount>
Enum wordFrom(CanonicalReader& in, const std::array<Name<Enum>, kCount>& table) {
    const auto value = fromName(table, in.text());
    if (!value) in.fail("an unknown word");
    return *value;
}

}  // namespace

std::string encodeSteps(const std::vector<StepPlan>& steps) {
    Canonical out(kDomain);
    out.list(steps.size());
    for (const StepPlan& step : steps) {
        out.text(step.name).text(nameOf(kStepWhens, step.when));
        addWords(out, step.run);
        addWords(out, step.undo);
        addWords(out, step.probe);
        out.number(step.timeout.count()).number(step.irreversible ? 1 : 0);
        out.text(nameOf(kIdempotences, step.idempotence));
    }
    return out.bytes();
}

std::vector<StepPlan> decodeSteps(std::string_view bytes) {
    CanonicalReader in(bytes, kDomain);
    std::vector<StepPlan> steps;
    for (std::uint64_t left = in.list(); left > 0; --left) {
        StepPlan step;
        step.name = in.text();
        step.when = wordFrom(in, kStepWhens);
        step.run = wordsFrom(in);
        step.undo = wordsFrom(in);
        step.probe = wordsFrom(in);
        step.timeout = Milliseconds(in.number());
        step.irreversible = in.number() != 0;
        step.idempotence = wordFrom(in, kIdempotences);
        steps.push_back(std::move(step));
    }
    in.end();
    return steps;
}

}  // namespace gradus
