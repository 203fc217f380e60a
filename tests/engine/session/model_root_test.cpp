#include "engine/session/model_root.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/gguf/bytes.h"

namespace greta {
namespace {

constexpr uint32_t kU32Value = 4, kF32Value = 6, kTextValue = 8, kU64Value = 10;
constexpr uint32_t kF32Tensor = 0, kF16Tensor = 1;

struct TensorSpec {
  std::string name;
  std::vector<uint64_t> dims;
  uint32_t type;
  std::string data;
};

/// A file as a test varies it: a real head, nothing that the tree does not read.
struct Spec {
  uint64_t alignment = 32;
  std::vector<std::function<void(GgufBytes&)>> entries;
  std::vector<TensorSpec> tensors;

  std::string bytes() const {
    GgufBytes file(tensors.size(), entries.size() + 1);
    file.entry<uint32_t>("general.alignment", kU32Value, static_cast<uint32_t>(alignment));
    for (const auto& entry : entries) entry(file);
    uint64_t offset = 0;
    for (const TensorSpec& tensor : tensors) {
      file.string(tensor.name).put(static_cast<uint32_t>(tensor.dims.size()));
      for (const uint64_t dim : tensor.dims) file.put(dim);
      file.put(tensor.type).put(offset);
      offset += (tensor.data.size() + alignment - 1) / alignment * alignment;
    }
    for (const TensorSpec& tensor : tensors) file.pad(alignment).text(tensor.data);
    return file.str();
  }
};

std::string bytes_of_seed(size_t n, int seed) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += static_cast<char>((i * 31 + i / 251 + seed) & 0xff);
  return text;
}

std::function<void(GgufBytes&)> text_entry(const std::string& key, const std::string& value) {
  return [=](GgufBytes& file) { file.key(key, kTextValue).string(value); };
}

Spec usual_spec() {
  return {.alignment = 32,
          .entries = {
              text_entry("general.architecture", "llama"), text_entry("general.name", "a model"),
              [](GgufBytes& f) { f.entry<uint32_t>("llama.block_count", kU32Value, 2); },
              [](GgufBytes& f) { f.entry<float>("llama.rope.freq_base", kF32Value, 10000.f); },
              [](GgufBytes& f) {
                f.array<float>("tokenizer.ggml.scores", kF32Value, {0.5f, 1.f});
              },
              text_entry("tokenizer.chat_template", "{{ hello }}")},
          .tensors = {{"b", {4, 2}, kF32Tensor, bytes_of_seed(32, 1)},
                      {"a", {300'000, 2}, kF16Tensor, bytes_of_seed(1'200'000, 2)},  // two pieces
                      {"c", {4, 2}, kF32Tensor, bytes_of_seed(32, 3)}}};
}

std::string root_of(const Spec& spec) {
  const std::string bytes = spec.bytes();
  const GgufFile file = GgufFile::parse(std::as_bytes(std::span(bytes)), "test");
  ModelRoot root(file);
  for (size_t i = root.n_pieces(); i-- > 0;) root.hash(i);
  return root.hex();
}

TEST(ModelRoot, ChangesWithEveryByteOfEveryTensor) {
  const std::string root = root_of(usual_spec());
  EXPECT_EQ(root.size(), 64u);
  const Spec spec = usual_spec();
  for (size_t t = 0; t < spec.tensors.size(); ++t) {
    const size_t size = spec.tensors[t].data.size();
    const size_t step = std::max<size_t>(1, size / 16);
    for (size_t at = 0; at < size; at = at + step < size || at == size - 1 ? at + step : size - 1) {
      Spec changed = spec;
      changed.tensors[t].data[at] ^= 1;
      EXPECT_NE(root_of(changed), root) << t << " " << at;
    }
  }
}

TEST(ModelRoot, ChangesWithWhatATensorIs) {
  const std::string root = root_of(usual_spec());
  const auto changed = [&](const std::function<void(Spec&)>& change) {
    Spec spec = usual_spec();
    change(spec);
    return root_of(spec);
  };
  EXPECT_NE(changed([](Spec& s) { s.tensors[0].name = "d"; }), root);
  EXPECT_NE(changed([](Spec& s) { s.tensors[0].dims = {2, 4}; }), root);
  EXPECT_NE(changed([](Spec& s) { s.tensors[0].dims = {16}, s.tensors[0].type = kF16Tensor; }),
            root);
  EXPECT_NE(changed([](Spec& s) { std::swap(s.tensors[0].data, s.tensors[2].data); }), root);
  EXPECT_NE(changed([](Spec& s) { s.tensors.pop_back(); }), root);
}

TEST(ModelRoot, ChangesWithMetadataThatDecidesResults) {
  const std::string root = root_of(usual_spec());
  const auto with = [](std::function<void(GgufBytes&)> entry, size_t in_place_of) {
    Spec spec = usual_spec();
    if (in_place_of < spec.entries.size()) spec.entries.erase(spec.entries.begin() + in_place_of);
    spec.entries.push_back(std::move(entry));
    return root_of(spec);
  };
  EXPECT_NE(with(text_entry("general.architecture", "other"), 0), root);
  EXPECT_NE(with([](GgufBytes& f) { f.entry<uint32_t>("llama.block_count", kU32Value, 3); }, 2),
            root);
  EXPECT_NE(with([](GgufBytes& f) { f.entry<float>("llama.rope.freq_base", kF32Value, 5e5f); }, 3),
            root);
  EXPECT_NE(with(
                [](GgufBytes& f) {
                  f.array<float>("tokenizer.ggml.scores", kF32Value, {1.f, .5f});
                },
                4),
            root);
  EXPECT_NE(with(text_entry("llama.nobody_knows", "x"), 99), root) << "unknown keys may matter";
  EXPECT_NE(with(text_entry("tokenizer.ggml.pre", "x"), 99), root);
}

TEST(ModelRoot, IsTheSameWhereverTheFileHasThingsAndWhateverElseItSays) {
  const std::string root = root_of(usual_spec());
  Spec spec = usual_spec();
  std::reverse(spec.tensors.begin(), spec.tensors.end());
  std::reverse(spec.entries.begin(), spec.entries.end());
  spec.alignment = 4096;
  EXPECT_EQ(root_of(spec), root);
  spec.entries.erase(spec.entries.begin());  // the template
  spec.entries.push_back(text_entry("general.author", "somebody"));
  spec.entries.push_back(text_entry("tokenizer.chat_template.tool", "other"));
  EXPECT_EQ(root_of(spec), root);
  spec = usual_spec();  // the same number, written in more bytes
  spec.entries[2] = [](GgufBytes& f) { f.entry<uint64_t>("llama.block_count", kU64Value, 2); };
  EXPECT_EQ(root_of(spec), root);
}

// docs/fingerprint.md has it, for whoever computes it elsewhere.
TEST(ModelRoot, IsThePublishedOne) {
  GgufBytes file(1, 2);
  file.key("general.architecture", kTextValue).string("llama");
  file.entry<uint32_t>("llama.block_count", kU32Value, 1);
  file.tensor("w", {4}, kF32Tensor, 0).pad();
  for (const float value : {1.f, 2.f, 3.f, 4.f}) file.put(value);
  const GgufFile parsed = GgufFile::parse(file.span(), "test");
  ModelRoot root(parsed);
  for (size_t i = 0; i < root.n_pieces(); ++i) root.hash(i);
  EXPECT_EQ(root.hex(), "fad5a99eecbcad2411ae479b31482601807d422f5a8d812fa8b24202cbfb849e");
}

}  // namespace
}  // namespace greta
