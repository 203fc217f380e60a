#include <algorithm>
#include <cmath>

#include "ingest/record/shapes.h"
#include "ingest/text.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta::record {
namespace {

/// Takes fields that no other line has, each at most once.
class PartReader {
 public:
  explicit PartReader(std::vector<ExtraField>& fields) : fields_(fields) {}

  uint64_t hash(std::string_view name) {
    return value(name, text::number<uint64_t>(take(name))).value_or(0);
  }
  int64_t integer(std::string_view name) { return optional_integer(name, false).value_or(0); }
  std::optional<int64_t> optional_integer(std::string_view name, bool may_lack = true) {
    const std::string_view raw = take(name);
    if (may_lack && is_absent(raw)) return std::nullopt;
    return value(name, record::integer(raw));
  }
  double real(std::string_view name) { return optional_real(name, false).value_or(0); }
  std::optional<double> optional_real(std::string_view name, bool may_lack = true) {
    const std::string_view raw = take(name);
    if (may_lack && is_absent(raw)) return std::nullopt;
    const auto number = record::real(raw);
    return value(name, number && std::isfinite(*number) ? number : std::nullopt);
  }
  std::vector<double> reals(std::string_view name, size_t most) {
    std::vector<double> values;
    const bool is_read =
        numbers(take(name), name, values).empty() && !values.empty() && values.size() <= most &&
        std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
    value(name, is_read ? std::optional(true) : std::nullopt);
    return values;
  }
  /// Why the line is none; "" when it is one so far.
  std::string fault() const {
    if (!fault_.empty() || fields_.empty()) return fault_;
    return "a field too many: " + std::string(fields_[0].key.substr(0, 64));
  }

 private:
  std::string_view take(std::string_view name) {
    const auto field = std::find_if(fields_.begin(), fields_.end(),
                                    [&](const ExtraField& one) { return one.key == name; });
    if (field == fields_.end()) return {};
    const std::string_view raw = field->raw;
    fields_.erase(field);
    return raw;
  }
  template <class T>
  std::optional<T> value(std::string_view name, const std::optional<T>& read) {
    if (!read && fault_.empty()) fault_ = std::string(name) + " is missing or none";
    return read;
  }

  std::vector<ExtraField>& fields_;
  std::string fault_;
};

}  // namespace

void read_difference(LineReader& in) {
  if (!in.fields.has(kPoint) || !in.fields.has(kLayer) || !in.fields.has(kPosId))
    return in.add_finding(true, "difference without point, layer or pos_id");
  PartReader parts(in.fields.extra);
  DifferenceRow row;
  if (!in.key_field(kLayer, -1, kMaxLayer, row.layer)) return;
  if (!in.key_field(kPosId, 0, kMaxPosition, row.pos_id)) return;
  row.n = integer(in.fields.take(kN)).value_or(0);
  row.prefill_hash = parts.hash("prefill_hash");
  row.decode_hash = parts.hash("decode_hash");
  row.differing = parts.integer("differing");
  row.first_at = parts.integer("first_at");
  row.last_at = parts.integer("last_at");
  row.rel_l2 = parts.optional_real("rel_l2");
  row.max_abs = parts.real("max_abs");
  row.max_abs_at = parts.optional_integer("max_abs_at");
  row.max_ulp = parts.integer("max_ulp");
  row.heads = parts.integer("heads");
  row.shares = parts.reals("shares", kMaxShares);
  if (const std::string fault = parts.fault(); !fault.empty())
    return in.add_finding(true, "a difference with " + fault);
  if (row.n > static_cast<int64_t>(kMaxFingerprintValues))
    return in.add_finding(true, "a difference of more values than a row can have");
  if (const std::string why = fault_of(row); !why.empty())
    return in.add_finding(true, "a difference that " + why);
  row.prompt_id = in.line_prompt();
  row.tensor_id = in.name(unquoted(in.fields.take(kPoint)));
  in.set_shape("stage_trace");
  in.batch->differences.push_back({in.line_no, std::move(row)});
}

}  // namespace greta::record
