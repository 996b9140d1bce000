#include "pipeline/cli/envelope.h"

#include <algorithm>
#include <cerrno>

namespace gradus {

namespace {

Json errorJson(const Problem& problem) {
    return {
        {"code", problem.code}, {"message", problem.message}, {"hint", problem.hint}, {"retryable", problem.retryable}};
}

// Of what can happen wherever something is written.
std::string usualCure(const std::string& message) {
    if (message.find(errnoText(ENOSPC)) == std::string::npos) return "";
    return "free some space (`gradus sandbox rm`, `gradus gc`) and run the command again";
}

}  // namespace

std::string schemaName(std::string_view verb) {
    std::string name(verb.empty() ? "usage" : verb);
    std::ranges::replace(name, ' ', '-');
    return "gradus.v1/" + name;
}

std::string jsonLine(const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n"; }

Json envelope(std::string_view verb, const Result& result) {
    Json out = {{"schema", schemaName(verb)}, {"ok", !result.problem}};
    if (result.problem) out["error"] = errorJson(*result.problem);
    if (!result.problem || !result.data.empty()) out["data"] = result.data;
    if (!result.problem || !result.next.empty()) out["next"] = result.next;
    return out;
}

Problem problemOf(const Error& error) {
    const ErrorFace& face = faceOf(error.code());
    return {std::string(face.word), error.what(), error.hint().empty() ? usualCure(error.what()) : error.hint(),
            face.retryable};
}

}  // namespace gradus
