#include "ingest/record/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/sha256.h"

namespace greta {
namespace {

using Strings = std::vector<std::string>;

/// Bytes in memory, handed out by at most `step` at a time; with damage at their end.
class MemoryReader : public ContentReader {
 public:
  explicit MemoryReader(std::string bytes, size_t step = SIZE_MAX, std::string damage = "")
      : bytes_(std::move(bytes)), step_(step), end_damage_(std::move(damage)) {}
  size_t read(char* buffer, size_t size) override {
    const size_t n = std::min({size, step_, bytes_.size() - at_});
    std::copy_n(bytes_.data() + at_, n, buffer);
    at_ += n;
    if (n == 0) add_damage(end_damage_);
    return n;
  }

 private:
  std::string bytes_;
  size_t step_, at_ = 0;
  std::string end_damage_;
};

struct Split {
  Strings lines;     // "number:text", "!" behind an unterminated one
  Strings overlong;  // "number:first bytes"
  StreamEnd end;
};

Split split(ContentReader& reader) {
  Split out;
  out.end = for_each_line(
      reader,
      [&](std::string_view line, size_t readable, int64_t no, bool terminated, int64_t) {
        EXPECT_GE(readable, line.size() + RecordParser::kPaddingBytes);
        volatile char last = line.data()[readable - 1];  // a sanitizer sees when it is not ours
        (void)last;
        out.lines.push_back(std::to_string(no) + ":" + std::string(line) + (terminated ? "" : "!"));
      },
      [&](std::string_view head, int64_t no) {
        out.overlong.push_back(std::to_string(no) + ":" + std::string(head.substr(0, 3)));
        EXPECT_EQ(head.size(), kKeptLineBytes);
      });
  return out;
}

Strings lines_of(const std::string& bytes, size_t step = SIZE_MAX) {
  MemoryReader reader(bytes, step);
  return split(reader).lines;
}

TEST(RecordStream, LinesAndTheirNumbers) {
  for (const size_t step : {size_t{1}, size_t{2}, size_t{3}, SIZE_MAX}) {
    SCOPED_TRACE(step);
    EXPECT_EQ(lines_of("", step), Strings());
    EXPECT_EQ(lines_of("\n", step), Strings({"1:"}));
    EXPECT_EQ(lines_of("a", step), Strings({"1:a!"}));
    EXPECT_EQ(lines_of("a\n", step), Strings({"1:a"}));
    EXPECT_EQ(lines_of("a\r\n\nb", step), Strings({"1:a\r", "2:", "3:b!"}));
    EXPECT_EQ(lines_of(std::string("a\0b\nc\n", 6), step),
              Strings({std::string("1:a\0b", 5), "2:c"}));
  }
}

TEST(RecordStream, AByteOrderMarkIsOnlyAtTheStart) {
  for (const size_t step : {size_t{1}, size_t{2}, size_t{4}, SIZE_MAX}) {
    SCOPED_TRACE(step);
    EXPECT_EQ(lines_of("\xEF\xBB\xBF"
                       "a\nb\n",
                       step),
              Strings({"1:a", "2:b"}));
    EXPECT_EQ(lines_of("\xEF\xBB\xBF\n", step), Strings({"1:"}));
    EXPECT_EQ(lines_of("\xEF\xBB\xBF", step), Strings());
    EXPECT_EQ(lines_of("\xEF\xBB", step), Strings({"1:\xEF\xBB!"}));
    EXPECT_EQ(lines_of("\n\xEF\xBB\xBF"
                       "a\n",
                       step),
              Strings({"1:",
                       "2:\xEF\xBB\xBF"
                       "a"}));
  }
}

TEST(RecordStream, TheEndSaysWhatWasRead) {
  MemoryReader reader("abc\ndef");
  const StreamEnd end = split(reader).end;
  EXPECT_EQ(end.bytes, 7);
  EXPECT_EQ(end.lines, 2);
  EXPECT_EQ(end.damage, "");
  Sha256 sha;
  sha.update("abc\ndef", 7);
  EXPECT_EQ(end.sha256, sha.hex());
}

TEST(RecordStream, LinesAcrossReadsOfAnySize) {
  std::string bytes;
  Strings wanted;
  for (size_t i = 0; i < 300; ++i) {
    const std::string line(i * 97 % 40'000, static_cast<char>('a' + i % 26));
    bytes += line + "\n";
    wanted.push_back(std::to_string(i + 1) + ":" + line);
  }
  for (const size_t step : {size_t{4093}, size_t{1} << 20, SIZE_MAX})
    EXPECT_EQ(lines_of(bytes, step), wanted);
}

TEST(RecordStream, OverlongLinesAreReportedOnceAndCounted) {
  const std::string long_line(kMaxLineBytes + (3u << 20), 'x');
  {
    MemoryReader reader("a\n" + long_line + "\nb\n");
    const Split out = split(reader);
    EXPECT_EQ(out.lines, Strings({"1:a", "3:b"}));
    EXPECT_EQ(out.overlong, Strings({"2:xxx"}));
    EXPECT_EQ(out.end.lines, 3);
  }
  {
    MemoryReader reader("a\n" + long_line);
    const Split out = split(reader);
    EXPECT_EQ(out.lines, Strings({"1:a"}));
    EXPECT_EQ(out.overlong, Strings({"2:xxx"}));
    EXPECT_EQ(out.end.lines, 2);
  }
}

TEST(RecordStream, DamageIsPassedOnWithTheLinesUpToIt) {
  MemoryReader reader("a\nb", SIZE_MAX, "cut");
  const StreamEnd end = split(reader).end;
  EXPECT_EQ(end.damage, "cut");
  EXPECT_EQ(end.lines, 2);
}

std::string stage_lines(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    text +=
        R"({"event":"stage_trace","prompt_id":"p","phase":"decode0","point":"x_in","layer":0,"pos_id":)" +
        std::to_string(i) + ",\"hash\":1}\n";
  }
  return text;
}

TEST(RecordStream, BatchesComeInOrderOnEitherThread) {
  const int n = 60'000;
  for (const bool threaded : {false, true}) {
    MemoryReader reader(stage_lines(n));
    RecordParser parser({});
    int64_t next = 0, lines = 0, bytes = 0, batches = 0;
    const StreamEnd end = stream_records(
        reader, parser, threaded,
        [&](RecordBatch& batch) {
          ++batches;
          lines += batch.lines;
          for (const TraceRow& row : batch.rows) EXPECT_EQ(row.pos_id, next++);
        },
        [&](int64_t read) {
          EXPECT_GE(read, bytes);
          bytes = read;
        });
    EXPECT_EQ(next, n);
    EXPECT_EQ(lines, n);
    EXPECT_EQ(end.lines, n);
    EXPECT_EQ(bytes, end.bytes);
    EXPECT_GT(batches, 3);
  }
}

TEST(RecordStream, AnExceptionOfTheWriterEndsBoth) {
  for (const bool threaded : {false, true}) {
    MemoryReader reader(stage_lines(100'000));
    RecordParser parser({});
    EXPECT_THROW(stream_records(
                     reader, parser, threaded,
                     [](RecordBatch&) { throw std::runtime_error("full"); }, [](int64_t) {}),
                 std::runtime_error);
  }
}

struct BrokenReader : ContentReader {
  size_t read(char*, size_t) override { throw std::runtime_error("broken"); }
};

TEST(RecordStream, AnExceptionOfTheReaderEndsBoth) {
  for (const bool threaded : {false, true}) {
    BrokenReader reader;
    RecordParser parser({});
    EXPECT_THROW(stream_records(
                     reader, parser, threaded, [](RecordBatch&) {}, [](int64_t) {}),
                 std::runtime_error);
  }
}

TEST(RecordStream, ALineCutByDamageIsTheTailAndNoFindingOfItsOwn) {
  const std::string whole = stage_lines(2);
  for (const bool threaded : {false, true}) {
    MemoryReader reader(whole.substr(0, whole.size() - 20), SIZE_MAX, "gzip stream is truncated");
    RecordParser parser({});
    size_t rows = 0, findings = 0;
    const StreamEnd end = stream_records(
        reader, parser, threaded,
        [&](RecordBatch& batch) { rows += batch.rows.size(), findings += batch.findings.size(); },
        [](int64_t) {});
    EXPECT_EQ(rows, 1u);
    EXPECT_EQ(findings, 0u);
    EXPECT_FALSE(end.tail.empty());
    EXPECT_EQ(end.damage, "gzip stream is truncated");
    EXPECT_EQ(end.lines, 2);
  }
}

}  // namespace
}  // namespace greta
