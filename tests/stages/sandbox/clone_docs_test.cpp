// The table in docs/sandbox-view.md is made from the table that the program uses. GRADUS_UPDATE=1 writes it anew.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "plugins/host/toolchains.h"

namespace gradus {
namespace {

std::string listed(std::span<const std::string_view> texts) {
    std::string line;
    for (const std::string_view text : texts) line += (line.empty() ? "`" : ", `") + std::string(text) + "`";
    return line;
}

std::string table() {
    std::string text = "| toolchain | read-only | copy-on-write | variables |\n|---|---|---|---|\n";
    for (const Toolchain& toolchain : toolchains())
        text += "| " + std::string(toolchain.name) + " | " + listed(toolchain.readOnly) + " | " +
                listed(toolchain.caches) + " | " + listed(toolchain.variables) + " |\n";
    return text;
}

TEST(SandboxView, ThePageHasTheTableOfToolchains) {
    const std::string path = GRADUS_SOURCE_DIR "/docs/sandbox-view.md";
    std::stringstream page;
    page << std::ifstream(path).rdbuf();
    const std::string text = page.str();
    const std::string start = "<!-- generated: toolchains -->\n";
    const std::size_t from = text.find(start);
    const std::size_t to = text.find("<!-- end -->", from);
    ASSERT_NE(to, std::string::npos);
    const std::string right = text.substr(0, from + start.size()) + table() + text.substr(to);
    if (std::getenv("GRADUS_UPDATE") != nullptr) std::ofstream(path) << right;
    EXPECT_EQ(text == right || std::getenv("GRADUS_UPDATE") != nullptr, true)
        << "docs/sandbox-view.md is not up to date: run the tests with GRADUS_UPDATE=1";
}

}  // namespace
}  // namespace gradus
