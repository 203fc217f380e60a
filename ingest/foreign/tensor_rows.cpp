#include "ingest/foreign/tensor_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/json_text.h"
#include "common/stop_signal.h"
#include "db/trace_row.h"
#include "ingest/foreign/bytes.h"

namespace greta {

/// The values of a tensor that is not contiguous, as stored, row by row and without gaps: of any
/// size, some 48 MiB of which are in memory. Reads forward are cheap.
class RowByRowBytes : public Bytes {
 public:
  /// Borrows both; `storage` holds the tensor. Throws ForeignError for a tensor that reaches beyond
  /// it, and for one that shows its values so often that they are more than 32 MiB and than the
  /// storage.
  RowByRowBytes(const Tensor& tensor, Bytes& storage);

  uint64_t size() const override { return count_ * value_bytes_; }
  void read(uint64_t offset, char* to, size_t count) override;
  /// True if reading it forward reads the storage forward.
  bool is_forward() const;

 private:
  struct Axis {
    uint64_t size, stride;  ///< in values, of the storage
    uint64_t step;          ///< in values, of the block
  };

  void load(uint64_t first);
  void copy(const Axis* axis, size_t n, uint64_t place, uint64_t at);
  void copy_window(const Axis* axis, size_t n, uint64_t place, uint64_t at, uint64_t values);
  void pick(const Axis* axis, size_t n, const char* from, uint64_t at);

  const Tensor& tensor_;
  Bytes& storage_;
  uint64_t value_bytes_, count_;
  bool is_whole_ = true;        // one block holds all of it
  size_t split_ = 0;            // else the axis that a block has a part of: all behind it are whole
  uint64_t behind_split_ = 1;   // values of all axes behind it
  uint64_t block_rows_ = 1;     // of that axis, in a block
  uint64_t block_first_ = 0;    // index of the first value in block_
  std::string block_, window_;  // block_ row by row
};

namespace {

constexpr uint64_t kBlockBytes = uint64_t{32} << 20;
constexpr uint64_t kWindowBytes = uint64_t{16} << 20;
constexpr uint64_t kMostRepeated = uint64_t{32} << 20;

}  // namespace

RowByRowBytes::RowByRowBytes(const Tensor& tensor, Bytes& storage)
    : tensor_(tensor),
      storage_(storage),
      value_bytes_(bytes_of(tensor.dtype)),
      count_(count_of(tensor.shape)) {
  if (end_of(tensor) > storage.size()) throw ForeignError("reaches beyond its storage");
  // A stride of 0 repeats values: many of them from few bytes.
  if (count_ > std::max(kMostRepeated, storage.size()) / value_bytes_) {
    throw ForeignError("is not contiguous, and larger than 32 MiB and than what it lies in");
  }
  const uint64_t most = kBlockBytes / value_bytes_;
  split_ = tensor.shape.size();
  while (split_ > 0 && behind_split_ <= most / std::max<uint64_t>(tensor.shape[split_ - 1], 1)) {
    behind_split_ *= std::max<uint64_t>(tensor.shape[--split_], 1);
  }
  if (split_ == 0) return;  // one block holds it all
  is_whole_ = false;
  --split_;
  block_rows_ = std::max<uint64_t>(1, most / behind_split_);
}

bool RowByRowBytes::is_forward() const {
  uint64_t before = UINT64_MAX;
  for (size_t i = 0; i < tensor_.shape.size(); ++i) {
    if (tensor_.shape[i] == 1) continue;
    if (tensor_.stride[i] > before) return false;
    before = tensor_.stride[i];
  }
  return true;
}

void RowByRowBytes::read(uint64_t offset, char* to, size_t count) {
  if (offset > size() || count > size() - offset) {
    throw ForeignError("is read beyond its end");
  }
  while (count > 0) {
    const uint64_t begin = block_first_ * value_bytes_;
    if (block_.empty() || offset < begin || offset >= begin + block_.size()) {
      load(offset / value_bytes_);
      continue;
    }
    const uint64_t skipped = offset - begin;
    const size_t now = static_cast<size_t>(std::min<uint64_t>(count, block_.size() - skipped));
    std::memcpy(to, block_.data() + skipped, now);
    to += now;
    offset += now;
    count -= now;
  }
}

/// Fills the block with the values around index `first`.
void RowByRowBytes::load(uint64_t first) {
  throw_if_stopped();
  // The axes before the split stand at one index each, that of the split at some, others at all.
  std::vector<Axis> axes;
  uint64_t place = 0, step = 1;
  for (size_t i = tensor_.shape.size(); i-- > (is_whole_ ? 0 : split_ + 1);) {
    axes.push_back({tensor_.shape[i], tensor_.stride[i], step});
    step *= tensor_.shape[i];
  }
  uint64_t index = first / behind_split_, rows = 1;
  block_first_ = 0;
  if (!is_whole_) {
    uint64_t at = index % tensor_.shape[split_];
    at -= at % block_rows_;
    rows = std::min(block_rows_, tensor_.shape[split_] - at);
    axes.push_back({rows, tensor_.stride[split_], behind_split_});
    block_first_ = (index - index % tensor_.shape[split_] + at) * behind_split_;
    place += at * tensor_.stride[split_];
    index /= tensor_.shape[split_];
    for (size_t i = split_; i-- > 0;) {
      place += index % tensor_.shape[i] * tensor_.stride[i];
      index /= tensor_.shape[i];
    }
  }
  block_.resize(static_cast<size_t>(rows * behind_split_ * value_bytes_));
  // Outermost what lies farthest apart, so that what is read at once is as much as can be.
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  copy(axes.data(), axes.size(), place, 0);
}

/// Copies the values of `n` axes that begin at `place` of the storage to `at` of the block.
void RowByRowBytes::copy(const Axis* axis, size_t n, uint64_t place, uint64_t at) {
  const uint64_t most = kWindowBytes / value_bytes_;
  uint64_t values = 1;
  for (size_t i = 0; i < n; ++i) values += (axis[i].size - 1) * axis[i].stride;
  if (values <= most) return copy_window(axis, n, place, at, values);
  // As many of the outermost axis as one window holds with all that is behind it; else one by one.
  uint64_t behind = 1;
  for (size_t i = 1; i < n; ++i) behind += (axis[i].size - 1) * axis[i].stride;
  const uint64_t room = behind > most ? 0 : (most - behind) / std::max<uint64_t>(axis[0].stride, 1);
  for (uint64_t i = 0; i < axis[0].size;) {
    const uint64_t now = std::min(room + 1, axis[0].size - i);
    const uint64_t from = place + i * axis[0].stride, to = at + i * axis[0].step;
    if (behind > most) {
      copy(axis + 1, n - 1, from, to);
    } else {
      std::vector<Axis> some(axis, axis + n);
      some[0].size = now;
      copy_window(some.data(), n, from, to, behind + (now - 1) * axis[0].stride);
    }
    i += now;
  }
}

void RowByRowBytes::copy_window(const Axis* axis, size_t n, uint64_t place, uint64_t at,
                                uint64_t values) {
  window_.resize(static_cast<size_t>(values * value_bytes_));
  storage_.read(tensor_.offset + place * value_bytes_, window_.data(), window_.size());
  pick(axis, n, window_.data(), at);
}

void RowByRowBytes::pick(const Axis* axis, size_t n, const char* from, uint64_t at) {
  if (n == 0) {
    std::memcpy(block_.data() + at * value_bytes_, from, value_bytes_);
    return;
  }
  const size_t stride = static_cast<size_t>(axis->stride * value_bytes_);
  if (n == 1 && axis->stride == 1 && axis->step == 1) {
    std::memcpy(block_.data() + at * value_bytes_, from, axis->size * value_bytes_);
    return;
  }
  for (uint64_t i = 0; i < axis->size; ++i) {
    pick(axis + 1, n - 1, from + i * stride, at + i * axis->step);
  }
}

namespace {

/// Where the sequence that begins at `from` ends, exclusively.
size_t end_of_sequence(const std::vector<int64_t>& positions, size_t from, int64_t length) {
  for (size_t i = from; i < positions.size(); ++i) {
    if (i > from && positions[i] != positions[i - 1] + 1) break;
    if (positions[i] == length - 1) return i + 1;
  }
  throw ForeignError("positions and lengths of its sequences contradict each other");
}

}  // namespace

TokenMap map_tokens(const std::vector<int64_t>& positions, const std::vector<int64_t>& token_ids,
                    const std::vector<int64_t>& lengths, const std::string& first) {
  if (!token_ids.empty() && token_ids.size() != positions.size()) {
    throw ForeignError("it has " + std::to_string(token_ids.size()) + " token ids and " +
                       std::to_string(positions.size()) + " positions");
  }
  TokenMap map;
  const size_t sequences = lengths.empty() ? 1 : lengths.size();
  size_t from = 0;
  for (size_t s = 0; s < sequences; ++s) {
    const size_t end =
        lengths.empty() ? positions.size() : end_of_sequence(positions, from, lengths[s]);
    for (size_t i = from; i < end; ++i) {
      if (positions[i] < 0 || positions[i] > kMaxPosition) {
        throw ForeignError("position " + std::to_string(positions[i]) +
                           " is beyond what a row can have");
      }
      TokenMap::Token token{
          first + "seq" + std::to_string(s), end - from == 1 && positions[i] > 0, positions[i], {}};
      if (!token_ids.empty()) token.token_id = token_ids[i];
      map.tokens.push_back(std::move(token));
    }
    if (end > from) map.last.push_back(end - 1);
    from = end;
  }
  // Padding of a captured graph's batch is of no sequence.
  return map;
}

namespace {

constexpr uint64_t kMostTokens = uint64_t{1} << 21;
constexpr size_t kPieceValues = 16 * PieceFingerprint::kPieceValues;

/// Values of a tensor, in order, as f32.
class Values {
 public:
  Values(const Tensor& tensor, Bytes& storage) : tensor_(tensor), storage_(storage) {}

  void read(uint64_t first, std::span<float> to) {
    const size_t bytes = bytes_of(tensor_.dtype);
    raw_.resize(to.size() * bytes);
    storage_.read(tensor_.offset + first * bytes, raw_.data(), raw_.size());
    size_t at = 0;
    if (to_floats(tensor_.dtype, raw_.data(), to, &at)) {
      if (tensor_.is_negated) std::transform(to.begin(), to.end(), to.begin(), std::negate<>());
      return;
    }
    throw ForeignError("has " + std::string(name_of(tensor_.dtype)) +
                       " values that no float32 equals, the first at " +
                       std::to_string(first + at) + ": save it as float32, on purpose");
  }

 private:
  const Tensor& tensor_;
  Bytes& storage_;
  std::vector<char> raw_;
};

Fingerprint fingerprint_of(Values& values, uint64_t first, uint64_t count) {
  // A row of a token is read once: what a ZIP holds is costly to read again.
  const bool is_at_once = count <= kMaxTokenValues;
  std::vector<float> piece(static_cast<size_t>(is_at_once ? count : kPieceValues));
  if (is_at_once) {
    values.read(first, piece);
    return fingerprint(piece);
  }
  PieceFingerprint print;
  const auto for_pieces = [&](const auto& use) {
    for (uint64_t at = 0; at < count; at += piece.size()) {
      throw_if_stopped();
      const std::span<float> now(piece.data(),
                                 static_cast<size_t>(std::min<uint64_t>(count - at, kPieceValues)));
      values.read(first + at, now);
      use(now);
    }
  };
  for_pieces([&](std::span<const float> now) { print.scan(now); });
  for_pieces([&](std::span<const float> now) { print.add(now); });
  return print.finish();
}

/// Which rows of a tensor are of tokens.
struct TokenRows {
  uint64_t n_rows = 0;         ///< that its shape says it has; 0: it has no such rows
  std::vector<size_t> tokens;  ///< of the pass, by index, that its first rows belong to
};

TokenRows token_rows_of(const Tensor& tensor, const TensorFacts& facts) {
  if (!facts.tokens || tensor.shape.empty()) return {};
  const auto counts = [&](uint64_t n) {
    return tensor.shape[0] == n ||
           (tensor.shape.size() > 1 && tensor.shape[0] == 1 && tensor.shape[1] == n);
  };
  if (counts(facts.n_tokens)) {
    TokenRows rows{facts.n_tokens, std::vector<size_t>(facts.tokens->tokens.size())};
    std::iota(rows.tokens.begin(), rows.tokens.end(), size_t{0});
    return rows;
  }
  const uint64_t n_sequences = facts.tokens->last.size();
  return counts(n_sequences) ? TokenRows{n_sequences, facts.tokens->last} : TokenRows{};
}

std::string extra_of(const Tensor& tensor, const TensorFacts& facts) {
  JsonObject extra;
  extra.add("name", tensor.name).add("dtype", name_of(tensor.dtype));
  extra.raw("shape", text_of(tensor.shape));
  if (!facts.more.empty()) extra.raw("meta", facts.more);
  return extra.str();
}

void add_token_rows(const std::vector<size_t>& tokens, uint64_t values_of_row, Values& values,
                    const TensorFacts& facts, ForeignRows& rows) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const TokenMap::Token& token = facts.tokens->tokens[tokens[i]];
    const Fingerprint print = fingerprint_of(values, i * values_of_row, values_of_row);
    TraceRow& row =
        rows.add(token.prompt, token.is_decode ? "decode" : "prefill", facts.step, token.pos_id);
    row.token_id = token.token_id;
    rows.set(row, print);
  }
}

void add_rows(const Tensor& tensor, Bytes& storage, const TensorFacts& facts, ForeignRows& rows) {
  const uint64_t count = count_of(tensor.shape);
  if (count > kMaxFingerprintValues) {
    throw ForeignError("has " + std::to_string(count) + " values, more than a row can (2^31)");
  }
  Values values(tensor, storage);
  const TokenRows of_tokens = token_rows_of(tensor, facts);
  rows.note_dtype(name_of(tensor.dtype), is_integer(tensor.dtype) ? 0 : count);
  if (of_tokens.n_rows > 0 && count > 0 && count / of_tokens.n_rows <= kMaxTokenValues) {
    rows.begin(facts.place, facts.line, extra_of(tensor, facts));
    return add_token_rows(of_tokens.tokens, count / of_tokens.n_rows, values, facts, rows);
  }
  const Fingerprint print = count == 0 ? Fingerprint{} : fingerprint_of(values, 0, count);
  rows.begin(facts.place, facts.line, extra_of(tensor, facts));
  rows.set(rows.add_whole(facts.prompt, "forward", facts.step), print);
}

}  // namespace

void add_tensor(const Tensor& tensor, Bytes& storage, const TensorFacts& facts, ForeignRows& rows) {
  if (end_of(tensor) > storage.size()) {
    throw ForeignError("reaches to byte " + std::to_string(end_of(tensor)) + " of its " +
                       std::to_string(storage.size()));
  }
  if (is_contiguous(tensor)) return add_rows(tensor, storage, facts, rows);
  RowByRowBytes own(tensor, storage);
  if (storage.is_forward_only() && !own.is_forward()) {
    throw ForeignError("is turned, and lies in a member of more than 32 MiB of a ZIP");
  }
  Tensor row_by_row = tensor;
  row_by_row.offset = 0;
  row_by_row.stride.clear();
  add_rows(row_by_row, own, facts, rows);
}

std::vector<int64_t> integers_of(const Tensor& tensor, Bytes& storage) {
  const uint64_t count = count_of(tensor.shape);
  if (!is_integer(tensor.dtype) || count > kMostTokens || !is_contiguous(tensor)) {
    throw ForeignError("is no list of integers");
  }
  if (end_of(tensor) > storage.size()) throw ForeignError("reaches beyond its storage");
  const std::string bytes =
      storage.text(tensor.offset, static_cast<size_t>(count) * bytes_of(tensor.dtype));
  std::vector<int64_t> values;
  for (size_t i = 0; i < count; ++i) {
    const auto value = integer_at(tensor.dtype, bytes.data(), i);
    if (!value) throw ForeignError("has an integer beyond 64 bits");
    values.push_back(*value);
  }
  return values;
}

}  // namespace greta
