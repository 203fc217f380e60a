#include "engine/session/model_root.h"

#include <algorithm>
#include <bit>

#include "common/hex.h"

namespace greta {
namespace {

/// Whether results follow from it. What is not known does, for all that anybody can tell; templates
/// of chats do not, which only write prompts.
bool decides_results(std::string_view key, const std::string& architecture) {
  if (key == "tokenizer.chat_template" || key.starts_with("tokenizer.chat_template.")) return false;
  return key == "general.architecture" || key.starts_with(architecture + ".") ||
         key.starts_with("tokenizer.");
}

void put(std::string& to, uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(number >> (8 * i));
}

void put_text(std::string& to, std::string_view text) {
  put(to, text.size(), 8);
  to += text;
}

void put_digest(std::string& to, const Sha256::Digest& digest) {
  to.append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put_value(std::string& to, const GgufValue& value) {
  put(to, value.index(), 1);
  struct Visitor {
    std::string& to;
    void operator()(uint64_t v) const { put(to, v, 8); }
    void operator()(int64_t v) const { put(to, static_cast<uint64_t>(v), 8); }
    void operator()(double v) const { put(to, std::bit_cast<uint64_t>(v), 8); }
    void operator()(bool v) const { put(to, v ? 1 : 0, 1); }
    void operator()(std::string_view v) const { put_text(to, v); }
    void operator()(const GgufArray& v) const {
      put(to, v.element_type, 4);
      put(to, v.count, 8);
      to += text_of(v.data);
      for (const std::string_view one : v.strings) put_text(to, one);
    }
  };
  std::visit(Visitor{to}, value);
}

}  // namespace

ModelRoot::ModelRoot(const GgufFile& file) {
  const std::string architecture(file.string_value("general.architecture", ""));
  for (const auto& [key, value] : file.metadata()) {
    if (decides_results(key, architecture)) values_.push_back({key, &value, {}});
  }
  std::sort(values_.begin(), values_.end(),
            [](const Value& a, const Value& b) { return a.key < b.key; });
  // Pieces in the order of the file, which is how it is read.
  std::vector<const GgufTensor*> in_file;
  for (const GgufTensor& tensor : file.tensors()) in_file.push_back(&tensor);
  std::sort(in_file.begin(), in_file.end(),
            [](const auto* a, const auto* b) { return a->data.data() < b->data.data(); });
  for (const GgufTensor* tensor : in_file) {
    tensors_.push_back({tensor, pieces_.size()});
    for (size_t at = 0; at < tensor->data.size(); at += kPieceBytes) {
      pieces_.push_back(
          {tensor->data.subspan(at, std::min(kPieceBytes, tensor->data.size() - at)), {}});
    }
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const Tensor& a, const Tensor& b) { return a.tensor->name < b.tensor->name; });
}

size_t ModelRoot::bytes_of(size_t piece) const {
  return piece < values_.size() ? 0 : pieces_[piece - values_.size()].data.size();
}

void ModelRoot::hash(size_t piece) {
  if (piece >= values_.size()) {
    Piece& one = pieces_[piece - values_.size()];
    one.digest = Sha256::digest_of(text_of(one.data));
    return;
  }
  Value& one = values_[piece];
  std::string text = "greta model 1 value";
  put_text(text, one.key);
  put_value(text, *one.value);
  one.digest = Sha256::digest_of(text);
}

std::string ModelRoot::hex() const {
  std::string all = "greta model 1";
  put(all, values_.size(), 8);
  for (const Value& value : values_) put_digest(all, value.digest);
  put(all, tensors_.size(), 8);
  for (const Tensor& tensor : tensors_) {
    std::string text = "greta model 1 tensor";
    put_text(text, tensor.tensor->name);
    put(text, static_cast<uint64_t>(tensor.tensor->type), 4);
    for (const int64_t dim : tensor.tensor->dims) put(text, static_cast<uint64_t>(dim), 8);
    const size_t n_bytes = tensor.tensor->data.size();
    put(text, n_bytes, 8);
    for (size_t i = 0; i * kPieceBytes < n_bytes; ++i) {
      put_digest(text, pieces_[tensor.first_piece + i].digest);
    }
    put_digest(all, Sha256::digest_of(text));
  }
  return Sha256::hex_of(all);
}

}  // namespace greta
