#include "ingest/importer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <system_error>

#include "tests/ingest/importing.h"

namespace greta {
namespace {

using Archives = Importing;

TEST_F(Archives, AMemberThatIsDamagedOfItselfIsAFinding) {
  std::string broken = gzipped(small_trace("p1"));
  broken[broken.size() - 8] = static_cast<char>(broken[broken.size() - 8] ^ 1);
  folder.write(kRun + "runs.tgz", gzipped(tarred({{"decode/logits.jsonl.gz", ""},
                                                  {"a/p1_trace.jsonl.gz", broken},
                                                  {"b/p2_trace.jsonl", small_trace("p2")}})));
  const IngestSummary summary = take();
  EXPECT_EQ(summary.files, 3);
  EXPECT_EQ(summary.rows, 8);
  EXPECT_EQ(summary.errors, 2);
  EXPECT_EQ(findings(), "error 0 not a gzip stream (0 bytes)\nerror 0 gzip CRC does not match");
  const std::string before = dump(db);
  take();
  EXPECT_TRUE(same_dump(before, dump(db)));
}

TEST_F(Archives, ACutArchiveGivesItsWholeMembers) {
  std::string noise = "Result: PASS\n" + std::string(200'000, ' ');
  std::mt19937 random(1);
  for (size_t i = 13; i < noise.size(); ++i) noise[i] = static_cast<char>('a' + random() % 26);
  const std::string archive =
      gzipped(tarred({{"a/p0_short_trace.jsonl", small_trace()}, {"b/notes.md", noise}}));
  folder.write(kRun + "runs.tgz", archive.substr(0, archive.size() / 2));
  const IngestSummary summary = take();
  EXPECT_EQ(summary.rows, 4);
  EXPECT_EQ(summary.errors, 1);
  EXPECT_NE(findings().find("b/notes.md"), std::string::npos) << findings();
  folder.write(kRun + "runs.tgz", archive);  // fetched again
  EXPECT_EQ(take().new_sources, 1);
  EXPECT_EQ(count("source"), 2);
}

TEST_F(Archives, AnArchiveIsToldByItsContentTooAndNotPassedOverInAnother) {
  const std::string inner = tarred({{"p0_trace.jsonl", small_trace()}});
  folder.write(kRun + "runs.tgz", gzipped(tarred({{"in.tgz", gzipped(inner)}, {"in", inner}})));
  EXPECT_EQ(take().errors, 2);
  EXPECT_EQ(count("source"), 0);
  folder.write(kRun + "lies.jsonl.gz", gzipped(inner));
  EXPECT_EQ(take().rows, 4);
}

TEST_F(Archives, NoRunPassesBesideOneThatIsCalledAText) {
  const std::pair<const char*, std::string> packings[] = {{"xz", std::string("\xFD"
                                                                             "7zXZ\0",
                                                                             6)},
                                                          {"zstd", "\x28\xB5\x2F\xFD"},
                                                          {"a ZIP archive", "PK\x03\x04"},
                                                          {"bzip2", "BZh91AY&SY"},
                                                          {"a 7z archive", "7z\xBC\xAF\x27\x1C"}};
  folder.write(kRun + "a_trace.jsonl", std::string(StageLine{}) + "\n" +
                                           std::string(StageLine{.phase = "decode0", .step = 1}));
  take();
  ASSERT_EQ(rows("SELECT verdict FROM run_verdict"), "PASS");
  for (const auto& [name, magic] : packings) {
    for (const char* file : {"run.log", "notes.md", "notes.txt", "pairs.csv", "run.json"}) {
      SCOPED_TRACE(std::string(name) + " " + file);
      folder.write(kRun + file, magic + std::string(100, '\1'));
      take();
      EXPECT_NE(findings().find("error 0 " + std::string(name) + " that is not read"),
                std::string::npos)
          << findings();
      EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "INCOMPLETE");
      forget_findings();
      fs::remove(folder / (kRun + file));
    }
  }
}

TEST_F(Archives, NoRunPassesBesideATextInUtf16) {
  const auto wide = [](std::string_view text, bool big, bool marked) {
    std::string bytes = !marked ? "" : big ? "\xFE\xFF" : "\xFF\xFE";
    for (const char c : text) bytes += big ? std::string({'\0', c}) : std::string({c, '\0'});
    return bytes;
  };
  folder.write(kRun + "a_trace.jsonl", std::string(StageLine{}) + "\n" +
                                           std::string(StageLine{.phase = "decode0", .step = 1}));
  for (const bool big : {false, true}) {
    for (const bool marked : {false, true}) {
      folder.write(kRun + "notes.md", wide("RESULT: FAIL\n", big, marked));
      take();
      EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "INCOMPLETE");
      EXPECT_EQ(findings(), "error 0 a text in UTF-16, which is not read: write it as UTF-8");
      forget_findings();
    }
  }
}

using Odd = Importing;

TEST_F(Odd, WhatIsNoRegularFileIsAFindingAndNotOpened) {
  folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
  for (const char* name : {"traces/fifo.jsonl", "fifo.tgz", "fifo"}) {
    ASSERT_EQ(mkfifo((folder / (kRun + name)).c_str(), 0600), 0);
  }
  fs::create_symlink("/dev/zero", folder / (kRun + "zero.jsonl"));
  fs::create_symlink("nowhere", folder / (kRun + "dangling.jsonl"));
  const IngestSummary summary = take();
  EXPECT_EQ(summary.rows, 4);
  EXPECT_EQ(summary.errors, 5);
  const std::string before = dump(db);
  EXPECT_EQ(take().errors, 0);  // each is listed already
  EXPECT_TRUE(same_dump(before, dump(db)));
}

TEST_F(Odd, ALinkedDirectoryIsNotPassedOverInSilence) {
  folder.write("elsewhere/p0_short_trace.jsonl", small_trace());
  folder.write(kRun + "notes.md", "# B3.66\n");
  fs::create_directory_symlink(folder / "elsewhere", folder / (kRun + "link"));
  fs::create_directory_symlink(folder / kRun, folder / (kRun + "loop"));
  take();
  EXPECT_EQ(count("source_location", "path LIKE '%/link/%'") +
                count("ingest_error", "file LIKE '%/link'"),
            1);
  EXPECT_EQ(count("ingest_error", "file LIKE '%/loop'"), 1);
}

struct Linked : Importing {
  Linked() {
    folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
    folder.write("elsewhere/p1_trace.jsonl", small_trace("p1"));
    folder.write("elsewhere/deep/p2_trace.jsonl", small_trace("p2"));
  }
  void link(const fs::path& target, const std::string& name) {
    fs::create_symlink(target, folder / (kRun + name));
  }
  IngestSummary follow() {
    IngestOptions options;
    options.follow = true;
    return ingest(db, {folder / "artifacts_remote"}, options);
  }
  std::string reason(const std::string& name) {
    return rows("SELECT severity || ' ' || reason FROM ingest_error WHERE file LIKE '%/" + name +
                "'");
  }
};

TEST_F(Linked, OutOfTheTreeIsAFindingAndNotRead) {
  link(folder / "elsewhere/p1_trace.jsonl", "p1_trace.jsonl");
  link("../../../elsewhere/deep", "deep");
  link(folder.path(), "up");
  link("/etc/passwd", "passwd.jsonl");
  EXPECT_EQ(take().rows, 4);
  EXPECT_EQ(count("source_location"), 1);
  const std::string why = " a link out of the directory given is not followed without --follow";
  for (const char* name : {"deep", "up"}) EXPECT_EQ(reason(name), "warning" + why) << name;
  for (const char* name : {"p1_trace.jsonl", "passwd.jsonl"}) {
    EXPECT_EQ(reason(name), "error" + why) << name;
  }
}

TEST_F(Linked, NoRunPassesBesideATraceThatWasNotFollowed) {
  const std::string lines = std::string(StageLine{.hash = "10"}) + "\n" +
                            std::string(StageLine{.phase = "decode0", .step = 1, .hash = "10"});
  folder.write(kRun + "traces/p0_short_trace.jsonl", lines);
  link("../../../elsewhere/deep", "model");
  take();
  ASSERT_EQ(rows("SELECT verdict FROM run_verdict"), "PASS");
  for (const char* name : {"more.jsonl", "more.jsonl.gz", "more.TGZ"}) {
    link(folder / "elsewhere/p1_trace.jsonl", name);
    take();
    EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "INCOMPLETE") << name;
    forget_findings();
    fs::remove(folder / (kRun + name));
  }
}

TEST_F(Linked, AFileOfTheSameTreeIsRead) {
  folder.write("artifacts_remote/pool/x_trace.jsonl", small_trace("p9"));
  link("../../pool/x_trace.jsonl", "x_trace.jsonl");
  link(folder / "artifacts_remote/pool", "pool");
  EXPECT_EQ(take().warnings, 1);
  EXPECT_EQ(count("source_location", "path LIKE '%b3_66/x_trace.jsonl'"), 1);
  EXPECT_NE(reason("pool").find("it is read where it lies"), std::string::npos) << reason("pool");
}

TEST_F(Linked, ATreeWhoseNameBeginsLikeTheOneGivenIsAnotherOne) {
  folder.write("artifacts_remote2/p1_trace.jsonl", small_trace("p1"));
  link(folder / "artifacts_remote2/p1_trace.jsonl", "p1_trace.jsonl");
  EXPECT_EQ(take().rows, 4);
}

TEST_F(Linked, AskedToFollowReadsEveryDirectoryOnceAndEnds) {
  link(folder / "elsewhere", "a");
  link(folder / "elsewhere", "b");
  link(folder / "elsewhere/p1_trace.jsonl", "p1_trace.jsonl");
  link(folder / kRun, "itself");
  link(folder / "elsewhere", "../../up");
  fs::create_symlink(folder.path(), folder / "elsewhere/all");
  fs::create_symlink("loop", folder / "elsewhere/loop");
  follow();
  EXPECT_EQ(count("source_location"), 4);  // of three files, one by itself and in a
  EXPECT_NE(reason("b").find("read elsewhere"), std::string::npos) << reason("b");
  EXPECT_NE(reason("itself").find("where it lies"), std::string::npos) << reason("itself");
  EXPECT_EQ(reason("loop").substr(0, 30), "error cannot follow this link:");
  EXPECT_EQ(count("source_location", "path LIKE '%/a/p1_trace.jsonl'"), 1);
}

TEST_F(Linked, AskedToFollowReadsNoDeviceAndNothingOfTheKernel) {
  link("/proc/self/environ", "environ.jsonl");
  link("/proc/self", "self");
  link("/dev/zero", "zero.jsonl");
  link("/sys", "sys");
  ASSERT_EQ(mkfifo((folder / "elsewhere/fifo").c_str(), 0600), 0);
  link(folder / "elsewhere/fifo", "fifo.jsonl");
  const IngestSummary summary = follow();
  EXPECT_EQ(summary.rows, 4);
  EXPECT_EQ(summary.errors, 5);
}

TEST_F(Linked, AGivenPathMayBeALink) {
  fs::create_directory_symlink(folder / "artifacts_remote", folder / "given");
  EXPECT_EQ(take("given").rows, 4);
  fs::create_symlink(folder / "elsewhere/p1_trace.jsonl", folder / "p1_trace.jsonl");
  EXPECT_EQ(take("p1_trace.jsonl").rows, 4);
}

TEST_F(Odd, WhatTheKernelShowsAsFilesIsNotReadWhenGivenEither) {
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  for (const fs::path& path : {fs::path("/proc/self/environ"), fs::path("/proc/self/fd"),
                               fs::path("/dev/null"), fs::path("/sys"), folder / "fifo"}) {
    const IngestSummary summary = ingest_all(db, {path});
    EXPECT_EQ(summary.errors, 1) << path;
    EXPECT_EQ(summary.files, 1) << path;
  }
  EXPECT_EQ(count("source"), 0);
}

TEST_F(Odd, AGivenPathThatDoesNotExistIsAnError) {
  EXPECT_THROW(take("nowhere"), std::system_error);
  EXPECT_EQ(count("ingest_error"), 0);
}

TEST_F(Odd, WhatMayNotBeReadIsAFinding) {
  folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
  folder.write(kRun + "traces/secret_trace.jsonl", small_trace("p1"));
  folder.write(kRun + "locked/p2_trace.jsonl", small_trace("p2"));
  fs::create_directory(folder / "place");
  for (const fs::path& path : {folder.path(), folder / "place"}) {
    fs::permissions(path, fs::perms::all);
  }
  fs::permissions(folder / (kRun + "traces/secret_trace.jsonl"), fs::perms::none);
  fs::permissions(folder / (kRun + "locked"), fs::perms::none);
  const int status = in_child([&] {
    if (geteuid() == 0 && seteuid(65534) != 0) return 77;  // root may read everything
    SQLite::Database own = open_for_writing(folder / "place/g.db");
    const IngestSummary summary = ingest_all(own, {folder / "artifacts_remote"});
    if (summary.rows != 4) return 1;
    if (number_of(own, "SELECT count(*) FROM ingest_error WHERE file LIKE '%secret_trace.jsonl'") !=
        1)
      return 2;
    if (number_of(own, "SELECT count(*) FROM ingest_error WHERE file LIKE '%locked'") != 1)
      return 3;
    return 0;
  });
  fs::permissions(folder / (kRun + "locked"), fs::perms::all);
  if (status == 77) GTEST_SKIP() << "cannot give up the rights of root";
  EXPECT_EQ(status, 0);
}

TEST_F(Importing, ADryRunSaysTheSameAndLeavesNoTrace) {
  write_tree(folder);
  const std::string before = dump(db);
  IngestOptions options;
  options.dry_run = true;
  const IngestSummary dry = ingest(db, {folder / "artifacts_remote"}, options);
  EXPECT_TRUE(same_dump(before, dump(db)));
  const IngestSummary wet = take();
  EXPECT_EQ(dry.files, wet.files);
  EXPECT_EQ(dry.new_sources, wet.new_sources);
  EXPECT_EQ(dry.rows, wet.rows);
  EXPECT_EQ(dry.duplicates, wet.duplicates);
  EXPECT_EQ(dry.errors, wet.errors);
  EXPECT_EQ(dry.warnings, wet.warnings);
  EXPECT_EQ(dry.log_events, wet.log_events);
  EXPECT_EQ(dry.metrics, wet.metrics);
  EXPECT_EQ(dry.findings.size(), wet.findings.size());
  EXPECT_GT(wet.rows, 0);
}

TEST_F(Importing, WhatAnEarlierIngestFoundIsCountedAgain) {
  write_tree(folder);
  folder.write("artifacts_remote/2026-02-01/b3_60/copy/p1_trace.jsonl.gz", gzipped("bad line\n"));
  folder.write("artifacts_remote/2026-02-01/b3_60/copy2/p1_trace.jsonl.gz", gzipped("bad line\n"));
  fs::create_symlink("nowhere", folder / "artifacts_remote/dangling");
  const IngestSummary first = take();
  EXPECT_GT(first.errors, 0);
  EXPECT_GT(first.warnings, 0);
  EXPECT_EQ(first.known_errors, 0);
  EXPECT_EQ(first.known_warnings, 0);
  IngestOptions dry;
  dry.dry_run = true;
  for (const IngestSummary& again :
       {ingest(db, {folder / "artifacts_remote"}, dry), take(), take()}) {
    EXPECT_EQ(again.errors, 0);
    EXPECT_EQ(again.warnings, 0);
    EXPECT_EQ(again.known_errors, first.errors);
    EXPECT_EQ(again.known_warnings, first.warnings);
  }
  EXPECT_EQ(count("ingest_error"), first.errors + first.warnings);
}

TEST_F(Importing, WhatWasFoundInOtherFilesIsNotCounted) {
  write_tree(folder);
  take();
  EXPECT_EQ(take("artifacts_remote/2026-02-01/b3_60/traces/p0_trace.jsonl").known_errors, 0);
  EXPECT_EQ(take("artifacts_remote/2026-02-01/b3_60/traces/p1_trace.jsonl.gz").known_errors, 1);
}

TEST_F(Importing, ACopyInTheSameIngestIsNoKnownProblem) {
  const std::string bad = "bad line\n" + small_trace();
  folder.write(kRun + "traces/p0_short_trace.jsonl", bad);
  folder.write("artifacts_remote/mirror/2026-02-07/b3_66/traces/p0_short_trace.jsonl", bad);
  const IngestSummary summary = take();
  EXPECT_EQ(summary.known_sources, 1);
  EXPECT_EQ(summary.errors, 1);
  EXPECT_EQ(summary.known_errors, 0);
  EXPECT_EQ(take().known_errors, 1);  // of one source, in two files
}

TEST_F(Importing, ADryRunThatFailsLeavesTheDatabaseUsable) {
  write_tree(folder, 1);
  IngestOptions options;
  options.dry_run = true;
  options.progress = [](const IngestProgress& p) {
    if (p.files_done == 3) throw std::runtime_error("stop");
  };
  EXPECT_THROW(ingest(db, {folder / "artifacts_remote"}, options), std::runtime_error);
  EXPECT_GT(take().rows, 0);
}

// To open and close a file drops every lock of the process on it: others could then write at the
// same time, or remove the log.
TEST_F(Importing, OfADirectoryThatHoldsTheDatabaseItLeavesItsFilesAlone) {
  folder.write(kRun + "traces/p0_trace.jsonl", StageLine{.pos = 1});
  std::filesystem::create_hard_link(folder / "g.db", folder / "copy.db");
  const IngestSummary summary = take("");
  EXPECT_EQ(summary.rows, 1);
  EXPECT_EQ(rows("SELECT group_concat(substr(file, length(file) - 4)) FROM (SELECT file FROM"
                 " ingest_error WHERE reason = 'of the database that is written to: not read'"
                 " ORDER BY file)"),
            "py.db,/g.db,b-shm,b-wal");
  const int fd = ::open((folder / "g.db").c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_start = 0x40000002;  // SQLite's shared lock
  lock.l_len = 510;
  EXPECT_EQ(::fcntl(fd, F_OFD_GETLK, &lock), 0);
  EXPECT_EQ(lock.l_type, F_RDLCK);
  ::close(fd);
}

TEST_F(Importing, TheNumberOfJobsDoesNotMatter) {
  write_tree(folder);
  const std::string large = large_trace();
  folder.write(kRun + "traces/p0_short_trace.jsonl", large);
  take("artifacts_remote", 1);
  TemporaryFolder own;
  SQLite::Database other = open_for_writing(own / "g.db");
  ingest_all(other, {folder / "artifacts_remote"}, 2);
  EXPECT_TRUE(same_dump(dump(db), dump(other)));
}

TEST_F(Importing, ProgressEndsWhereItSaid) {
  write_tree(folder, 2);
  IngestProgress last;
  int64_t calls = 0;
  IngestOptions options;
  options.progress = [&](const IngestProgress& p) {
    EXPECT_GE(p.files_done, last.files_done);
    EXPECT_GE(p.bytes_done, last.bytes_done);
    EXPECT_LE(p.bytes_done, p.bytes_total);
    last = p;
    ++calls;
  };
  ingest(db, {folder / "artifacts_remote"}, options);
  EXPECT_EQ(last.files_done, last.files_total);
  EXPECT_EQ(last.bytes_done, last.bytes_total);
  EXPECT_GT(calls, last.files_total);
}

}  // namespace
}  // namespace greta
