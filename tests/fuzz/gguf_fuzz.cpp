// Any bytes are a GGUF file: it is refused with one line, or everything it says lies inside it and
// can be read; and so are the tokenizer and the model that it may hold.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/forward/model.h"
#include "engine/gguf/file.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/cpu/quantise.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

void require_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  require(part.empty() || (part.data() >= whole.data() &&
                           part.data() + part.size() <= whole.data() + whole.size()),
          "data lies inside the file");
}

void require_inside(std::string_view text, std::span<const std::byte> whole) {
  require_inside(std::as_bytes(std::span(text)), whole);
}

// Calls a look-up that may refuse what it finds.
template <typename LookUp>
void attempt(LookUp look_up) {
  try {
    look_up();
  } catch (const greta::GgufError& error) {
    require(std::string_view(error.what()).starts_with("fuzz: metadata key '"), "a key is named");
  }
}

void check_array(const greta::GgufFile& file, std::string_view key, const greta::GgufArray& array) {
  require_inside(array.data, file.bytes());
  for (const std::string_view text : array.strings) require_inside(text, file.bytes());
  require(array.strings.empty() || array.strings.size() == array.count, "strings are counted");
  attempt([&] { require(file.float_array(key).size() == array.count, "all reals are read"); });
  attempt([&] { require(file.int_array(key).size() == array.count, "all integers are read"); });
}

void check_metadata(const greta::GgufFile& file) {
  for (const auto& entry : file.metadata()) {
    const std::string_view key = entry.first;
    const greta::GgufValue& value = entry.second;
    require_inside(key, file.bytes());
    require(file.find(key) == &value, "a key is found");
    if (const auto* text = std::get_if<std::string_view>(&value))
      require_inside(*text, file.bytes());
    if (const auto* array = std::get_if<greta::GgufArray>(&value)) check_array(file, key, *array);
    attempt([&] { file.unsigned_value(key); });
    attempt([&] { file.real_value(key); });
    attempt([&] { file.bool_value(key, false); });
    attempt([&] { file.string_value(key); });
  }
}

void check_tensors(const greta::GgufFile& file) {
  std::vector<std::span<const std::byte>> data;
  for (const greta::GgufTensor& tensor : file.tensors()) {
    require_inside(tensor.name, file.bytes());
    require_inside(tensor.data, file.bytes());
    require(file.find_tensor(tensor.name) == &tensor, "a tensor is found");
    require(tensor.n_values() > 0, "a tensor has values");
    std::vector<float> values(static_cast<size_t>(tensor.n_values()));
    greta::dequantise(tensor.type, tensor.data, values);
    data.push_back(tensor.data);
  }
  std::sort(data.begin(), data.end(), [](auto a, auto b) { return a.data() < b.data(); });
  for (size_t i = 1; i < data.size(); ++i) {
    require(data[i - 1].data() + data[i - 1].size() <= data[i].data(), "no bytes are shared");
  }
}

void require_one_line(const greta::GgufError& error) {
  const std::string_view what = error.what();
  require(what.starts_with("fuzz: "), "an error names the file");
  require(what.size() < 1000, "an error is short");
  require(std::all_of(what.begin(), what.end(), [](char c) { return c >= ' ' || c < 0; }),
          "an error is one line");
}

void check_tokenizer(const greta::GgufFile& file) {
  try {
    const auto tokenizer = greta::Tokenizer::load(file);
    for (const bool parse_special : {false, true}) {
      const std::vector<int32_t> ids =
          tokenizer->encode("the 12 \n\xc3\xbc\xff <|eot_id|><s>", true, parse_special);
      for (const int32_t id : ids) require(id >= 0 && id < tokenizer->size(), "an id is a token");
      tokenizer->decode(ids, true);
    }
  } catch (const greta::GgufError& error) {
    require_one_line(error);
  }
}

void check_model(const greta::GgufFile& file) {
  try {
    const greta::Model model(file);
    const greta::ModelConfig& config = model.config();
    require(config.n_layers > 0 && config.dim > 0 && config.vocab > 0, "sizes are positive");
    require(model.weights().token_embd.bytes() <= file.bytes().size(), "the table is in the file");
  } catch (const greta::GgufError& error) {
    require_one_line(error);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const greta::GgufFile file = greta::GgufFile::parse(bytes, "fuzz");
    check_metadata(file);
    check_tensors(file);
    check_tokenizer(file);
    check_model(file);
  } catch (const greta::GgufError& error) {
    require_one_line(error);
  }
  return 0;
}
