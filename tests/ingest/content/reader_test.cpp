#include "ingest/content/reader.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <system_error>
#include <vector>

#include "tests/ingest/content/content_fixture.h"

namespace greta {
namespace {

class ContentFile : public ContentTest {
 protected:
  // Writes, opens and reads to the end; the content must not depend on the caller's buffer.
  const ContentReader& read(const std::string& name, const std::string& bytes) {
    const fs::path path = write(name, bytes);
    reader_ = open_content(path);
    text_ = read_all(*reader_);
    for (const size_t buffer_bytes : {1, 7, 1 << 20}) {
      const auto again = open_content(path);
      EXPECT_EQ(read_all(*again, buffer_bytes), text_);
      EXPECT_EQ(again->damage(), reader_->damage());
    }
    return *reader_;
  }

  std::unique_ptr<ContentReader> reader_;
  std::string text_;
};

/// A file, and what is read of it.
struct Content {
  const char* name;
  std::string bytes, text, damage;
  bool is_compressed = true;
};

TEST_F(ContentFile, GivesWhatItHoldsAndSaysWhatIsWrong) {
  const std::string gz = gzipped(kText), bytes = noise(300'000);
  const std::string wrong_crc = with_flipped_byte(gz, 8), zeros(100'000, '\0');
  std::string no_block = gz;
  no_block[10] = '\x07';  // block type 3 does not exist
  const Content contents[] = {
      {"a.jsonl", bytes, bytes, "", false},
      {"a.jsonl", "", "", "", false},
      {"a.jsonl.gz", gzipped(bytes), bytes, ""},
      {"a.jsonl", gz, kText, ""},  // its magic counts and not its name
      {"a.jsonl.gz", "", "", "not a gzip stream (0 bytes)", false},
      {"a.jsonl.gz", gzipped(""), "", ""},
      {"a.jsonl.gz", kText, kText, "named .gz but is not gzip; read as plain text", false},
      {"a.gz", wrong_crc, kText, "gzip CRC does not match"},
      {"a.gz", with_flipped_byte(gz, 1), kText, "gzip length does not match"},
      {"a.gz", no_block, "", "gzip data is corrupt (invalid block type)"},
      {"a.gz", "\x1f\x8b\x01_______________", "",
       "gzip data is corrupt (unknown compression method)"},
      {"a.gz", gz + gzipped("") + gzipped("four\n"), kText + "four\n", ""},
      {"a.gz", wrong_crc + wrong_crc + gzipped("four\n"), kText + kText + "four\n",
       "gzip CRC does not match"},
      {"a.gz", gz + zeros, kText, ""},
      {"a.gz", gz + "x", kText, "garbage after the gzip stream"},
      {"a.gz", gz + "\x1f", kText, "garbage after the gzip stream"},
      {"a.gz", gz + zeros + "x", kText, "garbage after the gzip stream"}};
  for (const Content& c : contents) {
    SCOPED_TRACE(std::string(c.name) + " " + std::to_string(c.bytes.size()) + " " + c.damage);
    EXPECT_EQ(read(c.name, c.bytes).damage(), c.damage);
    EXPECT_EQ(text_, c.text);
    EXPECT_EQ(reader_->is_compressed(), c.is_compressed);
  }
}

/// A file that becomes another when its first bytes have been read.
struct Change {
  std::string name;
  std::function<void(const fs::path&)> change;
  std::string said;
  size_t taken;
};

TEST_F(ContentFile, AFileThatChangesWhileItIsReadSaysSo) {
  const std::string bytes = noise(200'000);
  const std::vector<Change> changes = {
      {"Grows",
       [](const fs::path& path) { std::ofstream(path, std::ios::app) << std::string(100, 'x'); },
       "the file grew while it was read: 200000 bytes before, 200100 after, and 200100 are taken",
       200'100},
      {"Shrinks", [](const fs::path& path) { fs::resize_file(path, 150'000); },
       "the file shrank while it was read: 200000 bytes before, 150000 after, and 150000 are taken",
       150'000},
      {"ShrinksBehindWhatWasRead", [](const fs::path& path) { fs::resize_file(path, 1); },
       "the file shrank while it was read: 200000 bytes before, 1 after, and 65536 are taken",
       65'536},
      {"IsWrittenAnew",
       [](const fs::path& path) {
         std::fstream(path, std::ios::in | std::ios::out) << "other";
         fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
       },
       "the file changed while it was read: 200000 bytes before, 200000 after, and 200000 are "
       "taken",
       200'000},
      {"Stays", [](const fs::path&) {}, "", 200'000},
      {"IsRemoved", [](const fs::path& path) { fs::remove(path); }, "", 200'000}};
  for (const Change& c : changes) {
    SCOPED_TRACE(c.name);
    const fs::path path = write("a.jsonl", bytes);
    const auto reader = open_content(path);
    char first[10];
    ASSERT_EQ(reader->read(first, sizeof first), sizeof first);
    EXPECT_EQ(reader->change(), "");
    c.change(path);
    EXPECT_EQ(read_all(*reader).size() + sizeof first, c.taken);
    EXPECT_EQ(reader->change(), c.said);
    EXPECT_EQ(reader->damage(), "");
    EXPECT_EQ(reader->stored_bytes(), 200'000);
  }
}

TEST_F(ContentFile, AGzipThatIsCutWhileItIsReadSaysSoToo) {
  const fs::path path = write("a.jsonl.gz", gzipped(noise(200'000)));
  const auto reader = open_content(path);
  fs::resize_file(path, 100'000);
  read_all(*reader);
  EXPECT_EQ(reader->damage(), "gzip stream is truncated");
  EXPECT_TRUE(reader->change().starts_with("the file shrank while it was read: "));
}

TEST_F(ContentFile, ATruncatedGzipGivesWhatItHolds) {
  const std::string bytes = noise(300'000);
  const std::string whole = gzipped(bytes);
  EXPECT_EQ(read("a.gz", whole.substr(0, whole.size() / 2)).damage(), "gzip stream is truncated");
  EXPECT_GT(text_.size(), 100'000U);
  EXPECT_TRUE(bytes.starts_with(text_));
}

TEST_F(ContentFile, ATruncatedRunOfEqualBytesGivesWhatItHolds) {
  const std::string bytes(5'000'000, 'a');  // one match is worth more than a small buffer
  const std::string whole = gzipped(bytes);
  EXPECT_EQ(read("a.gz", whole.substr(0, whole.size() - 20)).damage(), "gzip stream is truncated");
  EXPECT_GT(text_.size(), 4'000'000U);
}

TEST_F(ContentFile, EveryCutOfAGzipIsTruncated) {
  const std::string whole = gzipped(kText);
  for (size_t size = 2; size < whole.size(); ++size) {
    EXPECT_EQ(read("a.gz", whole.substr(0, size)).damage(), "gzip stream is truncated") << size;
    EXPECT_TRUE(kText.starts_with(text_));
  }
  EXPECT_EQ(text_, kText) << "only the last byte of the trailer is missing";
}

TEST_F(ContentFile, OptionalHeaderFieldsAreSkipped) {
  std::string extra(3000, 'e'), name = "name.jsonl", comment(70'000, 'c');
  gz_header header = {};
  header.extra = reinterpret_cast<Bytef*>(extra.data());
  header.extra_len = static_cast<uInt>(extra.size());
  header.name = reinterpret_cast<Bytef*>(name.data());
  header.comment = reinterpret_cast<Bytef*>(comment.data());
  header.hcrc = 1;
  std::string bytes(100'000, '\0');
  bytes = gzipped(kText + bytes, 9, &header);
  EXPECT_EQ(read("a.gz", bytes).damage(), "");
  EXPECT_EQ(text_, kText + std::string(100'000, '\0'));
  EXPECT_EQ(read("a.gz", bytes.substr(0, 2000)).damage(), "gzip stream is truncated");
}

TEST_F(ContentTest, OpensOnlyRegularFilesAndNeverWaits) {
  const fs::path fifo = directory_ / "fifo.jsonl";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const fs::path& path : {fifo, directory_.path(), directory_ / "missing.jsonl"}) {
    try {
      open_content(path);
      ADD_FAILURE() << path << " was opened";
    } catch (const std::system_error& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  }
  fs::create_symlink(write("a.jsonl", kText), directory_ / "link.jsonl");
  EXPECT_EQ(read_all(*open_content(directory_ / "link.jsonl")), kText);
}

}  // namespace
}  // namespace greta
