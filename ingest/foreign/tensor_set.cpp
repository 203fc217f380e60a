#include "ingest/foreign/tensor_set.h"

#include <string_view>

#include "common/utf8.h"
#include "ingest/foreign/bytes.h"

namespace greta {
namespace {

/// "positions" of model.forward_batch_info.positions; "" of what is no such list.
std::string_view list_name(std::string_view name) {
  constexpr std::string_view kBehind = "forward_batch_info.";
  const size_t at = name.rfind(kBehind);
  if (at != name.npos) name.remove_prefix(at + kBehind.size());
  for (std::string_view known : {"input_ids", "positions", "seq_lens"}) {
    if (name == known) return known;
  }
  return {};
}

}  // namespace

bool TensorSet::is_token_list(const Tensor& tensor) {
  return is_integer(tensor.dtype) && tensor.dtype != Dtype::kBool && tensor.shape.size() <= 1 &&
         !list_name(tensor.name).empty();
}

void TensorSet::take_token_list(const Tensor& tensor, Bytes& storage) {
  try {
    lists_[std::string(list_name(tensor.name))] = integers_of(tensor, storage);
  } catch (const ForeignError& error) {
    throw ForeignError("tensor " + utf8::printable(tensor.name.substr(0, 200)) + " " +
                       error.what());
  }
}

void TensorSet::map() {
  const auto found = lists_.find("positions");
  refuse_lists_of_other_types(found != lists_.end());
  if (found == lists_.end()) return;
  for (const auto& [name, values] : lists_) {
    if (values.empty() && !found->second.empty()) {
      throw ForeignError("it has positions, and " + name + " of none of them");
    }
  }
  const int64_t rank = source_.path.rank.value_or(0);
  const std::string first = rank == 0 ? "" : "rank" + std::to_string(rank) + "/";
  n_tokens_ = found->second.size();
  tokens_ = map_tokens(found->second, lists_["input_ids"], lists_["seq_lens"], first);
}

/// In a forward pass, what is called like a list that says what rows are is one: its rows would
/// have other tokens, or none, else. Elsewhere it is a tensor like any other.
void TensorSet::refuse_lists_of_other_types(bool is_pass) const {
  for (const Tensor& tensor : tensors_) {
    if (list_name(tensor.name).empty() || is_token_list(tensor)) continue;
    if (!is_pass && !source_.path.is_pass && list_name(tensor.name) == tensor.name) continue;
    throw ForeignError("tensor " + utf8::printable(tensor.name.substr(0, 200)) + " is " +
                       std::string(name_of(tensor.dtype)) + " " + text_of(tensor.shape) +
                       ", where a forward pass has a list of integers");
  }
}

void TensorSet::add_rows(size_t i, Bytes& storage, const std::string& meta) {
  const Tensor& tensor = tensors_[i];
  TensorFacts facts;
  facts.place = source_.rows.rules().place_of(tensor.name);
  if (source_.path.layer && facts.place.layer < 0) facts.place.layer = *source_.path.layer;
  facts.prompt = source_.path.rank_name();
  facts.step = source_.path.step.value_or(kUnknownStep);
  facts.line = static_cast<int64_t>(i) + 1;
  facts.more = meta;
  if (n_tokens_ > 0) facts.tokens = &tokens_, facts.n_tokens = n_tokens_;
  try {
    add_tensor(tensor, storage, facts, source_.rows);
  } catch (const ForeignError& error) {
    report(tensor, error.what());
  }
}

void TensorSet::report(const Tensor& tensor, const std::string& why) {
  constexpr size_t kMaxShown = 200;
  source_.rows.find(0, true,
                    "tensor " + utf8::printable(tensor.name.substr(0, kMaxShown)) + " " +
                        text_of(tensor.shape) + " " + why,
                    tensor.name);
}

}  // namespace greta
