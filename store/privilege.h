#pragma once

namespace gradus {

/// Root over the whole machine. Root of a user namespace only can do no more than the user who made that.
bool isMachineRoot();

}  // namespace gradus
