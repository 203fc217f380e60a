#include "ingest/content/decoding_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <string>
#include <utility>

namespace greta {
namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b";

}  // namespace

DecodingReader::Inflater::Inflater() {
  if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
}

DecodingReader::Inflater::~Inflater() { inflateEnd(&stream_); }

DecodingReader::DecodingReader(std::unique_ptr<ByteSource> source, bool is_named_gzip)
    : input_(std::move(source)) {
  stored_bytes_ = input_.source().size_bytes();
  const std::string_view head = input_.peek(kGzipMagic.size());
  is_compressed_ = head.starts_with(kGzipMagic);
  if (is_compressed_) {
    state_ = State::kHeader;
    if (!is_named_gzip) notes_.push_back("gzip content under another name");
  } else if (!input_.error().empty()) {
    end("");
  } else if (is_named_gzip) {
    add_damage(head.empty() ? "not a gzip stream (0 bytes)"
                            : "named .gz but is not gzip; read as plain text");
  }
}

size_t DecodingReader::read(char* buffer, size_t size_bytes) {
  while (size_bytes > 0 && state_ != State::kEnd) {
    size_t count = 0;
    switch (state_) {
      case State::kPlain:
        count = read_plain(buffer, size_bytes);
        break;
      case State::kHeader:
        read_header();
        break;
      case State::kDeflate:
        count = read_deflate(buffer, size_bytes);
        break;
      case State::kTrailer:
        read_trailer();
        break;
      case State::kBetween:
        find_next_member();
        break;
      case State::kEnd:
        break;
    }
    if (count > 0) return count;
  }
  return 0;
}

void DecodingReader::end(std::string_view damage) {
  source_failed_ = !input_.error().empty();
  change_ = input_.source().change();
  add_damage(source_failed_ ? std::string_view(input_.error()) : damage);
  state_ = State::kEnd;
}

size_t DecodingReader::read_plain(char* buffer, size_t size_bytes) {
  const std::string_view bytes = input_.peek(1).substr(0, size_bytes);
  if (bytes.empty()) end("");
  std::copy(bytes.begin(), bytes.end(), buffer);
  input_.skip(bytes.size());
  return bytes.size();
}

// RFC 1952, 2.3: magic, method, flags, mtime (4), xfl, os; then what the flags announce.
void DecodingReader::read_header() {
  constexpr uint8_t kDeflateMethod = 8, kHeaderCrc = 2, kExtra = 4, kName = 8, kComment = 16;
  constexpr uint8_t kReserved = 0xe0;
  std::array<uint8_t, 10> head;
  for (uint8_t& byte : head) {
    const auto next = input_.next();
    if (!next) return end_truncated();
    byte = *next;
  }
  const uint8_t flags = head[3];
  if (head[2] != kDeflateMethod) return end("gzip data is corrupt (unknown method)");
  if ((flags & kReserved) != 0) return end("gzip data is corrupt (unknown flags)");
  if ((flags & kExtra) != 0 && !skip_extra_field()) return end_truncated();
  if ((flags & kName) != 0 && !skip_string()) return end_truncated();
  if ((flags & kComment) != 0 && !skip_string()) return end_truncated();
  if ((flags & kHeaderCrc) != 0 && !skip_bytes(2)) return end_truncated();
  inflater_.reset();
  crc_ = ::crc32(0, nullptr, 0);
  length_ = 0;
  ++members_;
  state_ = State::kDeflate;
}

bool DecodingReader::skip_bytes(size_t count) {
  while (count > 0 && input_.next()) --count;
  return count == 0;
}

bool DecodingReader::skip_extra_field() {
  const auto low = input_.next(), high = input_.next();
  return low && high && skip_bytes(static_cast<size_t>(*low | *high << 8));
}

bool DecodingReader::skip_string() {
  for (;;) {
    const auto byte = input_.next();
    if (!byte || *byte == 0) return byte.has_value();
  }
}

// Input is asked for only when inflate can do nothing more with what it has, so that a cut
// stream gives up every byte it holds.
size_t DecodingReader::read_deflate(char* buffer, size_t size_bytes) {
  z_stream& stream = inflater_.stream();
  const uInt room =
      static_cast<uInt>(std::min<size_t>(size_bytes, std::numeric_limits<uInt>::max()));
  const std::string_view bytes = available_;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(buffer);
  stream.avail_out = room;
  const int result = ::inflate(&stream, Z_NO_FLUSH);
  consume(bytes.size() - stream.avail_in);
  const uInt count = room - stream.avail_out;
  crc_ = ::crc32(crc_, reinterpret_cast<const Bytef*>(buffer), count);
  length_ += count;
  if (result == Z_STREAM_END) {
    state_ = State::kTrailer;
  } else if (result != Z_OK && result != Z_BUF_ERROR) {
    const char* reason = stream.msg != nullptr ? stream.msg : "no deflate stream";
    end("gzip data is corrupt (" + std::string(reason) + ")");
  } else if (count == 0 && available_.empty()) {
    available_ = input_.peek(1);
    if (available_.empty()) end_truncated();
  }
  return count;
}

void DecodingReader::consume(size_t count) {
  available_.remove_prefix(count);
  input_.skip(count);
}

void DecodingReader::read_trailer() {
  available_ = {};
  std::array<uint32_t, 2> words = {0, 0};  // CRC-32 and length mod 2^32, little-endian
  for (uint32_t& word : words) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      const auto byte = input_.next();
      if (!byte) return end_truncated();
      word |= static_cast<uint32_t>(*byte) << shift;
    }
  }
  if (words[0] != crc_) {
    add_damage("gzip CRC does not match");
  } else if (words[1] != length_) {
    add_damage("gzip length does not match");
  }
  state_ = State::kBetween;
}

// After a member: the end, another member, or the zeros with which tapes are padded.
void DecodingReader::find_next_member() {
  const std::string_view head = input_.peek(kGzipMagic.size());
  if (head.starts_with(kGzipMagic)) {
    state_ = State::kHeader;
    return;
  }
  if (members_ > 1) notes_.push_back(std::to_string(members_) + " gzip members");
  if (head.empty()) return end("");
  auto byte = input_.next();
  while (byte && *byte == 0) byte = input_.next();
  if (!byte) notes_.push_back("zero padding after the gzip stream");
  end(byte ? "garbage after the gzip stream" : "");
}

}  // namespace greta
