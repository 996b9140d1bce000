#pragma once

#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/isolation/jail/cgroup.h"

namespace gradus {

/// A cgroup file system in memory: directories fill themselves with files when they are made, as the kernel's do.
class FakeCgroups : public CgroupFiles {
  public:
    void addOld(const std::string& controller) { fill("/cg/" + controller); }
    void addUnified(const std::string& top, const std::string& controllers) {
        directories_.insert(top);
        files_[top + "/cgroup.controllers"] = controllers;
        files_[top + "/cgroup.subtree_control"] = "";
    }
    void addGroup(const std::string& path) { fill(path); }
    void put(const std::string& path, const std::string& text) { files_[path] = text; }
    void forbid(const std::string& path, int error) { forbidden_[path] = error; }
    bool hasDirectory(const std::string& path) const { return directories_.contains(path); }
    std::string at(const std::string& path) const { return files_.contains(path) ? files_.at(path) : "(none)"; }
    std::size_t groups() const { return directories_.size(); }

    int makeDirectory(const std::string& path) override {
        if (const int error = refusal(path.substr(0, path.rfind('/')))) return error;
        if (directories_.contains(path)) return EEXIST;
        fill(path);
        return 0;
    }
    int removeDirectory(const std::string& path) override {
        if (busy > 0 && busy-- > 0) return EBUSY;
        if (directories_.erase(path) == 0) return ENOENT;
        std::erase_if(files_, [&](const auto& file) { return file.first.starts_with(path + "/"); });
        return 0;
    }
    int write(const std::string& path, std::string_view text) override {
        if (const int error = refusal(path)) return error;
        if (!files_.contains(path)) return ENOENT;
        if (path.ends_with("cgroup.subtree_control")) return addController(path, std::string(text.substr(1)));
        files_[path] = text;
        return 0;
    }
    int read(const std::string& path, std::string& text) override {
        if (!files_.contains(path)) return ENOENT;
        text = files_[path];
        return 0;
    }
    int list(const std::string& path, std::vector<std::string>& names) override {
        for (const std::string& directory : directories_)
            if (directory.starts_with(path + "/") && directory.find('/', path.size() + 1) == std::string::npos)
                names.push_back(directory.substr(path.size() + 1));
        return 0;
    }
    bool exists(const std::string& path) override { return files_.contains(path) || directories_.contains(path); }

    int busy = 0;

  private:
    int refusal(const std::string& path) const {
        const auto found = forbidden_.find(path);
        return found == forbidden_.end() ? 0 : found->second;
    }
    int addController(const std::string& path, const std::string& controller) {
        const std::string directory = path.substr(0, path.rfind('/'));
        if (files_[directory + "/cgroup.controllers"].find(controller) == std::string::npos) return ENOENT;
        // Only pids and cpu may be handed on beside processes, and then what lies below is for threads.
        if (files_.contains(directory + "/cgroup.type") && !at(directory + "/cgroup.procs").empty()) {
            if (controller == "memory") return EBUSY;
            files_[directory + "/cgroup.type"] = "domain threaded\n";
        }
        std::string& given = files_[path];
        if (given.find(controller) == std::string::npos) given += (given.empty() ? "" : " ") + controller;
        return 0;
    }
    void fill(const std::string& path) {
        directories_.insert(path);
        for (const char* name :
             {"tasks", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes",
              "memory.oom_control", "pids.max", "pids.events", "pids.peak", "cpu.cfs_period_us", "cpu.cfs_quota_us",
              "cpuacct.usage", "memory.max", "memory.swap.max", "memory.oom.group", "memory.events", "memory.peak",
              "cpu.max", "cgroup.subtree_control", "cgroup.procs"})
            files_[path + "/" + name] = "";
        const std::string above = at(path.substr(0, path.rfind('/')) + "/cgroup.type");
        files_[path + "/cgroup.type"] = above == "domain threaded\n" ? "domain invalid\n" : "domain\n";
        files_[path + "/cpu.stat"] = "usage_usec 1500\n";
        files_[path + "/cgroup.controllers"] = files_[path.substr(0, path.rfind('/')) + "/cgroup.subtree_control"];
    }

    std::set<std::string> directories_;
    std::map<std::string, std::string> files_;
    std::map<std::string, int> forbidden_;
};

}  // namespace gradus
