#include "ingest/content/reader.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>
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

TEST_F(ContentFile, PlainBytesAreTheContent) {
  const std::string bytes = noise(200'000);
  EXPECT_EQ(read("a.jsonl", bytes).damage(), "");
  EXPECT_EQ(text_, bytes);
  EXPECT_FALSE(reader_->is_compressed());
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

TEST_F(ContentFile, AnEmptyPlainFileIsNotDamaged) {
  EXPECT_EQ(read("a.jsonl", "").damage(), "");
  EXPECT_EQ(text_, "");
}

TEST_F(ContentFile, GzipIsDecoded) {
  const std::string bytes = noise(300'000);
  EXPECT_EQ(read("a.jsonl.gz", gzipped(bytes)).damage(), "");
  EXPECT_EQ(text_, bytes);
  EXPECT_TRUE(reader_->is_compressed());
}

TEST_F(ContentFile, GzipIsKnownByItsMagicNotItsName) {
  EXPECT_EQ(read("a.jsonl", gzipped(kText)).damage(), "");
  EXPECT_EQ(text_, kText);
}

TEST_F(ContentFile, ZeroBytesAreNoGzipStream) {
  EXPECT_EQ(read("logits.jsonl.gz", "").damage(), "not a gzip stream (0 bytes)");
  EXPECT_FALSE(reader_->is_compressed());
}

TEST_F(ContentFile, AValidGzipOfNothingIsNotDamaged) {
  EXPECT_EQ(read("logits.jsonl.gz", gzipped("")).damage(), "");
  EXPECT_EQ(text_, "");
  EXPECT_TRUE(reader_->is_compressed());
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

TEST_F(ContentFile, AWrongChecksumIsDamageAfterAllBytes) {
  EXPECT_EQ(read("a.gz", with_flipped_byte(gzipped(kText), 8)).damage(), "gzip CRC does not match");
  EXPECT_EQ(text_, kText);
  EXPECT_EQ(read("a.gz", with_flipped_byte(gzipped(kText), 1)).damage(),
            "gzip length does not match");
  EXPECT_EQ(text_, kText);
}

TEST_F(ContentFile, CorruptDeflateGivesWhatPrecedesIt) {
  std::string bytes = gzipped(std::string(1000, 'x') + kText);
  bytes[10] = '\x07';  // block type 3 does not exist
  EXPECT_EQ(read("a.gz", bytes).damage(), "gzip data is corrupt (invalid block type)");
  EXPECT_EQ(text_, "");
  const std::string unknown_method = "\x1f\x8b\x01_______________";
  EXPECT_EQ(read("a.gz", unknown_method).damage(),
            "gzip data is corrupt (unknown compression method)");
}

TEST_F(ContentFile, PlainTextNamedGzIsReadAndReported) {
  EXPECT_EQ(read("a.jsonl.gz", kText).damage(), "named .gz but is not gzip; read as plain text");
  EXPECT_EQ(text_, kText);
  EXPECT_FALSE(reader_->is_compressed());
}

TEST_F(ContentFile, ConcatenatedMembersAreOneContent) {
  EXPECT_EQ(read("a.gz", gzipped(kText) + gzipped("") + gzipped("four\n")).damage(), "");
  EXPECT_EQ(text_, kText + "four\n");
}

TEST_F(ContentFile, AWrongChecksumDoesNotHideTheNextMember) {
  const std::string bytes = with_flipped_byte(gzipped(kText), 8);
  EXPECT_EQ(read("a.gz", bytes + bytes + gzipped("four\n")).damage(), "gzip CRC does not match");
  EXPECT_EQ(text_, kText + kText + "four\n");
}

TEST_F(ContentFile, ZeroPaddingIsHarmlessOtherGarbageIsNot) {
  EXPECT_EQ(read("a.gz", gzipped(kText) + std::string(100'000, '\0')).damage(), "");
  EXPECT_EQ(text_, kText);
  for (const std::string garbage : {"x", "\x1f", "garbage"}) {
    EXPECT_EQ(read("a.gz", gzipped(kText) + garbage).damage(), "garbage after the gzip stream");
    EXPECT_EQ(text_, kText);
  }
  const std::string late = std::string(70'000, '\0') + "x";
  EXPECT_EQ(read("a.gz", gzipped(kText) + late).damage(), "garbage after the gzip stream");
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
