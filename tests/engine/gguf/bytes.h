#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace greta {

/// A GGUF file as a test spells it, right or wrong: nothing here checks anything.
class GgufBytes {
 public:
  GgufBytes() = default;
  GgufBytes(uint64_t n_tensors, uint64_t n_entries, uint32_t version = 3) {
    text("GGUF").put(version).put(n_tensors).put(n_entries);
  }

  template <typename T>
  GgufBytes& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  GgufBytes& string(std::string_view text) { return put<uint64_t>(text.size()).text(text); }
  GgufBytes& key(std::string_view name, uint32_t type) { return string(name).put(type); }

  template <typename T>
  GgufBytes& entry(std::string_view name, uint32_t type, T value) {
    return key(name, type).put(value);
  }
  template <typename T>
  GgufBytes& array(std::string_view name, uint32_t type, std::initializer_list<T> values) {
    key(name, 9).put(type).put<uint64_t>(values.size());
    for (const T value : values) put(value);
    return *this;
  }
  GgufBytes& tensor(std::string_view name, std::initializer_list<uint64_t> dims, uint32_t type,
                    uint64_t offset) {
    string(name).put(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) put(dim);
    return put(type).put(offset);
  }
  GgufBytes& pad(size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  GgufBytes& data(size_t n) {
    for (size_t i = 0; i < n; ++i) bytes_ += static_cast<char>(i * 7 + 1);
    return *this;
  }

  const std::string& str() const { return bytes_; }
  std::span<const std::byte> span() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

}  // namespace greta
