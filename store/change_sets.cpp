#include "store/change_sets.h"

namespace gradus {

namespace {

constexpr std::uint64_t kMostChangeSet = std::uint64_t{256} << 20;

}  // namespace

ChangeSet readChanges(const Objects& objects, const Digest& object) {
    return ChangeSet::decode(objects.readAll(object, kMostChangeSet));
}

}  // namespace gradus
