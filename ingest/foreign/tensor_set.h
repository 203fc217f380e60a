#pragma once
#include <map>
#include <string>
#include <vector>

#include "ingest/foreign/source.h"
#include "ingest/foreign/tensor.h"
#include "ingest/foreign/tensor_rows.h"

namespace greta {

/// The tensors of a file that names them by key, and which of them say what the rows of the others
/// are: input_ids, positions, seq_lens of a forward pass, by these names or behind
/// "forward_batch_info.".
class TensorSet {
 public:
  explicit TensorSet(const ForeignSource& source) : source_(source) {}

  void add(Tensor tensor) { tensors_.push_back(std::move(tensor)); }
  const std::vector<Tensor>& tensors() const { return tensors_; }

  /// True if a tensor says what rows are, and is none itself.
  static bool is_token_list(const Tensor& tensor);
  /// Gives one of these its values, of which `storage` has it.
  void take_token_list(const Tensor& tensor, Bytes& storage);
  /// Behind the last of them: what they say together. Throws ForeignError when they contradict each
  /// other, or when one of a forward pass is no list of integers.
  void map();

  /// Rows of tensor i; what keeps it from being taken is a finding that names it. `meta` as
  /// TensorFacts::more.
  void add_rows(size_t i, Bytes& storage, const std::string& meta = "");
  /// A finding, an error, of a tensor: `why` goes on from its name and shape.
  void report(const Tensor& tensor, const std::string& why);

 private:
  void refuse_lists_of_other_types(bool is_pass) const;

  const ForeignSource& source_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::vector<int64_t>> lists_;
  TokenMap tokens_;
  uint64_t n_tokens_ = 0;
};

/// The array of a .npy. Throws ForeignError for types that are not read: objects (which are
/// pickles), records, complex numbers, big-endian ones.
Tensor read_npy_header(Bytes& bytes, std::string name);

/// Throws ForeignError when a .npy does not end where the values of its array do: numpy.save into
/// one open file twice writes such a file, of which numpy.load shows the first array alone.
void refuse_more_than_one_array(const Tensor& array, Bytes& bytes);

}  // namespace greta
