#include "ingest/record/stream.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "common/sha256.h"
#include "common/thread.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kReadBytes = 1u << 20;

/// Hands batches from the parsing thread to the writing one, at most two at a time, and takes the
/// written ones back, so that their memory is not given up and faulted in again.
class BatchQueue {
 public:
  std::unique_ptr<RecordBatch> empty_batch() {
    std::lock_guard lock(mutex_);
    if (written_.empty()) return std::make_unique<RecordBatch>();
    auto batch = std::move(written_.back());
    written_.pop_back();
    return batch;
  }
  void give_back(std::unique_ptr<RecordBatch> batch) {
    batch->clear();
    std::lock_guard lock(mutex_);
    written_.push_back(std::move(batch));
  }
  /// False when the consumer has given up.
  bool push(std::unique_ptr<RecordBatch> batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.size() < 2 || closed_; });
    if (closed_) return false;
    queue_.push_back(std::move(batch));
    changed_.notify_all();
    return true;
  }
  /// Null after finish(), once the queue is empty.
  std::unique_ptr<RecordBatch> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !queue_.empty() || finished_; });
    if (queue_.empty()) return nullptr;
    auto batch = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    return batch;
  }
  void finish() {
    std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<RecordBatch>> queue_;
  std::vector<std::unique_ptr<RecordBatch>> written_;
  bool finished_ = false, closed_ = false;
};

}  // namespace

StreamEnd for_each_line(
    ContentReader& reader,
    const std::function<void(std::string_view, size_t, int64_t, bool, int64_t)>& on_line,
    const std::function<void(std::string_view, int64_t)>& on_overlong) {
  StreamEnd end;
  Sha256 sha;
  const size_t read_bytes =
      std::clamp<size_t>(reader.bytes_left().value_or(kReadBytes), 1, kReadBytes);
  std::vector<char> buffer(2 * read_bytes + RecordParser::kPaddingBytes);
  size_t begin = 0, filled = 0;  // [begin, filled) is not yet split
  bool skipping = false;         // inside an overlong line
  bool at_start = true;
  for (;;) {
    if (buffer.size() - RecordParser::kPaddingBytes - filled < read_bytes) {
      std::memmove(buffer.data(), buffer.data() + begin, filled - begin);
      filled -= begin;
      begin = 0;
      if (buffer.size() - RecordParser::kPaddingBytes - filled < read_bytes) {
        size_t room =
            std::min(2 * filled, kMaxLineBytes + read_bytes);  // no line grows beyond that
        buffer.resize(room + read_bytes + RecordParser::kPaddingBytes);
      }
    }
    size_t got = reader.read(buffer.data() + filled, read_bytes);
    if (got == 0) break;
    sha.update(buffer.data() + filled, got);
    size_t scan = filled;
    filled += got;
    end.bytes += static_cast<int64_t>(got);
    if (at_start && end.bytes >= 3) {
      at_start = false;
      if (begin == 0 && std::string_view(buffer.data(), filled).starts_with(utf8::kByteOrderMark)) {
        begin = utf8::kByteOrderMark.size();
        scan = std::max(scan, begin);
      }
    }
    while (const void* newline = std::memchr(buffer.data() + scan, '\n', filled - scan)) {
      size_t at = static_cast<size_t>(static_cast<const char*>(newline) - buffer.data());
      ++end.lines;
      if (!skipping) {
        on_line({buffer.data() + begin, at - begin}, buffer.size() - begin, end.lines, true,
                end.bytes);
      }
      skipping = false;
      begin = scan = at + 1;
    }
    if (filled - begin > kMaxLineBytes) {
      if (!skipping) on_overlong({buffer.data() + begin, kKeptLineBytes}, end.lines + 1);
      skipping = true;
      begin = filled;
    }
  }
  if (skipping) ++end.lines;  // an overlong last line without newline
  if (begin < filled && !skipping) {
    ++end.lines;
    on_line({buffer.data() + begin, filled - begin}, buffer.size() - begin, end.lines, false,
            end.bytes);
  }
  end.sha256 = sha.hex();
  end.damage = reader.damage();
  return end;
}

StreamEnd parse_records(ContentReader& reader, RecordParser& parser, const BatchTaker& take) {
  auto batch = std::make_unique<RecordBatch>();
  struct Stopped {};
  int64_t seen_bytes = 0;
  std::string tail;
  auto hand_over = [&] {
    if (!batch->is_full()) return;
    batch = take(std::move(batch), seen_bytes);
    if (!batch) throw Stopped{};
  };
  auto on_line = [&](std::string_view line, size_t readable, int64_t line_no, bool terminated,
                     int64_t bytes_read) {
    seen_bytes = bytes_read;
    size_t findings = batch->findings.size();
    parser.parse(line, readable, line_no, *batch);
    if (!terminated && !reader.damage().empty() && batch->findings.size() > findings) {
      // The bytes end inside this line: the damage of the file is the one finding for it.
      tail = kept_part(line);
      batch->findings.resize(findings);
    }
    hand_over();
  };
  auto on_overlong = [&](std::string_view head, int64_t line_no) {
    parser.refuse(
        head, line_no,
        "line longer than " + std::to_string(kMaxLineBytes >> 20) + " MiB; its first MiB is kept",
        *batch);
    hand_over();
  };
  StreamEnd end;
  try {
    end = for_each_line(reader, on_line, on_overlong);
    end.tail = std::move(tail);
    parser.finish(*batch);
    take(std::move(batch), seen_bytes);
  } catch (const Stopped&) {
  }
  return end;
}

StreamEnd stream_records(ContentReader& reader, RecordParser& parser, bool on_other_thread,
                         const std::function<void(RecordBatch&)>& write,
                         const std::function<void(int64_t)>& on_bytes) {
  if (!on_other_thread) {
    return parse_records(reader, parser, [&](std::unique_ptr<RecordBatch> batch, int64_t bytes) {
      write(*batch);
      on_bytes(bytes);
      batch->clear();
      return batch;
    });
  }
  BatchQueue queue;
  StreamEnd end;
  std::exception_ptr parse_error;
  std::atomic<int64_t> bytes_read = 0;
  std::thread parsing = start_thread([&] {
    try {
      end = parse_records(reader, parser, [&](std::unique_ptr<RecordBatch> batch, int64_t bytes) {
        bytes_read = bytes;
        return queue.push(std::move(batch)) ? queue.empty_batch() : nullptr;
      });
    } catch (...) {
      parse_error = std::current_exception();
    }
    queue.finish();
  });
  std::exception_ptr write_error;
  try {
    while (auto batch = queue.pop()) {
      write(*batch);
      on_bytes(bytes_read);
      queue.give_back(std::move(batch));
    }
  } catch (...) {
    write_error = std::current_exception();
    queue.close();
  }
  parsing.join();
  if (write_error) std::rethrow_exception(write_error);
  if (parse_error) std::rethrow_exception(parse_error);
  return end;
}

}  // namespace greta
