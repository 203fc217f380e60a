#pragma once
#include <string>
#include <string_view>

#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// Where the difference at a failing place comes from.
struct Origin {
  std::string kind;             ///< ORIGIN, PROPAGATED, UNSAMPLED; "" when not known
  std::string segment;          ///< "between x_out of layer 4 and attn_out of layer 8"; ""
  std::string untraced_layers;  ///< whole layers in there that were not traced: "5-7"; ""
  /// "DRIFT DIVERGENT rel_l2=0.21 exact, head 5 only (tolerance 0.0001, shipped)"
  std::string difference;
  std::string measure;   ///< what its distance comes from: exact, sketch, ...; "" without one
  std::string location;  ///< where the rows differ: "head 5 only"; "" when not known

  /// The probe that would tell more, where the origin is UNSAMPLED; else "".
  std::string probe() const;
  /// "ORIGIN: between ...", "UNSAMPLED: between ...; greta-infer probe … tells where", safe to
  /// print; "" when not known.
  std::string text(std::string_view tells = "tells where") const;
};

/// How far two rows are apart, and where: "0.21 exact, head 5 only"; of an estimate "0.21".
std::string distance_text(double rel_l2, std::string_view measure, const std::string& location,
                          std::string_view exact = "exact");

/// "5,6,7" of "5-7"; more than eight layers stay as they are.
std::string listed_layers(const std::string& layers);

/// The command that traces what was not, of the columns segment and untraced_layers of an UNSAMPLED
/// pair, "" standing for NULL.
std::string telling_probe(const std::string& segment, const std::string& untraced_layers);

/// Origin at a place where that verdict of the run fails; none of what only a report states. Needs
/// the run's rows, and costs more than all else about a verdict. Throws SQLite::Exception.
Origin origin_at(QueryPool& statements, int64_t run_id, const FailPlace& place, Gate gate);

}  // namespace greta
