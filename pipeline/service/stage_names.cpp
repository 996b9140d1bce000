#include "pipeline/service/stage_names.h"

#include <algorithm>
#include <limits>

namespace gradus {

std::vector<std::string> stageNames(const Records& records, std::int64_t project, const Pipeline* pipeline) {
    std::vector<std::string> names;
    if (pipeline != nullptr)
        for (const Stage& stage : pipeline->stages) names.push_back(stage.name);
    const auto all = records.promotionsIn(project, std::nullopt, std::numeric_limits<std::int64_t>::max());
    for (auto promotion = all.rbegin(); promotion != all.rend(); ++promotion)
        if (std::find(names.begin(), names.end(), promotion->stage) == names.end()) names.push_back(promotion->stage);
    return names;
}

}  // namespace gradus
