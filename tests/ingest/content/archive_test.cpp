#include "ingest/content/archive.h"

#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/ingest/content/content_fixture.h"

namespace greta {
namespace {

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
    EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 1)
        << "nothing is unpacked";
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

TEST_F(ContentArchive, AnArchiveThatChangesWhileItIsReadSaysSo) {
  const fs::path path = write("x.tar", tarred({{"a", noise(200'000)}, {"b", noise(200'000)}}));
  const auto change_of = [&](const std::function<void()>& change) {
    std::string said;
    for_each_member(
        path,
        [&](const ArchiveMember& member, ContentReader& content) {
          if (member.path == "a") change();
          read_all(content);
          EXPECT_EQ(content.change(), "");
        },
        [](const std::string&, const std::string&) {}, &said);
    return said;
  };
  EXPECT_EQ(change_of([] {}), "");
  const uintmax_t size = fs::file_size(path);
  const std::string grown = change_of([&] { fs::resize_file(path, size + 10'240); });
  EXPECT_TRUE(grown.starts_with("the file grew while it was read: ")) << grown;
  const std::string cut = change_of([&] { fs::resize_file(path, 300'000); });
  EXPECT_TRUE(cut.starts_with("the file shrank while it was read: ")) << cut;
}

TEST_F(ContentArchive, StreamsEveryMemberInOrder) {
  const std::string big = noise(300'000);
  const std::string bytes =
      tarred({{"d", "", AE_IFDIR}, {"d/b", big}, {"d/a", kText}, {"d/0", ""}});
  for (const std::string& packed : {bytes, gzipped(bytes)}) {
    EXPECT_EQ(read("x.tgz", packed), "");
    ASSERT_EQ(paths(), (Paths{"d/b", "d/a", "d/0"}));
    EXPECT_EQ(members_[0].text, big);
    EXPECT_EQ(members_[0].size_bytes, big.size());
    EXPECT_EQ(members_[1].text, kText);
    EXPECT_EQ(refused_.size(), 0U) << "directories are no loss";
  }
}

TEST_F(ContentArchive, DecodesAGzipMember) {
  EXPECT_EQ(read("x.tar", tarred({{"a.gz", gzipped(kText)}, {"0.gz", ""}, {"b.gz", kText}})), "");
  EXPECT_EQ(members_[0].text, kText);
  EXPECT_EQ(members_[0].damage, "");
  EXPECT_EQ(members_[1].damage, "not a gzip stream (0 bytes)");
  EXPECT_EQ(members_[2].damage, "named .gz but is not gzip; read as plain text");
}

TEST_F(ContentArchive, RefusesWhatDoesNotBelongInATree) {
  const std::vector<std::pair<MadeEntry, std::string>> cases = {
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
  std::vector<MadeEntry> entries = {{"good", kText}};
  for (const auto& [entry, reason] : cases) entries.push_back(entry);
  entries.push_back({"..good..", kText});
  EXPECT_EQ(read("x.tar", tarred(entries)), "");
  EXPECT_EQ(paths(), (Paths{"good", "..good.."}));
  ASSERT_EQ(refused_.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(refused_[i], std::pair(cases[i].first.path, cases[i].second));
  }
}

TEST_F(ContentArchive, RefusesAMemberWithoutAName) {
  std::string bytes = tarred({{"a", kText}});
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
  const std::string bytes = tarred({{"whole", kText}, {"broken", big}, {"lost", kText}});
  const std::string packed = gzipped(bytes);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {packed.substr(0, packed.size() / 2), "gzip stream is truncated"},
      {bytes.substr(0, 100'000), "archive is truncated"},
      {gzipped(bytes.substr(0, 100'000)), "archive is truncated"}};
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
  EXPECT_EQ(read("x.tgz", with_flipped_byte(gzipped(tarred({{"a", kText}})), 8)),
            "gzip CRC does not match");
  EXPECT_EQ(paths(), Paths{"a"});
}

TEST_F(ContentArchive, ADamagedHeaderDoesNotHideTheNextMember) {
  std::string bytes = tarred({{"a", kText}, {"b", kText}, {"c", kText}});
  bytes[1024 + 100] = 'Z';  // in the mode field of b
  EXPECT_EQ(read("x.tar", bytes), "archive is damaged (Damaged tar archive)");
  EXPECT_EQ(paths(), (Paths{"a", "c"}));
}

TEST_F(ContentArchive, NothingHidesBehindTheEndOfAnArchive) {
  const std::string first = tarred({{"a", kText}}), second = tarred({{"b", kText}});
  EXPECT_EQ(read("x.tar", first + second), "");
  EXPECT_EQ(paths(), (Paths{"a", "b"}));
  EXPECT_EQ(read("x.tgz", gzipped(first) + gzipped(second)), "");
  EXPECT_EQ(paths(), (Paths{"a", "b"}));
  EXPECT_EQ(read("x.tgz", gzipped(first) + "garbage"), "garbage after the gzip stream");
  EXPECT_EQ(paths(), Paths{"a"});
}

TEST_F(ContentArchive, WhatIsNoArchiveIsSaidToBeNone) {
  EXPECT_EQ(read("x.tgz", ""), "not an archive (0 bytes)");
  EXPECT_EQ(read("x.tgz", gzipped("")), "not an archive (0 bytes)");
  EXPECT_EQ(read("x.tgz", noise(5000)), "not a tar archive");
  EXPECT_EQ(members_.size(), 0U);
}

TEST_F(ContentArchive, SkipsWhatTheCallerLeavesUnread) {
  const fs::path path = write("x.tgz", gzipped(tarred({{"a", noise(100'000)}, {"b", kText}})));
  std::vector<std::string> seen;
  const auto record = [&](const ArchiveMember& member, ContentReader&) {
    seen.push_back(member.path);
  };
  EXPECT_EQ(for_each_member(path, record, nullptr), "");
  EXPECT_EQ(seen, (Paths{"a", "b"}));
}

TEST_F(ContentArchive, PassesOnWhatACallbackThrows) {
  const fs::path path = write("x.tgz", gzipped(tarred({{"a", kText}})));
  const auto fail = [](const ArchiveMember&, ContentReader&) { throw std::logic_error("stop"); };
  EXPECT_THROW(for_each_member(path, fail, nullptr), std::logic_error);
}

TEST_F(ContentArchive, IsKnownByNameOrContent) {
  for (const std::string name : {"a.tgz", "a.tar.gz", "a.tar"}) EXPECT_TRUE(is_archive_name(name));
  for (const std::string name : {"a.gz", "tar", "a.tgz.md"}) EXPECT_FALSE(is_archive_name(name));
  const std::string bytes = tarred({{"a", kText}});
  EXPECT_TRUE(is_archive(write("lies.jsonl", bytes)));
  EXPECT_TRUE(is_archive(write("lies.jsonl.gz", gzipped(bytes))));
  EXPECT_FALSE(is_archive(write("a.jsonl", kText)));
  EXPECT_FALSE(is_archive(write("b.jsonl", noise(1000))));
  EXPECT_FALSE(is_archive(directory_ / "missing.jsonl"));
}

}  // namespace
}  // namespace greta
