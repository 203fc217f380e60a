#include "ingest/content/archive.h"

#include <cstdio>
#include <iterator>
#include <memory>
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
        *open_content(path),
        [this](const ArchiveMember& member, std::unique_ptr<ContentReader> content) {
          const std::string text = read_all(*content);
          members_.push_back({member.path, text, content->damage(), member.size_bytes});
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

TEST_F(ContentArchive, AnArchiveThatShrinksWhileItIsReadSaysSo) {
  const fs::path path = write("x.tar", tarred({{"a", noise(200'000)}, {"b", noise(200'000)}}));
  const auto reader = open_content(path);
  for_each_member(
      *reader,
      [&](const ArchiveMember& member, std::unique_ptr<ContentReader> content) {
        if (member.path == "a") fs::resize_file(path, 300'000);
        read_all(*content);
        EXPECT_EQ(content->change(), "");
      },
      nullptr);
  EXPECT_TRUE(reader->change().starts_with("the file shrank while it was read: "));
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

TEST_F(ContentArchive, SkipsWhatTheCallerLeavesUnreadAndPassesOnWhatItThrows) {
  const fs::path path = write("x.tgz", gzipped(tarred({{"a", noise(100'000)}, {"b", kText}})));
  std::vector<std::string> seen;
  const auto record = [&](const ArchiveMember& member, std::unique_ptr<ContentReader>) {
    seen.push_back(member.path);
  };
  EXPECT_EQ(for_each_member(*open_content(path), record, nullptr), "");
  EXPECT_EQ(seen, (Paths{"a", "b"}));
  const auto fail = [](const ArchiveMember&, std::unique_ptr<ContentReader>) {
    throw std::logic_error("stop");
  };
  EXPECT_THROW(for_each_member(*open_content(path), fail, nullptr), std::logic_error);
}

}  // namespace
}  // namespace greta
