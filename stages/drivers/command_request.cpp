#include "stages/drivers/command_request.h"

#include <nlohmann/json.hpp>

#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kDomain = "gradus.command-checkpoint.1";

Json orNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

std::string CommandStep::encode() const {
    Canonical out(kDomain);
    out.number(promotion).text(handle).text(title).text(author).list(trailers.size());
    for (const auto& [name, value] : trailers) out.text(name).text(value);
    out.digest(changes).list(previous ? 1 : 0);
    if (previous) out.digest(*previous);
    return out.text(copies.encode()).bytes();
}

CommandStep CommandStep::decode(const Checkpoint& checkpoint) {
    CanonicalReader in(checkpoint.data, kDomain);
    CommandStep step;
    step.promotion = in.number();
    step.handle = in.text();
    step.title = in.text();
    step.author = in.text();
    for (std::uint64_t left = in.list(); left > 0; --left) {
        std::string name = in.text();
        step.trailers.emplace_back(std::move(name), in.text());
    }
    step.changes = in.digest();
    if (in.list() == 1) step.previous = in.digest();
    step.copies = Checkpoint::decode(in.text());
    in.end();
    return step;
}

std::vector<std::string> TargetRequest::environment() const {
    return {"GRADUS_STAGE=" + stage,
            "GRADUS_CHANGE=" + step.handle,
            "GRADUS_PROMOTION=" + promotionHandle(step.promotion),
            "GRADUS_TREE=" + now.tree.native(),
            "GRADUS_TREE_DIGEST=" + now.digest,
            "GRADUS_PREVIOUS=" + before.tree.native(),
            "GRADUS_PREVIOUS_DIGEST=" + before.digest};
}

std::string TargetRequest::json(const std::string& action, const ChangeSet& changes) const {
    Json paths = Json::array();
    for (const PathChange& change : changes.changes())
        paths.push_back({{"path", change.path}, {"kind", nameOf(kChangeKinds, kindOf(change))}});
    Json trailers = Json::object();
    for (const auto& [name, value] : step.trailers) trailers[name] = value;
    const Json whole = {{"schema", "gradus.v1/stage-request"},
                        {"action", action},
                        {"is_rollback", isBack},
                        {"stage", stage},
                        {"change", step.handle},
                        {"promotion", promotionHandle(step.promotion)},
                        {"title", step.title},
                        {"author", orNull(step.author)},
                        {"trailers", trailers},
                        {"tree", orNull(now.tree.native())},
                        {"tree_digest", orNull(now.digest)},
                        {"previous", orNull(before.tree.native())},
                        {"previous_digest", orNull(before.digest)},
                        {"changes", paths}};
    return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gradus
