#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/sha256.h"
#include "engine/gguf/file.h"

namespace greta {

/// The identity of a model: SHA-256 in a tree over what decides its results, so that many threads
/// can work on it. docs/fingerprint.md defines it. Two files have one root when their tensors
/// (name, type, shape, every stored byte) and their metadata of llama.* and tokenizer.* are the
/// same, whatever order and alignment they have them in, and whatever else they say.
///
/// Different hash() calls may run on different threads. The file must outlive it.
class ModelRoot {
 public:
  /// Bytes of a tensor that are hashed at once; the last piece may be shorter.
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  explicit ModelRoot(const GgufFile& file);

  size_t n_pieces() const { return values_.size() + pieces_.size(); }
  size_t bytes_of(size_t piece) const;  ///< of the file; 0 for a value of its metadata
  void hash(size_t piece);              ///< any order, once each

  /// The root, when all pieces are hashed: 64 lower-case hex digits.
  std::string hex() const;

 private:
  struct Value {
    std::string_view key;
    const GgufValue* value;
    Sha256::Digest digest;
  };
  struct Tensor {
    const GgufTensor* tensor;
    size_t first_piece;
  };
  struct Piece {
    std::span<const std::byte> data;
    Sha256::Digest digest;
  };

  std::vector<Value> values_;    ///< by key
  std::vector<Tensor> tensors_;  ///< by name
  std::vector<Piece> pieces_;
};

}  // namespace greta
