#pragma once

#include "kernels/fingerprint/fingerprint.h"

namespace greta {

/// What of a fingerprint that somebody states contradicts itself, so that no values have it: "nan
/// and inf are more than n". Null when nothing does; an accident may still have made it. One of no
/// values has the hash 0.
const char* fault_of(const Fingerprint& stated);

}  // namespace greta
