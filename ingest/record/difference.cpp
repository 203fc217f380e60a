#include <array>
#include <cmath>

#include "ingest/record/shapes.h"
#include "ingest/text.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta::record {
namespace {

enum Part {
  kPrefillHash,
  kDecodeHash,
  kDiffering,
  kFirstAt,
  kLastAt,
  kRelL2,
  kMaxAbs,
  kMaxAbsAt,
  kMaxUlp,
  kHeads,
  kShares,
  kParts
};
constexpr std::array<std::string_view, kParts> kPartNames = {
    "prefill_hash", "decode_hash", "differing", "first_at", "last_at", "rel_l2",
    "max_abs",      "max_abs_at",  "max_ulp",   "heads",    "shares"};

/// Fields that no other line has, each at most once.
class PartReader {
 public:
  explicit PartReader(const Fields& fields) {
    for (const ExtraField& field : fields.extra) {
      size_t part = 0;
      while (part < kParts && kPartNames[part] != field.key) ++part;
      if (part == kParts) {
        fault_ = "a field that a difference does not have: " + std::string(field.key.substr(0, 64));
      } else if (!raw_[part].empty()) {
        fault_ = std::string(kPartNames[part]) + " is written twice";
      } else {
        raw_[part] = field.raw;
      }
    }
  }

  uint64_t hash(Part part) {
    const auto value = text::number<uint64_t>(raw_[part]);
    return value ? *value : refuse(part, uint64_t{0});
  }
  int64_t integer(Part part) {
    const auto value = record::integer(raw_[part]);
    return value ? *value : refuse(part, int64_t{0});
  }
  std::optional<int64_t> optional_integer(Part part) {
    return is_absent(raw_[part]) ? std::nullopt : std::optional(integer(part));
  }
  double real(Part part) { return real_of(part, raw_[part]); }
  std::optional<double> optional_real(Part part) {
    return is_absent(raw_[part]) ? std::nullopt : std::optional(real(part));
  }
  std::vector<double> reals(Part part, size_t most) {
    std::vector<double> values;
    std::string_view rest = raw_[part];
    if (!rest.starts_with('[') || !rest.ends_with(']')) return refuse(part, values);
    rest = rest.substr(1, rest.size() - 2);
    for (size_t end = 0; end != rest.npos; rest.remove_prefix(end == rest.npos ? 0 : end + 1)) {
      if (values.size() == most) return refuse(part, values);
      end = rest.find(',');
      values.push_back(real_of(part, trimmed(rest.substr(0, end))));
    }
    return values;
  }
  /// Why the line is none; "" when it is one so far.
  const std::string& fault() const { return fault_; }

 private:
  double real_of(Part part, std::string_view word) {
    const auto value = record::real(word);
    return value && std::isfinite(*value) ? *value : refuse(part, 0.0);
  }
  template <class T>
  T refuse(Part part, T value) {
    if (fault_.empty()) fault_ = std::string(kPartNames[part]) + " is missing or none";
    return value;
  }

  std::array<std::string_view, kParts> raw_;
  std::string fault_;
};

}  // namespace

void read_difference(LineReader& in) {
  if (!in.fields.has(kPoint) || !in.fields.has(kLayer) || !in.fields.has(kPosId))
    return in.add_finding(true, "difference without point, layer or pos_id");
  PartReader parts(in.fields);
  DifferenceRow row;
  if (!in.key_field(kLayer, -1, kMaxLayer, row.layer)) return;
  if (!in.key_field(kPosId, 0, kMaxPosition, row.pos_id)) return;
  row.n = integer(in.fields.take(kN)).value_or(0);
  row.prefill_hash = parts.hash(kPrefillHash);
  row.decode_hash = parts.hash(kDecodeHash);
  row.differing = parts.integer(kDiffering);
  row.first_at = parts.integer(kFirstAt);
  row.last_at = parts.integer(kLastAt);
  row.rel_l2 = parts.optional_real(kRelL2);
  row.max_abs = parts.real(kMaxAbs);
  row.max_abs_at = parts.optional_integer(kMaxAbsAt);
  row.max_ulp = parts.integer(kMaxUlp);
  row.heads = parts.integer(kHeads);
  row.shares = parts.reals(kShares, kMaxShares);
  if (!parts.fault().empty()) return in.add_finding(true, "a difference with " + parts.fault());
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
