#include "tests/stages/changes/tree_rig.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>

#include "store/model/error.h"

namespace gradus::test {

namespace fs = std::filesystem;

namespace {

fs::path freshBase() {
    const fs::path parent = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string name = (parent / "gradus-tree-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + name);
    fs::create_directory(fs::path(name) / "root");
    fs::create_directory(fs::path(name) / "outside");
    return name;
}

Node nodeAt(const fs::path& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) throw std::runtime_error("cannot look at " + path.native());
    Node node{EntryType::kFile, info.st_mode & 07777, "", info.st_uid, info.st_gid, 0};
    if (S_ISDIR(info.st_mode)) {
        node.type = EntryType::kDirectory;
        return node;
    }
    node.modified = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    if (S_ISLNK(info.st_mode)) {
        node.type = EntryType::kSymlink;
        node.bytes = fs::read_symlink(path).native();
        return node;
    }
    // Reading a pipe would wait for a writer.
    if (!S_ISREG(info.st_mode)) return node;
    node.bytes.resize(static_cast<std::size_t>(info.st_size));
    std::ifstream(path, std::ios::binary).read(node.bytes.data(), info.st_size);
    return node;
}

}  // namespace

void removeTree(const fs::path& path) {
    std::error_code failed;
    fs::remove_all(path, failed);
    if (!failed) return;
    if (fs::is_directory(fs::symlink_status(path))) {
        ::chmod(path.c_str(), 0700);
        for (const auto& entry : fs::directory_iterator(path)) removeTree(entry.path());
    }
    fs::remove(path);
}

bool isRoot() { return ::geteuid() == 0; }

void dieNow() {
    ::kill(::getpid(), SIGKILL);
    ::_exit(99);
}

void build(const fs::path& root, const Tree& tree) {
    for (const auto& [path, node] : tree) {
        const fs::path at = root / path;
        if (node.type == EntryType::kDirectory) fs::create_directory(at);
        if (node.type == EntryType::kSymlink) fs::create_symlink(node.bytes, at);
        if (node.type == EntryType::kFile) std::ofstream(at, std::ios::binary) << node.bytes;
        if (node.type == EntryType::kFile) ::chmod(at.c_str(), node.mode);
    }
    for (auto node = tree.rbegin(); node != tree.rend(); ++node)
        if (node->second.type == EntryType::kDirectory) ::chmod((root / node->first).c_str(), node->second.mode);
}

Tree readTree(const fs::path& root, const std::set<std::string>& closed) {
    Tree tree;
    for (fs::recursive_directory_iterator at(root), end; at != end; ++at) {
        const std::string name = at->path().lexically_relative(root).native();
        if (closed.contains(name)) at.disable_recursion_pending();
        tree[name] = nodeAt(at->path());
    }
    return tree;
}

Tree plain(Tree tree) {
    for (auto& [path, node] : tree) node = {node.type, node.mode, std::move(node.bytes)};
    return tree;
}

std::ostream& operator<<(std::ostream& out, const Node& node) {
    return out << fmt::format("{} {:o} {}:{} '{}' at {}", nameOf(kEntryTypes, node.type), node.mode, node.user,
                              node.group, node.bytes.substr(0, 60), node.modified);
}

std::string difference(const Tree& a, const Tree& b) {
    std::ostringstream out;
    for (const auto& [path, node] : a) {
        const auto other = b.find(path);
        if (other == b.end()) out << "  only left: " << path << ": " << node << "\n";
        if (other != b.end() && !(other->second == node))
            out << "  " << path << ": " << node << "\n    but right: " << other->second << "\n";
    }
    for (const auto& [path, node] : b)
        if (!a.contains(path)) out << "  only right: " << path << ": " << node << "\n";
    return out.str();
}

Entry entryOf(const Node& node) {
    if (node.type == EntryType::kDirectory) return {node.type, node.mode, {}, 0};
    return {node.type, node.mode, sha256(node.bytes), node.bytes.size()};
}

ChangeSet changesBetween(const Tree& before, const Tree& after, Objects& objects) {
    std::vector<PathChange> changes;
    for (const auto& [path, node] : after) {
        const auto old = before.find(path);
        if (old != before.end() && old->second == node) continue;
        if (node.type != EntryType::kDirectory) objects.put(std::string_view(node.bytes));
        changes.push_back({path, std::nullopt, entryOf(node), true});
        if (old != before.end()) changes.back().before = entryOf(old->second);
    }
    for (const auto& [path, node] : before)
        if (!after.contains(path)) changes.push_back({path, entryOf(node), std::nullopt, true});
    return ChangeSet(std::move(changes));
}

int WatchedOperations::before(std::string_view call, std::string_view name) {
    ++count_;
    return hook_ ? hook_(count_, call, name) : 0;
}

int WatchedOperations::createFile(int directory, const std::string& name, FileDescriptor& made) {
    if (const int error = before("create", name)) return error > 0 ? error : (dieNow(), 0);
    return real_.createFile(directory, name, made);
}
int WatchedOperations::write(int file, std::string_view bytes, std::uint64_t offset, std::size_t& written) {
    const int error = before("write", "");
    if (error == kTear) real_.write(file, bytes.substr(0, bytes.size() / 2), offset, written);
    if (error == kTear) dieNow();
    if (error == kShort) return real_.write(file, bytes.substr(0, bytes.size() / 2 + 1), offset, written);
    return error != 0 ? error : real_.write(file, bytes, offset, written);
}
int WatchedOperations::resize(int file, std::uint64_t size) {
    if (const int error = before("resize", "")) return error > 0 ? error : (dieNow(), 0);
    return real_.resize(file, size);
}
int WatchedOperations::shareContent(int file, int source) {
    if (const int error = before("share", "")) return error > 0 ? error : (dieNow(), 0);
    return real_.shareContent(file, source);
}
int WatchedOperations::delegate(std::string_view what, const std::function<int()>& act) {
    if (const int error = before("delegate", what)) return error > 0 ? error : (dieNow(), 0);
    return real_.delegate(what, act);
}
int WatchedOperations::makeDirectory(int directory, const std::string& name) {
    if (const int error = before("mkdir", name)) return error > 0 ? error : (dieNow(), 0);
    return real_.makeDirectory(directory, name);
}
int WatchedOperations::makeLink(int directory, const std::string& name, const std::string& text) {
    if (const int error = before("symlink", name)) return error > 0 ? error : (dieNow(), 0);
    return real_.makeLink(directory, name, text);
}
int WatchedOperations::move(int fromDirectory, const std::string& from, int toDirectory, const std::string& to,
                            Move how) {
    const std::string name = from + ">" + to;
    if (const int error = before(how == Move::kExchange ? "exchange" : "move", name))
        return error > 0 ? error : (dieNow(), 0);
    return real_.move(fromDirectory, from, toDirectory, to, how);
}
int WatchedOperations::removeFile(int directory, const std::string& name) {
    if (const int error = before("unlink", name)) return error > 0 ? error : (dieNow(), 0);
    return real_.removeFile(directory, name);
}
int WatchedOperations::removeDirectory(int directory, const std::string& name) {
    if (const int error = before("rmdir", name)) return error > 0 ? error : (dieNow(), 0);
    return real_.removeDirectory(directory, name);
}
int WatchedOperations::setMode(int file, mode_t mode) {
    if (const int error = before("chmod", "")) return error > 0 ? error : (dieNow(), 0);
    return real_.setMode(file, mode);
}
int WatchedOperations::setOwner(int file, uid_t user, gid_t group) {
    if (const int error = before("chown", "")) return error > 0 ? error : (dieNow(), 0);
    return real_.setOwner(file, user, group);
}
int WatchedOperations::setModified(int file, const timespec& time) {
    if (const int error = before("utimes", "")) return error > 0 ? error : (dieNow(), 0);
    return real_.setModified(file, time);
}
int WatchedOperations::setAttribute(int file, const std::string& name, std::string_view value) {
    if (const int error = before("setxattr", name)) return error > 0 ? error : (dieNow(), 0);
    return real_.setAttribute(file, name, value);
}
int WatchedOperations::sync(int file) {
    // What is synced, by its last name: lets a test see the order.
    const std::string target = fs::read_symlink("/proc/self/fd/" + std::to_string(file)).filename().native();
    if (const int error = before("sync", target)) return error > 0 ? error : (dieNow(), 0);
    return real_.sync(file);
}
int WatchedOperations::syncFileSystem(int anyFile) {
    if (const int error = before("syncfs", "")) return error > 0 ? error : (dieNow(), 0);
    return real_.syncFileSystem(anyFile);
}

TreeRig::TreeRig() : base_(freshBase()), objects_(base_ / "objects", clock_) {}

TreeRig::~TreeRig() {
    try {
        removeTree(base_);
    } catch (const fs::filesystem_error& error) {
        std::cerr << error.what() << '\n';
    }
}

void TreeRig::reset(const Tree& tree) {
    ::chmod(root().c_str(), 0755);
    for (const auto& entry : fs::directory_iterator(root())) removeTree(entry.path());
    build(root(), tree);
}

TreeRig::Applied TreeRig::apply(const ChangeSet& changes, FileOperations& files) {
    TreeWriter writer = this->writer(files);
    const JournalRef ref = writer.seal(writer.plan(changes));
    return {ref, writer.apply(ref)};
}

int inChild(const std::function<void()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
        try {
            work();
        } catch (const std::exception& error) {
            std::cerr << "in the child: " << error.what() << std::endl;
            ::_exit(1);
        }
        ::_exit(0);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

Tree sampleBefore() {
    return {
        {"changed", file("old text\n")},
        {"mode", file("same text\n", 0600)},
        {"empty", file("")},
        {"removed", file("going\n", 0755)},
        {"file-to-link", file("a file\n")},
        {"link-to-file", link("changed")},
        {"link-to-link", link("changed")},
        {"removed-link", link("nowhere")},
        {"dir-to-file", folder()},
        {"dir-to-file/x", file("inside\n")},
        {"dir-to-link", folder(0700)},
        {"dir-to-link/mine", file("goes with it\n")},
        {"file-to-dir", file("will hold\n", 0640)},
        {"link-to-dir", link("kept")},
        {"removed-dir", folder(0750)},
        {"removed-dir/deep", folder()},
        {"removed-dir/deep/x", file("deep\n")},
        {"removed-dir/y", link("deep/x")},
        {"dir-mode", folder(0755)},
        {"locked", folder(0555)},
        {"locked/x", file("read only\n", 0444)},
        {"locked/z", file("goes\n", 0444)},
        {"kept", folder()},
        {"kept/mine", file("never touched\n")},
    };
}

Tree sampleAfter() {
    return {
        {"changed", file("new text\n")},
        {"mode", file("same text\n", 0755)},
        {"empty", file("not any more\n")},
        {"file-to-link", link("kept/mine")},
        {"link-to-file", file("was a link\n")},
        {"link-to-link", link("kept")},
        {"dir-to-file", file("was a directory\n")},
        {"dir-to-link", link("kept")},
        {"file-to-dir", folder(0711)},
        {"file-to-dir/x", file("new below\n")},
        {"link-to-dir", folder()},
        {"link-to-dir/mine", file("not the other\n")},
        {"dir-mode", folder(0700)},
        {"locked", folder(0555)},
        {"locked/x", file("rewritten\n", 0444)},
        {"locked/new", file("added\n", 0444)},
        {"new-dir", folder(0555)},
        {"new-dir/with space", folder()},
        {"new-dir/with space/f", file(std::string(70'000, 'x'))},
        {"new-empty", file("")},
        {"new-link", link("/absolute/and gone")},
        {"kept", folder()},
        {"kept/mine", file("never touched\n")},
    };
}

}  // namespace gradus::test
