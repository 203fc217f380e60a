#include "ingest/foreign/tensor_rows.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "common/json_text.h"
#include "common/stop_signal.h"
#include "ingest/foreign/error.h"
#include "ingest/foreign/row_by_row.h"

namespace greta {
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
