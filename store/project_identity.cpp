#include "store/project_identity.h"

#include <sys/stat.h>

#include <cerrno>

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

ProjectIdentity identify(const std::filesystem::path& project) {
    struct stat info {};
    if (::stat(project.c_str(), &info) != 0)
        throw Error(ErrorCode::kNotFound, "cannot look at {}: {}", printable(project.native()), errnoText(errno));
    if (!S_ISDIR(info.st_mode)) throw Error(ErrorCode::kUsage, "{} is not a directory", printable(project.native()));
    return {project, static_cast<std::int64_t>(info.st_dev), static_cast<std::int64_t>(info.st_ino)};
}

}  // namespace gradus
