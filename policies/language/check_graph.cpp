#include "policies/language/check_graph.h"

#include <algorithm>

namespace gradus {

namespace {

/// A depth-first walk with a stack of its own: a file can chain thousands of checks, deeper than a thread's stack.
class Walk {
  public:
    explicit Walk(const CheckGraph& graph) : graph_(graph) {}

    void from(const std::string& start) {
        if (state_[start] != State::kNew) return;
        enter(start);
        while (!stack_.empty()) step();
    }

    std::vector<std::string> order;  // each name after the ones it needs
    std::vector<std::vector<std::string>> cycles;

  private:
    enum class State { kNew, kOpen, kDone };
    struct Frame {
        std::string name;
        std::size_t next = 0;
    };

    void enter(const std::string& name) {
        state_[name] = State::kOpen;
        stack_.push_back({name, 0});
    }

    void step() {
        const std::vector<std::string>& needs = graph_.at(stack_.back().name);
        if (stack_.back().next == needs.size()) return leave();
        const std::string& need = needs[stack_.back().next++];
        if (state_[need] == State::kNew)
            enter(need);
        else if (state_[need] == State::kOpen)
            noteCycle(need);
    }

    void leave() {
        state_[stack_.back().name] = State::kDone;
        order.push_back(stack_.back().name);
        stack_.pop_back();
    }

    void noteCycle(const std::string& closing) {
        const auto first =
            std::find_if(stack_.begin(), stack_.end(), [&](const Frame& frame) { return frame.name == closing; });
        std::vector<std::string>& cycle = cycles.emplace_back();
        for (auto frame = first; frame != stack_.end(); ++frame) cycle.push_back(frame->name);
        cycle.push_back(closing);
    }

    const CheckGraph& graph_;
    std::map<std::string, State> state_;
    std::vector<Frame> stack_;
};

}  // namespace

std::vector<std::vector<std::string>> findCycles(const CheckGraph& graph) {
    Walk walk(graph);
    for (const auto& [name, needs] : graph) walk.from(name);
    return walk.cycles;
}

std::vector<std::string> withNeeds(const CheckGraph& graph, const std::vector<std::string>& wanted) {
    Walk walk(graph);
    for (const std::string& name : wanted) walk.from(name);
    return walk.order;
}

}  // namespace gradus
