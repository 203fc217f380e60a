#include "engine/session/model_digest.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "common/sha256.h"
#include "common/temporary_folder.h"
#include "tests/engine/gguf/bytes.h"
#include "tests/file_bytes.h"

namespace greta {
namespace {

constexpr int64_t kDayNs = int64_t{86'400} * 1'000'000'000;

/// A file of one tensor of `n` bytes.
std::string model_bytes(size_t n) {
  GgufBytes file(1, 1);
  file.key("general.architecture", 8).string("llama");
  file.tensor("w", {n / 4}, 0, 0).pad().data(n);
  return file.str();
}

std::string digits(char digit) { return std::string(64, digit); }

class Digests : public testing::Test {
 protected:
  /// Of a file, by so many threads.
  ModelDigests digests_of(const std::filesystem::path& path, int n_threads, bool with_sha256,
                          const DigestCache& cache = {}) {
    const GgufFile file = GgufFile::open(path);
    ModelDigest digest(file, path, n_threads, with_sha256, cache);
    ModelDigests found = digest.get();
    EXPECT_TRUE(digest.advance(0));
    EXPECT_EQ(digest.done_bytes(), digest.size_bytes());
    EXPECT_EQ(digest.get().root, found.root);  // again
    return found;
  }

  const TemporaryFolder folder_;
  const std::string bytes_ = model_bytes((size_t{9} << 20) + 4);  // several pieces and a rest
  const std::filesystem::path model_ = folder_.write("m.gguf", bytes_);
  const std::filesystem::path cache_folder_ = folder_ / "cache/models";
  const DigestCache cache_{cache_folder_};
};

TEST_F(Digests, AreTheSameByAnyNumberOfThreads) {
  const GgufFile file = GgufFile::open(model_);
  ModelRoot root(file);
  for (size_t i = 0; i < root.n_pieces(); ++i) root.hash(i);
  for (const int n_threads : {1, 2, 7}) {
    const ModelDigests found = digests_of(model_, n_threads, true);
    EXPECT_EQ(found.root, root.hex());
    EXPECT_EQ(found.file_sha256, Sha256::hex_of(bytes_));
    EXPECT_EQ(digests_of(model_, n_threads, false).root, root.hex());
  }
  EXPECT_EQ(digests_of(model_, 1, false).file_sha256, "") << "it was not asked for";
}

TEST_F(Digests, CanBeGivenUp) {
  const std::string bytes = model_bytes(size_t{64} << 20);
  const GgufFile file = GgufFile::parse(std::as_bytes(std::span(bytes)), "test");
  for (const bool with_sha256 : {false, true}) {
    ModelDigest digest(file, "test", 2, with_sha256, {});
  }
}

TEST_F(Digests, OfBytesThatAreNoFileAreNotKept) {
  const GgufFile file = GgufFile::parse(std::as_bytes(std::span(bytes_)), "test");
  ModelDigest digest(file, model_, 1, false, cache_);
  EXPECT_EQ(digest.get().root, digests_of(model_, 1, false).root);
  EXPECT_FALSE(std::filesystem::exists(cache_folder_));
}

/// A file that nobody changed for a day, as a stamp says it.
class KeptDigests : public Digests {
 protected:
  FileStamp stamp_{.size_bytes = 5,
                   .modified_ns = 2 * kDayNs,
                   .changed_ns = 2 * kDayNs + 1,
                   .inode = 3,
                   .device = 4,
                   .seen_ns = 3 * kDayNs};
  const ModelDigests kept_{digits('a'), digits('b')};

  std::filesystem::path entry() const {
    return *std::filesystem::directory_iterator(cache_folder_);
  }
  std::string entry_text() const { return bytes_of(entry()); }
  void write_entry(const std::string& text) const {
    std::ofstream(entry(), std::ios::binary | std::ios::trunc) << text;
  }
};

TEST_F(KeptDigests, AreFoundAsLongAsNothingIsSaidOtherwise) {
  EXPECT_FALSE(cache_.find(model_, stamp_));
  cache_.keep(model_, stamp_, kept_);
  const auto found = cache_.find(model_, stamp_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->root, kept_.root);
  EXPECT_EQ(found->file_sha256, kept_.file_sha256);
  std::filesystem::create_symlink(model_, folder_ / "link");
  EXPECT_TRUE(cache_.find(folder_ / "link", stamp_)) << "the same file by another name";

  for (const auto field :
       {&FileStamp::size_bytes, &FileStamp::modified_ns, &FileStamp::changed_ns}) {
    FileStamp other = stamp_;
    ++(other.*field);
    EXPECT_FALSE(cache_.find(model_, other));
  }
  for (const auto field : {&FileStamp::inode, &FileStamp::device}) {
    FileStamp other = stamp_;
    ++(other.*field);
    EXPECT_FALSE(cache_.find(model_, other));
  }
  FileStamp later = stamp_;
  later.seen_ns += kDayNs;
  EXPECT_TRUE(cache_.find(model_, later));
  EXPECT_FALSE(cache_.find(folder_.write("other.gguf", "x"), stamp_));
  EXPECT_FALSE(cache_.find(folder_ / "nothing", stamp_));
}

TEST_F(KeptDigests, AreReplacedAsAWhole) {
  cache_.keep(model_, stamp_, kept_);
  cache_.keep(model_, stamp_, {digits('c'), ""});
  const auto found = cache_.find(model_, stamp_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->root, digits('c'));
  EXPECT_EQ(found->file_sha256, "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache_folder_), {}), 1)
      << "nothing is left beside it";
}

TEST_F(KeptDigests, WhatAWriterThatWasKilledLeftBesideThemIsNothing) {
  cache_.keep(model_, stamp_, kept_);
  const std::string text = entry_text();
  std::ofstream(entry().string() + ".a1B2c3") << text.substr(0, text.size() / 2);
  EXPECT_TRUE(cache_.find(model_, stamp_));
  std::filesystem::remove(cache_folder_ / entry().stem());
  EXPECT_FALSE(cache_.find(model_, stamp_));
  cache_.keep(model_, stamp_, kept_);
  EXPECT_TRUE(cache_.find(model_, stamp_));
}

TEST_F(KeptDigests, AreNotBelievedWhenTheEntryIsDamaged) {
  cache_.keep(model_, stamp_, kept_);
  const std::string text = entry_text();
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = damaged[i] == 'a' ? 'b' : 'a';
    write_entry(damaged);
    EXPECT_FALSE(cache_.find(model_, stamp_)) << i;
    write_entry(text.substr(0, i));
    EXPECT_FALSE(cache_.find(model_, stamp_)) << "cut at " << i;
  }
  write_entry(text + "more\n");
  EXPECT_FALSE(cache_.find(model_, stamp_));
  write_entry(text);
  EXPECT_TRUE(cache_.find(model_, stamp_));
}

TEST_F(KeptDigests, OfAChangeWithinATickOfTheClockAreNotKept) {
  for (const int64_t age : {int64_t{0}, DigestCache::kSettledNs - 1, -kDayNs}) {
    stamp_.seen_ns = stamp_.changed_ns + age;
    cache_.keep(model_, stamp_, kept_);
    EXPECT_FALSE(cache_.find(model_, stamp_)) << age;
  }
  stamp_.seen_ns = stamp_.changed_ns + DigestCache::kSettledNs;
  cache_.keep(model_, stamp_, kept_);
  EXPECT_TRUE(cache_.find(model_, stamp_));
}

TEST_F(KeptDigests, ThatCannotBeWrittenOrReadAreNone) {
  const DigestCache nowhere;
  nowhere.keep(model_, stamp_, kept_);
  EXPECT_FALSE(nowhere.find(model_, stamp_));
  const DigestCache in_a_file(folder_ / "m.gguf/cache");
  in_a_file.keep(model_, stamp_, kept_);
  EXPECT_FALSE(in_a_file.find(model_, stamp_));
  cache_.keep(model_, stamp_, kept_);
  const std::filesystem::path place = entry();
  std::filesystem::remove(place);
  std::filesystem::create_directory(place);  // in its place
  cache_.keep(model_, stamp_, kept_);
  EXPECT_FALSE(cache_.find(model_, stamp_));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache_folder_), {}), 1);
  std::filesystem::remove(place);
  ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0);
  EXPECT_FALSE(cache_.find(model_, stamp_)) << "and it does not wait";
}

TEST_F(KeptDigests, SaveTheWorkNextTime) {
  const GgufFile file = GgufFile::open(model_);
  FileStamp stamp = file.stamp().value();
  stamp.seen_ns += kDayNs;  // as if it had been there for a day
  cache_.keep(model_, stamp, kept_);
  EXPECT_EQ(digests_of(model_, 1, true, cache_).root, kept_.root);
  EXPECT_EQ(digests_of(model_, 1, false, cache_).file_sha256, kept_.file_sha256)
      << "which is known, though nobody asks for it";

  cache_.keep(model_, stamp, {kept_.root, ""});
  const ModelDigests both = digests_of(model_, 1, true, cache_);
  EXPECT_EQ(both.file_sha256, Sha256::hex_of(bytes_)) << "what is not kept is worked out";
  EXPECT_NE(both.root, kept_.root);

  std::filesystem::permissions(model_, std::filesystem::perms::owner_read);
  EXPECT_NE(digests_of(model_, 1, false, cache_).root, kept_.root) << "the inode was changed";
}

TEST_F(KeptDigests, AreInTheFolderThatTheUserNamed) {
  ::setenv("XDG_CACHE_HOME", (folder_ / "xdg").c_str(), 1);
  DigestCache::usual().keep(model_, stamp_, kept_);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "xdg/greta/models"));
  ::setenv("XDG_CACHE_HOME", "not/absolute", 1);
  ::setenv("HOME", (folder_ / "home").c_str(), 1);
  DigestCache::usual().keep(model_, stamp_, kept_);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "home/.cache/greta/models"));
}

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
