#include "stages/changes/merge_module/text_merge.h"

#include <git2.h>

namespace {

git_merge_file_input inputOf(const GradusText& text) {
    git_merge_file_input input = GIT_MERGE_FILE_INPUT_INIT;
    input.ptr = text.bytes;
    input.size = text.size;
    return input;
}

}  // namespace

__attribute__((visibility("default"))) int gradus_merge_text_1(GradusText ancestor, GradusText ours, GradusText theirs,
                                                               void (*take)(void* context, const char* bytes,
                                                                            size_t size),
                                                               void* context) {
    if (git_libgit2_init() < 0) return -1;
    const git_merge_file_input base = inputOf(ancestor);
    const git_merge_file_input here = inputOf(ours);
    const git_merge_file_input there = inputOf(theirs);
    git_merge_file_result result = {};
    const bool done = git_merge_file(&result, &base, &here, &there, nullptr) == 0;
    const bool isClean = done && result.automergeable != 0;
    if (isClean) take(context, result.ptr, result.len);
    if (done) git_merge_file_result_free(&result);
    git_libgit2_shutdown();
    if (!done) return -1;
    return isClean ? 1 : 0;
}
