#pragma once

#include "pipeline/demo/player.h"
#include "store/model/clock.h"

namespace gradus {

/// Shows what the program can do, on a throw-away project, and throws Error if any of it turns out not to be so.
void playDemo(Player& player, const Clock& clock, Random& random);

}  // namespace gradus
