#pragma once

#include <filesystem>
#include <string>

namespace gradus {

/// A file that belongs to this program: beside it, or in ../libexec/gradus. Throws Error(kInfrastructure) where it is
/// in neither.
std::filesystem::path partOfProgram(const std::string& name);

/// Code that needs a large library (libgit2, Poco) is a shared object of its own, a part of the program like any other:
/// only who uses it waits for it to be loaded. It stays until the process ends. `module` is its file's name. Throws
/// Error(kInfrastructure) where it cannot be loaded. Any thread.
void* moduleSymbol(const std::string& module, const char* symbol);

template <typename Function>
Function* moduleFunction(const std::string& module, const char* symbol) {
    return reinterpret_cast<Function*>(moduleSymbol(module, symbol));
}

}  // namespace gradus
