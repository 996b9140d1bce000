#include <fmt/format.h>

#include "pipeline/cli/context.h"
#include "pipeline/cli/verbs.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

struct WordFace {
    MachineFact::Word word;
    Style style;
    std::string_view text;
};
constexpr std::array kWordFaces{
    WordFace{MachineFact::Word::kGood, Style::kGreen, "ok"},
    WordFace{MachineFact::Word::kLimits, Style::kYellow, "less"},
    WordFace{MachineFact::Word::kStops, Style::kRed, "no"},
};

const WordFace& faceOf(MachineFact::Word word) { return kWordFaces[static_cast<std::size_t>(word)]; }

/// One finding: a word, what it is about, what was seen, and the cure on a line of its own.
std::string finding(const Paint& paint, MachineFact::Word word, std::string_view name, std::string_view seen,
                    std::string_view cure) {
    const WordFace& face = faceOf(word);
    std::string text = fmt::format("  {}{:<{}} {:<18} {}\n", paint(face.style, face.text), "", 4 - face.text.size(),
                                   printable(name), printable(seen));
    if (word != MachineFact::Word::kGood && !cure.empty()) text += fmt::format("       cure: {}\n", printable(cure));
    return text;
}

std::string backendText(const ProbeResult& backend, const Paint& paint) {
    std::string text = fmt::format("backend {}\n", printable(backend.backend));
    for (auto proof = backend.proofs.begin(); proof != backend.proofs.end();) {
        // What keeps several from holding is said once.
        std::string names(guaranteeName(proof->guarantee));
        auto next = std::next(proof);
        for (; next != backend.proofs.end() && !proof->holds && !next->holds && next->evidence == proof->evidence &&
               next->cure == proof->cure;
             ++next)
            names += fmt::format(", {}", guaranteeName(next->guarantee));
        const auto word = proof->holds ? MachineFact::Word::kGood : MachineFact::Word::kLimits;
        text += finding(paint, word, names, proof->evidence, proof->cure);
        proof = next;
    }
    return text;
}

std::string homeText(const DoctorReport& report) {
    std::string text = "home, as a sandbox shows it: empty";
    text += report.home.empty() ? "\n" : ", but for\n";
    for (const HomeEntry& entry : report.home)
        text +=
            fmt::format("  {:<14} {}  ({})\n", entry.how == HomeEntry::How::kReadOnly ? "read-only" : "copy-on-write",
                        printable(entry.path.native()), printable(entry.why));
    for (const std::string& note : report.notes) text += fmt::format("  note: {}\n", printable(note));
    return text;
}

std::string reportText(const DoctorReport& report, const Paint& paint) {
    std::string text = "machine\n";
    for (const MachineFact& fact : report.machine) text += finding(paint, fact.word, fact.name, fact.seen, fact.cure);
    const bool broken = !report.state.problem.empty();
    text += finding(paint, broken ? MachineFact::Word::kStops : MachineFact::Word::kGood, "state",
                    broken ? report.state.problem : report.state.directory.native(), report.state.cure);
    for (const ProbeResult& backend : report.backends) text += "\n" + backendText(backend, paint);
    return text + "\n" + homeText(report);
}

Json backendJson(const ProbeResult& backend) {
    Json proofs = Json::array();
    for (const Proof& proof : backend.proofs)
        proofs.push_back({{"guarantee", guaranteeName(proof.guarantee)},
                          {"holds", proof.holds},
                          {"evidence", proof.evidence},
                          {"cure", proof.cure}});
    return {{"name", backend.backend}, {"version", backend.version}, {"guarantees", std::move(proofs)}};
}

Json reportJson(const DoctorReport& report) {
    Json machine = Json::array();
    for (const MachineFact& fact : report.machine)
        machine.push_back(
            {{"name", fact.name}, {"word", faceOf(fact.word).text}, {"seen", fact.seen}, {"cure", fact.cure}});
    Json backends = Json::array();
    for (const ProbeResult& backend : report.backends) backends.push_back(backendJson(backend));
    Json home = Json::array();
    for (const HomeEntry& entry : report.home)
        home.push_back({{"path", entry.path.native()},
                        {"how", entry.how == HomeEntry::How::kReadOnly ? "read-only" : "copy-on-write"},
                        {"why", entry.why}});
    return {{"well", report.isWell()},
            {"machine", std::move(machine)},
            {"backends", std::move(backends)},
            {"state",
             {{"directory", report.state.directory.native()},
              {"problem", report.state.problem},
              {"cure", report.state.cure}}},
            {"home", std::move(home)},
            {"notes", report.notes}};
}

Result examine(Service& service, Context& context) {
    const DoctorReport report = service.doctor(context.host.directory());
    Result result{.data = reportJson(report), .text = reportText(report, context.paint)};
    if (report.isWell()) {
        result.next = {"gradus try -- COMMAND"};
        return result;
    }
    result.exit = Exit::kFailed;
    result.problem = Problem{"infrastructure", "sandboxes cannot be built here", "see the cures above"};
    return result;
}

}  // namespace

std::vector<Verb> doctorVerbs(const OpenService& open) {
    return {
        {.words = "doctor",
         .group = Group::kTry,
         .summary = "prove what isolation holds here, and say how to get the rest",
         .examples = {{"gradus doctor", "exit 1 if no sandbox can be built"}, {"gradus doctor --json", "for programs"}},
         .handler = withService(open, examine)}};
}

}  // namespace gradus
