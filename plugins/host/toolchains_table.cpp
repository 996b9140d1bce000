// Turns plugins/toolchains.toml into a C++ table. Runs when the program is built, never afterwards: a sandbox starts in
// about a millisecond, and parsing would take as long again.

#include <fmt/format.h>

#include <toml++/toml.h>
#include <fstream>
#include <iostream>
#include <set>
#include <string>

namespace {

constexpr const char* kLists[] = {"read-only", "caches", "secrets", "variables"};

std::string texts(const toml::table& table, const std::string& key) {
    const toml::array* list = table[key].as_array();
    if (table.contains(key) && list == nullptr) throw std::runtime_error(key + " is not a list");
    std::string rows;
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
        const auto text = (*list)[i].value<std::string>();
        if (!text || text->empty()) throw std::runtime_error(key + " holds something that is not a text");
        rows += fmt::format("    R\"~({})~\",\n", *text);
    }
    return rows;
}

std::string array(const std::string& name, const std::string& rows) {
    if (rows.empty()) return fmt::format("constexpr std::array<std::string_view, 0> {}{{}};\n", name);
    return fmt::format("constexpr auto {} = std::to_array<std::string_view>({{\n{}}});\n", name, rows);
}

void refuseUnknownKeys(const toml::table& table, const std::set<std::string>& known) {
    for (const auto& [key, value] : table)
        if (!known.contains(std::string(key.str()))) throw std::runtime_error("unknown key " + std::string(key.str()));
}

std::string toolchain(const toml::table& table, std::size_t number, std::string& rows) {
    refuseUnknownKeys(table, {"name", "read-only", "caches", "secrets", "variables"});
    const auto name = table["name"].value<std::string>();
    if (!name || name->empty()) throw std::runtime_error("a toolchain without a name");
    std::string arrays;
    std::string row = fmt::format("    {{\"{}\"", *name);
    for (std::size_t i = 0; i < std::size(kLists); ++i) {
        arrays += array(fmt::format("kRow{}List{}", number, i), texts(table, kLists[i]));
        row += fmt::format(", kRow{}List{}", number, i);
    }
    rows += row + "},\n";
    return arrays;
}

std::string generate(const toml::table& file) {
    refuseUnknownKeys(file, {"secrets", "secret-names", "toolchain"});
    const toml::array* entries = file["toolchain"].as_array();
    if (entries == nullptr || entries->empty()) throw std::runtime_error("no toolchain");
    std::string arrays =
        array("kSecretPlaces", texts(file, "secrets")) + array("kSecretNames", texts(file, "secret-names"));
    std::string rows;
    for (std::size_t i = 0; i < entries->size(); ++i) arrays += toolchain(*(*entries)[i].as_table(), i, rows);
    return fmt::format(R"(// Generated from plugins/toolchains.toml by toolchains_table.
#include "plugins/host/toolchains.h"

#include <array>

namespace gradus {{
namespace {{
{}constexpr Toolchain kToolchains[] = {{
{}}};
}}  // namespace

std::span<const Toolchain> toolchains() {{ return kToolchains; }}
std::span<const std::string_view> secretPlaces() {{ return kSecretPlaces; }}
std::span<const std::string_view> secretNames() {{ return kSecretNames; }}

}}  // namespace gradus
)",
                       arrays, rows);
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return 2;
    try {
        const std::string text = generate(toml::parse_file(arguments[1]));
        std::ofstream(arguments[2]) << text;
        return 0;
    } catch (const std::exception& error) {
        std::cerr << arguments[1] << ": " << error.what() << "\n";
        return 1;
    }
}
