#pragma once

#include <span>
#include <string>

#include "engine/forward/fault.h"

namespace greta {

/// Whether the most telling finding about a fault's first failing pair says what the fault does.
/// findings: of the view diagnosis, the most telling first. rounding: the pair differs by rounding
/// only, so that it is right to say so.
bool tells(FaultKind kind, std::span<const std::string> findings, bool rounding);

}  // namespace greta
