// Files of other tools that a test makes: byte by byte, without the tool.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/fingerprint/fingerprint.h"
#include "tests/ingest/importing.h"
#include "tests/ingest/made_archive.h"

namespace greta::made {

template <class T>
std::string bytes_of_values(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::string little(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

using Members = std::vector<std::pair<std::string, std::string>>;

// ---- pickles, protocol 2, as torch.save writes them

inline std::string pickled(const std::string& text) {
  return "X" + little(static_cast<uint32_t>(text.size())) + text;
}
inline std::string pickled(int64_t value) { return "\x8a\x08" + little(value); }
inline std::string pickled_tuple(const std::vector<int64_t>& values) {
  std::string bytes = "(";
  for (int64_t value : values) bytes += pickled(value);
  return bytes + "t";
}

struct MadeTensor {
  std::string storage = "0";
  std::string type = "FloatStorage";
  std::vector<int64_t> shape = {};
  std::vector<int64_t> stride = {};
  int64_t offset = 0;
  int64_t numel = 0;
  std::string metadata = "";  ///< a dict, pickled: {'neg': True}
};

inline std::string pickled(const MadeTensor& t) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled(std::string("storage")) + "ctorch\n" +
         t.type + "\n" + pickled(t.storage) + pickled(std::string("cpu")) + pickled(t.numel) +
         "tQ" + pickled(t.offset) + pickled_tuple(t.shape) + pickled_tuple(t.stride) +
         "\x89"
         "ccollections\nOrderedDict\n)R" +
         t.metadata + "tR";
}

inline std::string pickled_bit(bool value) { return value ? "\x88" : "\x89"; }

/// {key: value, ...}, values pickled already.
inline std::string pickled_dict(const Members& items) {
  std::string bytes = "}(";
  for (const auto& [key, value] : items) bytes += pickled(key) + value;
  return bytes + "u";
}

inline std::string pickle_of(const std::string& value) { return "\x80\x02" + value + "."; }

/// What torch.save makes of a value and its storages.
inline std::string torch_file(const std::string& value, const std::vector<std::string>& storages) {
  std::vector<MadeEntry> members = {{"archive/data.pkl", pickle_of(value)}};
  for (size_t i = 0; i < storages.size(); ++i) {
    members.push_back({"archive/data/" + std::to_string(i), storages[i]});
  }
  members.push_back({"archive/version", "3\n"});
  return zipped(members);
}

inline std::string npy_of_header(std::string header, const std::string& data) {
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + little(static_cast<uint16_t>(header.size())) +
         header + data;
}

inline std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                       bool fortran = false) {
  return npy_of_header("{'descr': " + descr + ", 'fortran_order': " + (fortran ? "True" : "False") +
                           ", 'shape': " + shape + ", }",
                       data);
}

/// Writes bytes into a ZIP's header of its first member: into the local one ("PK\3\4"), or into
/// that of the central directory ("PK\1\2").
inline std::string with_header_bytes(std::string zip, const char* magic, size_t at,
                                     const std::string& bytes) {
  return zip.replace(zip.find(magic) + at, bytes.size(), bytes);
}

inline std::string safetensors(const std::string& header, const std::string& data) {
  return little(static_cast<uint64_t>(header.size())) + header + data;
}

}  // namespace greta::made

namespace greta {

struct ForeignImporting : Importing {
  /// Ingests one file of these bytes.
  IngestSummary take_file(const std::string& name, const std::string& bytes) {
    folder.write("in/" + name, bytes);
    return take("in");
  }
  /// Rows as "a|b", in the order of their lines and positions.
  std::string traced(const std::string& columns, const std::string& where = "1") {
    return rows("SELECT " + columns + " FROM trace WHERE " + where +
                " ORDER BY source_file, source_line, step, pos_id, layer, tensor");
  }
};

/// greta's own hash of values, as views print it.
inline std::string printed_hash(const std::vector<float>& values) {
  return std::to_string(fingerprint(values).hash);
}

}  // namespace greta
