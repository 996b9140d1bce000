// The folders form one chain, and every include line shows its layer. These tests read the sources and name each line
// that goes the wrong way; the same reader is first held against made-up trees, one for each way of going wrong.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {
namespace {

namespace fs = std::filesystem;

/// A folder includes only itself and those before it.
constexpr std::array<std::string_view, 5> kChain = {"store", "policies", "plugins", "stages", "pipeline"};

/// Libraries whose types stay behind our own: they may be included by a .cpp, never by a header.
constexpr std::array<std::string_view, 10> kHiddenLibraries = {
    "SQLiteCpp/", "sqlite3.h", "toml++/", "toml.hpp", "git2.h", "git2/", "Poco/", "openssl/", "zstd.h", "seccomp.h"};

/// Folders of values and decisions: same input, same answer, so nothing in them reaches the outside.
constexpr std::array<std::string_view, 3> kPureFolders = {"store/model/", "policies/gate/", "policies/risk/"};

constexpr std::array<std::string_view, 19> kInputAndOutput = {
    "SQLiteCpp/",  "sqlite3.h",    "spdlog/",    "filesystem", "fstream",    "iostream",   "cstdio",
    "stdio.h",     "fcntl.h",      "unistd.h",   "dirent.h",   "sys/file.h", "sys/stat.h", "sys/mman.h",
    "sys/mount.h", "sys/socket.h", "sys/wait.h", "thread",     "netdb.h"};

struct Include {
    std::string path;
    bool quoted = false;
};

bool startsWithAny(std::string_view text, std::span<const std::string_view> prefixes) {
    return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return text.starts_with(prefix); });
}

/// A name that ends in "/" stands for all below it; any other must match whole ("thread" is not "threads.h").
bool isOneOf(std::string_view path, std::span<const std::string_view> names) {
    return std::ranges::any_of(
        names, [&](std::string_view name) { return name.ends_with('/') ? path.starts_with(name) : path == name; });
}

std::string_view withoutLeadingSpace(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    return text;
}

/// What a line includes, if it is an include line. A macro instead of a name is not looked through.
std::optional<Include> readInclude(std::string_view line) {
    line = withoutLeadingSpace(line);
    if (!line.starts_with('#')) return std::nullopt;
    line = withoutLeadingSpace(line.substr(1));
    if (!line.starts_with("include")) return std::nullopt;
    line = withoutLeadingSpace(line.substr(std::string_view("include").size()));
    if (line.empty() || (line[0] != '"' && line[0] != '<')) return std::nullopt;
    const bool quoted = line[0] == '"';
    const auto end = line.find(quoted ? '"' : '>', 1);
    if (end == std::string_view::npos) return std::nullopt;
    return Include{.path = std::string(line.substr(1, end - 1)), .quoted = quoted};
}

/// Where in the chain a path's first folder stands; nothing if it is not part of it.
std::optional<std::size_t> layerOf(std::string_view path) {
    const auto slash = path.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const auto found = std::ranges::find(kChain, path.substr(0, slash));
    if (found == kChain.end()) return std::nullopt;
    return static_cast<std::size_t>(found - kChain.begin());
}

/// What is wrong with a header of ours being included by `file`; nothing if it may be.
std::optional<std::string> faultOfOurs(const std::string& file, const Include& include) {
    const auto from = layerOf(file);
    const auto to = layerOf(include.path);
    if (include.path.find("../") != std::string::npos || include.path.starts_with("./")) return "a relative include";
    if (!to && !include.path.starts_with("tests/")) return "not from the repository's root";
    if (!include.quoted) return "ours, so in quotes";
    if (!from) return std::nullopt;  // a test may include anything of ours
    if (!to) return "a test's header in the sources";
    if (*to > *from) return fmt::format("{} must not know {}", kChain.at(*from), kChain.at(*to));
    if (startsWithAny(file, kPureFolders) && *to == 0 && !include.path.starts_with("store/model/"))
        return "a pure folder uses only the store's values";
    return std::nullopt;
}

std::optional<std::string> faultOfOthers(const std::string& file, const Include& include) {
    if (!layerOf(file)) return std::nullopt;
    if (startsWithAny(file, kPureFolders) && isOneOf(include.path, kInputAndOutput)) return "no I/O in a pure folder";
    if (file.ends_with(".h") && isOneOf(include.path, kHiddenLibraries)) return "a library's type in a header of ours";
    return std::nullopt;
}

std::optional<std::string> faultOf(const std::string& file, const Include& include) {
    const bool ours = include.quoted || layerOf(include.path) || include.path.starts_with("tests/");
    return ours ? faultOfOurs(file, include) : faultOfOthers(file, include);
}

/// A place that exists only where somebody once worked. Put together here, so that this file does not name one itself.
bool namesAForeignPlace(std::string_view line) {
    static const std::string kBesideTheTree = std::string("..") + "/shared";
    static const std::string kOneMachine = std::string("/wo") + "rk/";
    if (line.find(kBesideTheTree) != std::string_view::npos) return true;
    const auto found = line.find(kOneMachine);
    if (found == std::string_view::npos) return false;
    // A directory of that name further down is part of some other path.
    return found == 0 || std::string_view(" \t\"'`(=:<").find(line[found - 1]) != std::string_view::npos;
}

bool isSource(const fs::path& path) {
    const auto extension = path.extension();
    return extension == ".h" || extension == ".cpp" || extension == ".hpp" || extension == ".c" || extension == ".cc";
}

/// Everything a person wrote: the chain, the tests and the documents, and the files beside them; no builds, and none of
/// the tests' inputs, which may hold anything.
std::vector<std::string> filesOf(const fs::path& root) {
    std::vector<std::string> files;
    for (const auto& top : fs::directory_iterator(root)) {
        const auto folder = top.path().filename().string();
        if (folder == ".git") continue;  // a file, in a linked worktree
        if (top.is_regular_file()) files.push_back(folder);
        if (!top.is_directory() || (!layerOf(folder + "/") && folder != "tests" && folder != "docs")) continue;
        for (const auto& entry : fs::recursive_directory_iterator(top)) {
            const auto file = fs::relative(entry.path(), root).string();
            if (entry.is_regular_file() && file.find("/corpus/") == std::string::npos) files.push_back(file);
        }
    }
    std::ranges::sort(files);
    return files;
}

/// Two types of one name in one program: the linker takes the functions of either for both, and says nothing.
class TypeNames {
  public:
    void begin(const std::string& file) {
        file_ = file;
        isHidden_ = !layerOf(file) || !isSource(file);
    }
    /// The name that another file has given away already, if the line does so once more.
    std::optional<std::string> readLine(std::string_view line) {
        if (line == "namespace {" || line == "}  // namespace") isHidden_ = line.starts_with("namespace");
        const bool isType = (line.starts_with("struct ") || line.starts_with("class ")) && line.ends_with("{");
        if (isHidden_ || !isType) return std::nullopt;
        line.remove_prefix(line.find(' ') + 1);
        const std::string name(line.substr(0, line.find_first_of(" <")));
        return files_.try_emplace(name, file_).first->second == file_ ? std::nullopt : std::optional(name);
    }

  private:
    std::map<std::string, std::string> files_;
    std::string file_;
    bool isHidden_ = false;
};

/// "file:line: what is wrong: the line", one for each, in the order of the files.
std::vector<std::string> faultsIn(const fs::path& root) {
    std::vector<std::string> faults;
    TypeNames types;
    for (const std::string& file : filesOf(root)) {
        std::ifstream stream(root / file);
        std::string line;
        types.begin(file);
        for (int number = 1; std::getline(stream, line); ++number) {
            if (const auto name = types.readLine(line))
                faults.push_back(fmt::format("{}:{}: another type is called that: {}", file, number, *name));
            const auto include = isSource(file) ? readInclude(line) : std::nullopt;
            const auto fault = include ? faultOf(file, *include) : std::nullopt;
            if (fault) faults.push_back(fmt::format("{}:{}: {}: {}", file, number, *fault, include->path));
            if (namesAForeignPlace(line)) faults.push_back(fmt::format("{}:{}: a foreign place", file, number));
        }
    }
    return faults;
}

/// A source tree of a few lines, gone with the object.
class MadeUpTree {
  public:
    MadeUpTree() {
        std::string name = (fs::temp_directory_path() / "gradus-layers-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory: " + name);
        root_ = name;
    }
    MadeUpTree(const MadeUpTree&) = delete;
    MadeUpTree& operator=(const MadeUpTree&) = delete;
    ~MadeUpTree() {
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }

    MadeUpTree& add(const std::string& file, const std::string& text) {
        fs::create_directories((root_ / file).parent_path());
        std::ofstream(root_ / file) << text;
        return *this;
    }
    std::vector<std::string> faults() const { return faultsIn(root_); }

  private:
    fs::path root_;
};

std::string joined(const std::vector<std::string>& lines) { return fmt::format("{}", fmt::join(lines, "\n")); }

/// The faults of a tree that has one file.
std::string faultsOf(const std::string& file, const std::string& text) {
    return joined(MadeUpTree().add(file, text).faults());
}

TEST(Layers, AllSourcesKeepTheDirection) { EXPECT_EQ(joined(faultsIn(GRADUS_SOURCE_DIR)), ""); }

TEST(Layers, TheReaderSeesTheSources) {
    const auto files = filesOf(GRADUS_SOURCE_DIR);
    EXPECT_TRUE(std::ranges::binary_search(files, "store/model/digest.h"));
    EXPECT_TRUE(std::ranges::binary_search(files, "tests/layers_test.cpp"));
    EXPECT_TRUE(std::ranges::binary_search(files, "CMakeLists.txt"));
}

TEST(Layers, AnIncludeDownTheChainIsFine) {
    EXPECT_EQ(faultsOf("pipeline/engine/drive.cpp",
                       "#include \"pipeline/engine/drive.h\"\n#include <vector>\n"
                       "#include \"stages/sandbox/create.h\"\n"
                       "#include \"store/model/change.h\"\n"),
              "");
}

TEST(Layers, AnIncludeUpTheChainIsNamedForEveryPairOfFolders) {
    for (std::size_t from = 0; from < kChain.size(); ++from) {
        for (std::size_t to = from + 1; to < kChain.size(); ++to) {
            const auto file = fmt::format("{}/x.cpp", kChain.at(from));
            EXPECT_EQ(
                faultsOf(file, fmt::format("\n#include \"{}/y.h\"\n", kChain.at(to))),
                fmt::format("{}:2: {} must not know {}: {}/y.h", file, kChain.at(from), kChain.at(to), kChain.at(to)));
        }
    }
}

TEST(Layers, OddSpacingHidesNothing) {
    EXPECT_EQ(faultsOf("store/x.cpp", "  #  include\t\"stages/y.h\"  // why\n"),
              "store/x.cpp:1: store must not know stages: stages/y.h");
}

TEST(Layers, ARelativeIncludeIsNamedInSourcesAndTests) {
    EXPECT_EQ(faultsOf("store/x.cpp", "#include \"../stages/y.h\"\n"),
              "store/x.cpp:1: a relative include: ../stages/y.h");
    EXPECT_EQ(faultsOf("store/x.cpp", "#include \"store/model/../y.h\"\n"),
              "store/x.cpp:1: a relative include: store/model/../y.h");
    EXPECT_EQ(faultsOf("store/x.cpp", "#include \"x.h\"\n"), "store/x.cpp:1: not from the repository's root: x.h");
    EXPECT_EQ(faultsOf("tests/store/x_test.cpp", "#include \"fake.h\"\n"),
              "tests/store/x_test.cpp:1: not from the repository's root: fake.h");
}

TEST(Layers, OurOwnHeadersInAngleBracketsAreNamed) {
    EXPECT_EQ(faultsOf("store/x.cpp", "#include <pipeline/y.h>\n"), "store/x.cpp:1: ours, so in quotes: pipeline/y.h");
}

TEST(Layers, SourcesDoNotIncludeTests) {
    EXPECT_EQ(faultsOf("store/x.cpp", "#include \"tests/support/fake_clock.h\"\n"),
              "store/x.cpp:1: a test's header in the sources: tests/support/fake_clock.h");
    EXPECT_EQ(faultsOf("tests/store/x_test.cpp", "#include \"tests/support/fake_clock.h\"\n"), "");
}

TEST(Layers, ALibraryIsNamedInAHeaderAndFineInASourceFile) {
    for (const char* library :
         {"SQLiteCpp/SQLiteCpp.h", "sqlite3.h", "toml++/toml.h", "git2.h", "Poco/Net/HTTPServer.h"}) {
        const auto line = fmt::format("#include <{}>\n", library);
        EXPECT_EQ(faultsOf("store/x.h", line),
                  fmt::format("store/x.h:1: a library's type in a header of ours: {}", library));
        EXPECT_EQ(faultsOf("store/x.cpp", line), "");
    }
}

TEST(Layers, InputAndOutputIsNamedInPureFolders) {
    for (const char* header : {"fcntl.h", "unistd.h", "fstream", "filesystem", "SQLiteCpp/Database.h"}) {
        const auto line = fmt::format("#include <{}>\n", header);
        for (const char* file : {"store/model/x.cpp", "policies/gate/x.cpp", "policies/risk/x.cpp"})
            EXPECT_EQ(faultsOf(file, line), fmt::format("{}:1: no I/O in a pure folder: {}", file, header));
        EXPECT_EQ(faultsOf("store/x.cpp", line), "");
    }
}

TEST(Layers, PureFoldersUseOnlyTheStoresValues) {
    EXPECT_EQ(faultsOf("store/model/x.cpp", "#include \"store/file.h\"\n"),
              "store/model/x.cpp:1: a pure folder uses only the store's values: store/file.h");
    EXPECT_EQ(faultsOf("policies/gate/x.cpp", "#include \"store/store.h\"\n"),
              "policies/gate/x.cpp:1: a pure folder uses only the store's values: store/store.h");
    EXPECT_EQ(faultsOf("policies/gate/x.cpp", "#include \"store/model/change.h\"\n"), "");
}

TEST(Layers, APlaceOnSomebodysMachineIsNamedInAnyFile) {
    const std::string beside = std::string("..") + "/shared/notes";
    const std::string machine = std::string("/wo") + "rk/main";
    EXPECT_EQ(faultsOf("README.md", "see " + beside + "\n"), "README.md:1: a foreign place");
    EXPECT_EQ(faultsOf("docs/x.md", "\n(" + machine + ")\n"), "docs/x.md:2: a foreign place");
    EXPECT_EQ(faultsOf("store/x.cpp", "auto p = \"" + machine + "\";\n"), "store/x.cpp:1: a foreign place");
    EXPECT_EQ(faultsOf("store/x.cpp", "auto p = \"upper" + machine + "\";\n"), "");
}

TEST(Layers, ATypeHasItsNameForItself) {
    MadeUpTree tree;
    tree.add("store/a.h", "struct Ground {\n};\nnamespace {\nstruct Own {\n}  // namespace\nclass Ground;\n");
    tree.add("stages/b.cpp", "namespace {\nstruct Ground {\n};\nstruct Own {\n}  // namespace\n");
    EXPECT_EQ(joined(tree.faults()), "");
    tree.add("stages/c.h", "\nclass Ground final : public Other {\n");
    EXPECT_EQ(joined(tree.faults()), "store/a.h:1: another type is called that: Ground");
}

TEST(Layers, EveryFaultOfATreeIsListedInOrder) {
    MadeUpTree tree;
    tree.add("store/b.cpp", "#include \"pipeline/y.h\"\n").add("store/a.h", "#include <vector>\n#include <git2.h>\n");
    EXPECT_EQ(joined(tree.faults()),
              "store/a.h:2: a library's type in a header of ours: git2.h\n"
              "store/b.cpp:1: store must not know pipeline: pipeline/y.h");
}

}  // namespace
}  // namespace gradus
