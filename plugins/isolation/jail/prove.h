#pragma once

namespace gradus {

/// `gradus-jail --prove WHAT [ARGUMENT]`: run inside a sandbox by the probe. Tries to break one guarantee and prints
/// what it saw; 0 if every attempt was refused, 1 if one got through, 2 for a question it does not know.
int prove(const char* what, const char* argument);

}  // namespace gradus
