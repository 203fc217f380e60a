#pragma once
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "ingest/content/byte_source.h"
#include "ingest/content/reader.h"

namespace greta {

/// Whether a name promises gzip.
inline bool is_gzip_name(std::string_view name) { return name.ends_with(".gz"); }

/// Plain bytes as they are, gzip by its magic, with any number of members (RFC 1952). The framing
/// is ours, because zlib's own stops for good at a wrong CRC and does not tell a cut trailer from a
/// cut stream.
class DecodingReader : public ContentReader {
 public:
  /// Content that is not what a name in .gz promises is damage.
  DecodingReader(std::unique_ptr<ByteSource> source, bool is_named_gzip);

  size_t read(char* buffer, size_t size_bytes) override;

 private:
  enum class State { kPlain, kHeader, kDeflate, kTrailer, kBetween, kEnd };

  /// zlib's inflate of raw deflate.
  class Inflater {
   public:
    Inflater();
    ~Inflater();
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    z_stream& stream() { return stream_; }
    void reset() { inflateReset(&stream_); }

   private:
    z_stream stream_ = {};
  };

  void end(std::string_view damage);
  void end_truncated() { end("gzip stream is truncated"); }
  size_t read_plain(char* buffer, size_t size_bytes);
  void read_header();
  bool skip_bytes(size_t count);
  bool skip_extra_field();
  bool skip_string();
  size_t read_deflate(char* buffer, size_t size_bytes);
  void consume(size_t count);
  void read_trailer();
  void find_next_member();

  ByteBuffer input_;
  Inflater inflater_;
  State state_ = State::kPlain;
  std::string_view available_;  // what inflate may take of input_'s buffer
  uLong crc_ = 0;
  uint32_t length_ = 0;  // mod 2^32, as the trailer has it
  uint64_t members_ = 0;
};

}  // namespace greta
