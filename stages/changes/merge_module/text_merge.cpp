#include "stages/changes/merge_module/text_merge.h"

#include <git2.h>

namespace {

git_merge_file_input inputOf(const GradusText& text) {
    git_merge_file_input input = GIT_MERGE_FILE_INPUT_INIT;
    input.ptr = text.bytes;
    input.size = text.size;
    return input;
}

// Once: it reads every certificate of the machine when it starts, and nothing is gained by stopping it in between.
bool isReady() {
    static const bool ready = git_libgit2_init() >= 0;
    return ready;
}

struct Receiver {
    void (*take)(void* context, const char* bytes, size_t size);
    void* context;
};

int takeHunk(const git_diff_delta* /*delta*/, const git_diff_hunk* hunk, void* payload) {
    const auto* receiver = static_cast<const Receiver*>(payload);
    receiver->take(receiver->context, hunk->header, hunk->header_len);
    return 0;
}

// The marks of a missing newline are whole lines; of the others the first letter says what they are.
int takeLine(const git_diff_delta* /*delta*/, const git_diff_hunk* /*hunk*/, const git_diff_line* line, void* payload) {
    const auto* receiver = static_cast<const Receiver*>(payload);
    const char origin = line->origin;
    if (origin == GIT_DIFF_LINE_CONTEXT || origin == GIT_DIFF_LINE_ADDITION || origin == GIT_DIFF_LINE_DELETION)
        receiver->take(receiver->context, &origin, 1);
    receiver->take(receiver->context, line->content, line->content_len);
    return 0;
}

}  // namespace

__attribute__((visibility("default"))) int gradusDiffText(GradusText before, GradusText after,
                                                          void (*take)(void* context, const char* bytes, size_t size),
                                                          void* context) {
    if (!isReady()) return -1;
    git_diff_options options = GIT_DIFF_OPTIONS_INIT;
    options.flags = GIT_DIFF_FORCE_TEXT;
    Receiver receiver{take, context};
    const int said = git_diff_buffers(before.bytes, before.size, nullptr, after.bytes, after.size, nullptr, &options,
                                      nullptr, nullptr, takeHunk, takeLine, &receiver);
    return said == 0 ? 0 : -1;
}

__attribute__((visibility("default"))) int gradusMergeText(GradusText ancestor, GradusText ours, GradusText theirs,
                                                           void (*take)(void* context, const char* bytes, size_t size),
                                                           void* context) {
    if (!isReady()) return -1;
    const git_merge_file_input base = inputOf(ancestor);
    const git_merge_file_input here = inputOf(ours);
    const git_merge_file_input there = inputOf(theirs);
    git_merge_file_result result = {};
    const bool done = git_merge_file(&result, &base, &here, &there, nullptr) == 0;
    const bool isClean = done && result.automergeable != 0;
    if (isClean) take(context, result.ptr, result.len);
    if (done) git_merge_file_result_free(&result);
    if (!done) return -1;
    return isClean ? 1 : 0;
}
