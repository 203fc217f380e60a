#include "ingest/content/reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace greta {
namespace {

namespace fs = std::filesystem;

const std::string kText = "one\ntwo\nthree\n";

// Bytes that deflate can hardly shrink, so that a cut in the middle loses some of them.
std::string noise(size_t size) {
  std::string text(size, '\0');
  uint32_t state = 1;
  for (char& c : text) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

std::string gzip(const std::string& text, gz_header* header = nullptr) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  if (header != nullptr) deflateSetHeader(&stream, header);
  std::string out(deflateBound(&stream, text.size()) + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string with_flipped_byte(std::string bytes, size_t from_end) {
  bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 0x40);
  return bytes;
}

struct TarEntry {
  std::string path;
  std::string content = {};
  unsigned type = AE_IFREG;
  std::string link = {};  // target: symbolic for AE_IFLNK, else hard
  bool sparse = false;
};

std::string tar(const std::vector<TarEntry>& entries) {
  std::string out(1 << 20, '\0');
  size_t used = 0;
  archive* writer = archive_write_new();
  archive_write_set_format_pax_restricted(writer);
  archive_write_open_memory(writer, out.data(), out.size(), &used);
  for (const TarEntry& entry : entries) {
    archive_entry* header = archive_entry_new();
    archive_entry_set_pathname(header, entry.path.c_str());
    archive_entry_set_filetype(header, entry.type);
    archive_entry_set_perm(header, 0644);
    archive_entry_set_size(header, static_cast<la_int64_t>(entry.content.size()));
    if (entry.type == AE_IFLNK) {
      archive_entry_set_symlink(header, entry.link.c_str());
    } else if (!entry.link.empty()) {
      archive_entry_set_hardlink(header, entry.link.c_str());
    }
    if (entry.sparse) {
      archive_entry_set_size(header, la_int64_t{1} << 40);
      archive_entry_sparse_add_entry(header, 0, 1);
    }
    archive_write_header(writer, header);
    archive_write_data(writer, entry.content.data(), entry.content.size());
    archive_entry_free(header);
  }
  archive_write_close(writer);
  archive_write_free(writer);
  out.resize(used);
  return out;
}

class ContentTest : public testing::Test {
 protected:
  ContentTest() {
    std::string pattern = (fs::temp_directory_path() / "greta_content_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
    directory_ = pattern;
  }
  ~ContentTest() override { fs::remove_all(directory_); }

  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(directory_ / name, std::ios::binary) << bytes;
    return directory_ / name;
  }

  fs::path directory_;
};

std::string read_all(ContentReader& reader, size_t buffer_bytes = 4096) {
  std::string text, buffer(buffer_bytes, '\0');
  while (const size_t count = reader.read(buffer.data(), buffer.size())) {
    text.append(buffer, 0, count);
  }
  EXPECT_EQ(reader.read(buffer.data(), buffer.size()), 0U) << "the end is final";
  return text;
}

// ---- one file

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
      EXPECT_EQ(again->notes(), reader_->notes());
    }
    return *reader_;
  }

  std::unique_ptr<ContentReader> reader_;
  std::string text_;
};

using Notes = std::vector<std::string>;

TEST_F(ContentFile, PlainBytesAreTheContent) {
  const std::string bytes = noise(200'000);
  EXPECT_EQ(read("a.jsonl", bytes).damage(), "");
  EXPECT_EQ(text_, bytes);
  EXPECT_FALSE(reader_->is_compressed());
}

TEST_F(ContentFile, AnEmptyPlainFileIsNotDamaged) {
  EXPECT_EQ(read("a.jsonl", "").damage(), "");
  EXPECT_EQ(text_, "");
}

TEST_F(ContentFile, GzipIsDecoded) {
  const std::string bytes = noise(300'000);
  EXPECT_EQ(read("a.jsonl.gz", gzip(bytes)).damage(), "");
  EXPECT_EQ(text_, bytes);
  EXPECT_TRUE(reader_->is_compressed());
  EXPECT_EQ(reader_->notes(), Notes{});
}

TEST_F(ContentFile, GzipIsKnownByItsMagicNotItsName) {
  EXPECT_EQ(read("a.jsonl", gzip(kText)).damage(), "");
  EXPECT_EQ(text_, kText);
  EXPECT_EQ(reader_->notes(), Notes{"gzip content under another name"});
}

TEST_F(ContentFile, ZeroBytesAreNoGzipStream) {
  EXPECT_EQ(read("logits.jsonl.gz", "").damage(), "not a gzip stream (0 bytes)");
  EXPECT_FALSE(reader_->is_compressed());
}

TEST_F(ContentFile, AValidGzipOfNothingIsNotDamaged) {
  EXPECT_EQ(read("logits.jsonl.gz", gzip("")).damage(), "");
  EXPECT_EQ(text_, "");
  EXPECT_TRUE(reader_->is_compressed());
}

TEST_F(ContentFile, ATruncatedGzipGivesWhatItHolds) {
  const std::string bytes = noise(300'000);
  const std::string whole = gzip(bytes);
  EXPECT_EQ(read("a.gz", whole.substr(0, whole.size() / 2)).damage(), "gzip stream is truncated");
  EXPECT_GT(text_.size(), 100'000U);
  EXPECT_TRUE(bytes.starts_with(text_));
}

TEST_F(ContentFile, ATruncatedRunOfEqualBytesGivesWhatItHolds) {
  const std::string bytes(5'000'000, 'a');  // one match is worth more than a small buffer
  const std::string whole = gzip(bytes);
  EXPECT_EQ(read("a.gz", whole.substr(0, whole.size() - 20)).damage(), "gzip stream is truncated");
  EXPECT_GT(text_.size(), 4'000'000U);
}

TEST_F(ContentFile, EveryCutOfAGzipIsTruncated) {
  const std::string whole = gzip(kText);
  for (size_t size = 2; size < whole.size(); ++size) {
    EXPECT_EQ(read("a.gz", whole.substr(0, size)).damage(), "gzip stream is truncated") << size;
    EXPECT_TRUE(kText.starts_with(text_));
  }
  EXPECT_EQ(text_, kText) << "only the last byte of the trailer is missing";
}

TEST_F(ContentFile, AWrongChecksumIsDamageAfterAllBytes) {
  EXPECT_EQ(read("a.gz", with_flipped_byte(gzip(kText), 8)).damage(), "gzip CRC does not match");
  EXPECT_EQ(text_, kText);
  EXPECT_EQ(read("a.gz", with_flipped_byte(gzip(kText), 1)).damage(), "gzip length does not match");
  EXPECT_EQ(text_, kText);
}

TEST_F(ContentFile, CorruptDeflateGivesWhatPrecedesIt) {
  std::string bytes = gzip(std::string(1000, 'x') + kText);
  bytes[10] = '\x07';  // block type 3 does not exist
  EXPECT_EQ(read("a.gz", bytes).damage(), "gzip data is corrupt (invalid block type)");
  EXPECT_EQ(text_, "");
  const std::string unknown_method = "\x1f\x8b\x01_______________";
  EXPECT_EQ(read("a.gz", unknown_method).damage(), "gzip data is corrupt (unknown method)");
}

TEST_F(ContentFile, PlainTextNamedGzIsReadAndReported) {
  EXPECT_EQ(read("a.jsonl.gz", kText).damage(), "named .gz but is not gzip; read as plain text");
  EXPECT_EQ(text_, kText);
  EXPECT_FALSE(reader_->is_compressed());
}

TEST_F(ContentFile, ConcatenatedMembersAreOneContent) {
  EXPECT_EQ(read("a.gz", gzip(kText) + gzip("") + gzip("four\n")).damage(), "");
  EXPECT_EQ(text_, kText + "four\n");
  EXPECT_EQ(reader_->notes(), Notes{"3 gzip members"});
}

TEST_F(ContentFile, AWrongChecksumDoesNotHideTheNextMember) {
  const std::string bytes = with_flipped_byte(gzip(kText), 8);
  EXPECT_EQ(read("a.gz", bytes + bytes + gzip("four\n")).damage(), "gzip CRC does not match");
  EXPECT_EQ(text_, kText + kText + "four\n");
}

TEST_F(ContentFile, ZeroPaddingIsHarmlessOtherGarbageIsNot) {
  EXPECT_EQ(read("a.gz", gzip(kText) + std::string(100'000, '\0')).damage(), "");
  EXPECT_EQ(text_, kText);
  EXPECT_EQ(reader_->notes(), Notes{"zero padding after the gzip stream"});
  for (const std::string garbage : {"x", "\x1f", "garbage"}) {
    EXPECT_EQ(read("a.gz", gzip(kText) + garbage).damage(), "garbage after the gzip stream");
    EXPECT_EQ(text_, kText);
  }
  const std::string late = std::string(70'000, '\0') + "x";
  EXPECT_EQ(read("a.gz", gzip(kText) + late).damage(), "garbage after the gzip stream");
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
  bytes = gzip(kText + bytes, &header);
  EXPECT_EQ(read("a.gz", bytes).damage(), "");
  EXPECT_EQ(text_, kText + std::string(100'000, '\0'));
  EXPECT_EQ(read("a.gz", bytes.substr(0, 2000)).damage(), "gzip stream is truncated");
}

TEST_F(ContentTest, OpensOnlyRegularFilesAndNeverWaits) {
  const fs::path fifo = directory_ / "fifo.jsonl";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const fs::path& path : {fifo, directory_, directory_ / "missing.jsonl"}) {
    try {
      open_content(path);
      ADD_FAILURE() << path << " was opened";
    } catch (const std::system_error& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
    EXPECT_THROW(for_each_member(path, nullptr, nullptr), std::system_error);
  }
  EXPECT_FALSE(is_archive(fifo));
  fs::create_symlink(write("a.jsonl", kText), directory_ / "link.jsonl");
  EXPECT_EQ(read_all(*open_content(directory_ / "link.jsonl")), kText);
}

// ---- archives

struct SeenMember {
  std::string path, text, damage;
  uint64_t size_bytes = 0;
};

class ContentArchive : public ContentTest {
 protected:
  std::string read(const std::string& name, const std::string& bytes) {
    const fs::path path = write(name, bytes);
    members_.clear();
    refused_.clear();
    const std::string damage = for_each_member(
        path,
        [this](const ArchiveMember& member, ContentReader& content) {
          const std::string text = read_all(content);
          members_.push_back({member.path, text, content.damage(), member.size_bytes});
        },
        [this](const std::string& member, const std::string& reason) {
          refused_.emplace_back(member, reason);
        });
    EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1) << "nothing is unpacked";
    fs::remove(path);
    return damage;
  }
  std::vector<std::string> paths() const {
    std::vector<std::string> result;
    for (const SeenMember& member : members_) result.push_back(member.path);
    return result;
  }

  std::vector<SeenMember> members_;
  std::vector<std::pair<std::string, std::string>> refused_;
};

using Paths = std::vector<std::string>;

TEST_F(ContentArchive, StreamsEveryMemberInOrder) {
  const std::string big = noise(300'000);
  const std::string bytes = tar({{"d", "", AE_IFDIR}, {"d/b", big}, {"d/a", kText}, {"d/0", ""}});
  for (const std::string& packed : {bytes, gzip(bytes)}) {
    EXPECT_EQ(read("x.tgz", packed), "");
    ASSERT_EQ(paths(), (Paths{"d/b", "d/a", "d/0"}));
    EXPECT_EQ(members_[0].text, big);
    EXPECT_EQ(members_[0].size_bytes, big.size());
    EXPECT_EQ(members_[1].text, kText);
    EXPECT_EQ(refused_.size(), 0U) << "directories are no loss";
  }
}

TEST_F(ContentArchive, DecodesAGzipMember) {
  EXPECT_EQ(read("x.tar", tar({{"a.gz", gzip(kText)}, {"0.gz", ""}, {"b.gz", kText}})), "");
  EXPECT_EQ(members_[0].text, kText);
  EXPECT_EQ(members_[0].damage, "");
  EXPECT_EQ(members_[1].damage, "not a gzip stream (0 bytes)");
  EXPECT_EQ(members_[2].damage, "named .gz but is not gzip; read as plain text");
}

TEST_F(ContentArchive, RefusesWhatDoesNotBelongInATree) {
  const std::vector<std::pair<TarEntry, std::string>> cases = {
      {{"/abs", kText}, "member path is absolute"},
      {{"C:\\abs", kText}, "member path is absolute"},
      {{"\\\\host\\abs", kText}, "member path is absolute"},
      {{"../up", kText}, "member path contains \"..\""},
      {{"a/../../up", kText}, "member path contains \"..\""},
      {{"a\\..\\up", kText}, "member path contains \"..\""},
      {{"a/..", kText}, "member path contains \"..\""},
      {{"symlink", "", AE_IFLNK, "good"}, "member is a symbolic link"},
      {{"hardlink", "", AE_IFREG, "good"}, "member is a hard link"},
      {{"device", "", AE_IFCHR}, "member is a device"},
      {{"disk", "", AE_IFBLK}, "member is a device"},
      {{"fifo", "", AE_IFIFO}, "member is a FIFO"},
      {{"sparse", "x", AE_IFREG, "", true}, "member is a sparse file"}};
  std::vector<TarEntry> entries = {{"good", kText}};
  for (const auto& [entry, reason] : cases) entries.push_back(entry);
  entries.push_back({"..good..", kText});
  EXPECT_EQ(read("x.tar", tar(entries)), "");
  EXPECT_EQ(paths(), (Paths{"good", "..good.."}));
  ASSERT_EQ(refused_.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(refused_[i], std::pair(cases[i].first.path, cases[i].second));
  }
}

TEST_F(ContentArchive, RefusesAMemberWithoutAName) {
  std::string bytes = tar({{"a", kText}});
  // The name is the header's first byte; the checksum (six octal digits at 148) follows it.
  const unsigned checksum = static_cast<unsigned>(std::stoul(bytes.substr(148, 6), nullptr, 8));
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", checksum - 'a');
  bytes[0] = '\0';
  bytes.replace(148, 6, digits);
  read("x.tar", bytes);
  EXPECT_EQ(paths(), Paths{});
  ASSERT_EQ(refused_.size(), 1U);
  EXPECT_EQ(refused_[0].second, "member has no name");
}

TEST_F(ContentArchive, ATruncatedArchiveBreaksInOneMember) {
  const std::string big = noise(200'000);
  const std::string bytes = tar({{"whole", kText}, {"broken", big}, {"lost", kText}});
  const std::string packed = gzip(bytes);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {packed.substr(0, packed.size() / 2), "gzip stream is truncated"},
      {bytes.substr(0, 100'000), "archive is truncated"},
      {gzip(bytes.substr(0, 100'000)), "archive is truncated"}};
  for (const auto& [cut, reason] : cases) {
    EXPECT_EQ(read("x.tgz", cut), reason);
    ASSERT_EQ(paths(), (Paths{"whole", "broken"}));
    EXPECT_EQ(members_[0].text, kText);
    EXPECT_EQ(members_[0].damage, "");
    EXPECT_GT(members_[1].text.size(), 90'000U) << "what precedes the break is delivered";
    EXPECT_TRUE(big.starts_with(members_[1].text));
    EXPECT_EQ(members_[1].damage, reason);
  }
}

TEST_F(ContentArchive, AWrongChecksumOfTheStreamIsReported) {
  EXPECT_EQ(read("x.tgz", with_flipped_byte(gzip(tar({{"a", kText}})), 8)),
            "gzip CRC does not match");
  EXPECT_EQ(paths(), Paths{"a"});
}

TEST_F(ContentArchive, ADamagedHeaderDoesNotHideTheNextMember) {
  std::string bytes = tar({{"a", kText}, {"b", kText}, {"c", kText}});
  bytes[1024 + 100] = 'Z';  // in the mode field of b
  EXPECT_EQ(read("x.tar", bytes), "archive is damaged (Damaged tar archive)");
  EXPECT_EQ(paths(), (Paths{"a", "c"}));
}

TEST_F(ContentArchive, NothingHidesBehindTheEndOfAnArchive) {
  const std::string first = tar({{"a", kText}}), second = tar({{"b", kText}});
  EXPECT_EQ(read("x.tar", first + second), "");
  EXPECT_EQ(paths(), (Paths{"a", "b"}));
  EXPECT_EQ(read("x.tgz", gzip(first) + gzip(second)), "");
  EXPECT_EQ(paths(), (Paths{"a", "b"}));
  EXPECT_EQ(read("x.tgz", gzip(first) + "garbage"), "garbage after the gzip stream");
  EXPECT_EQ(paths(), Paths{"a"});
}

TEST_F(ContentArchive, WhatIsNoArchiveIsSaidToBeNone) {
  EXPECT_EQ(read("x.tgz", ""), "not an archive (0 bytes)");
  EXPECT_EQ(read("x.tgz", gzip("")), "not an archive (0 bytes)");
  EXPECT_EQ(read("x.tgz", noise(5000)), "not a tar archive");
  EXPECT_EQ(members_.size(), 0U);
}

TEST_F(ContentArchive, SkipsWhatTheCallerLeavesUnread) {
  const fs::path path = write("x.tgz", gzip(tar({{"a", noise(100'000)}, {"b", kText}})));
  std::vector<std::string> seen;
  const auto record = [&](const ArchiveMember& member, ContentReader&) {
    seen.push_back(member.path);
  };
  EXPECT_EQ(for_each_member(path, record, nullptr), "");
  EXPECT_EQ(seen, (Paths{"a", "b"}));
}

TEST_F(ContentArchive, PassesOnWhatACallbackThrows) {
  const fs::path path = write("x.tgz", gzip(tar({{"a", kText}})));
  const auto fail = [](const ArchiveMember&, ContentReader&) { throw std::logic_error("stop"); };
  EXPECT_THROW(for_each_member(path, fail, nullptr), std::logic_error);
}

TEST_F(ContentArchive, IsKnownByNameOrContent) {
  for (const std::string name : {"a.tgz", "a.tar.gz", "a.tar"}) EXPECT_TRUE(is_archive_name(name));
  for (const std::string name : {"a.gz", "tar", "a.tgz.md"}) EXPECT_FALSE(is_archive_name(name));
  const std::string bytes = tar({{"a", kText}});
  EXPECT_TRUE(is_archive(write("lies.jsonl", bytes)));
  EXPECT_TRUE(is_archive(write("lies.jsonl.gz", gzip(bytes))));
  EXPECT_FALSE(is_archive(write("a.jsonl", kText)));
  EXPECT_FALSE(is_archive(write("b.jsonl", noise(1000))));
  EXPECT_FALSE(is_archive(directory_ / "missing.jsonl"));
}

}  // namespace
}  // namespace greta
