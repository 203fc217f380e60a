#pragma once
#include "ingest/record/line.h"

namespace greta::record {

/// Whether a field that no column has, by its name, counts or reports values that are not finite,
/// and does not say that there are none: "nan_count", "hasInf", "NaN". As keys are spelled, so in
/// objects.
bool hints_at_nonfinite(const Fields& fields);

}  // namespace greta::record
