#pragma once

#include <stddef.h>

/// What the module that links libgit2 exports, in C, so that neither side depends on how the other was compiled.
extern "C" {

struct GradusText {
    const char* bytes;
    size_t size;
};

/// Merges three texts. Returns 1 when it went without a conflict, after one call of `take` with the result; 0 when both
/// sides changed the same lines; -1 when it could not be done.
int gradusMergeText(struct GradusText ancestor, struct GradusText ours, struct GradusText theirs,
                    void (*take)(void* context, const char* bytes, size_t size), void* context);

/// Tells how to make one text of another: the hunks of a unified diff, piece by piece. Returns 0, or -1 when it could
/// not be done.
int gradusDiffText(struct GradusText before, struct GradusText after,
                   void (*take)(void* context, const char* bytes, size_t size), void* context);
}
