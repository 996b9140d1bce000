#pragma once

#include "policies/language/keys.h"

namespace gradus {

// Keys about how long what was applied is looked at.

/// Of a stage.
KeyRow soakRow();
KeyRow monitorRow();
KeyRow monitorChecksRow();

/// Of a policy: the least that a stage may say, and how much may be missed.
KeyRow leastSoakRow();
KeyRow leastMonitorRow();
KeyRow gapLimitRow();

/// Of a policy: how many promotions of a stage there may be at one time, and how long one waits.
KeyRow queueRow();
KeyRow waitLimitRow();

}  // namespace gradus
