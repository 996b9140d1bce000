#pragma once

#include <map>
#include <string>
#include <vector>

namespace gradus {

/// Which check needs which; every name mentioned is a key.
using CheckGraph = std::map<std::string, std::vector<std::string>>;

/// Every cycle that a depth-first walk meets, each as the names along it with the first one again at the end.
std::vector<std::vector<std::string>> findCycles(const CheckGraph& graph);

/// `wanted` and all that it needs, each name once and after what it needs. The graph must have no cycle.
std::vector<std::string> withNeeds(const CheckGraph& graph, const std::vector<std::string>& wanted);

}  // namespace gradus
