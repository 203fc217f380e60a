// What a ZIP holds: a pickle of torch.save with its storages, or arrays of NumPy.
#include <algorithm>
#include <map>
#include <set>

#include "common/utf8.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/files.h"
#include "ingest/foreign/pickle.h"
#include "ingest/foreign/tensor_set.h"
#include "ingest/foreign/zip.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// A member up to this size is held in memory, a larger one read piece by piece.
constexpr size_t kHeldBytes = size_t{32} << 20;

/// Calls `use` with the bytes of the member that the reader is at.
template <class Use>
void with_member(ZipReader& zip, Bytes& file, const std::string& name, const Use& use) {
  const std::string start = zip.read_start(kHeldBytes);
  if (start.size() <= kHeldBytes) {
    MemoryBytes bytes(start);
    return use(bytes);
  }
  ZipMemberBytes bytes(file, name);
  use(bytes);
}

/// What stands before "data.pkl" in the path of the pickle; nothing when the ZIP has none.
struct PickledPart {
  std::string folder, bytes;
};

std::optional<PickledPart> find_pickle(Bytes& file) {
  ZipReader zip(file);
  constexpr std::string_view kPickleName = "data.pkl";
  for (std::string name; zip.next(name);) {
    if (name != kPickleName && !name.ends_with("/data.pkl")) continue;
    return PickledPart{name.substr(0, name.size() - kPickleName.size()),
                       zip.read_start(kMaxPickleBytes)};
  }
  return std::nullopt;
}

/// The tensors of a file that torch.save wrote.
class TorchFile {
 public:
  TorchFile(const ForeignSource& source, const PickledPart& part)
      : source_(source), folder_(part.folder), pickle_(part.bytes), set_(source_) {}

  void read() {
    refuse_other_byte_order();
    collect();
    read_lists();
    set_.map();
    read_storages();
    for (const auto& [storage, tensors] : by_storage_) {
      for (size_t i : tensors) {
        set_.report(set_.tensors()[i], "lies in data/" + utf8::printable(storage.substr(0, 40)) +
                                           ", which the ZIP lacks");
      }
    }
  }

 private:
  void refuse_other_byte_order() {
    ZipReader zip(source_.bytes);
    for (std::string name; zip.next(name);) {
      if (name != folder_ + "byteorder") continue;
      if (zip.read_start(16) != "little") throw ForeignError("its values are big-endian");
    }
  }

  /// Names of tensors: keys of the pickle, or of a dumper's {value, meta} what meta says.
  void collect() {
    const PickleValue* root = &pickle_.root();
    const PickleValue* value = root->find("value");
    const PickleValue* meta = root->find("meta");
    const bool is_dumped = value && meta && meta->kind == PickleValue::kDict;
    std::string alone = source_.path.name;
    if (is_dumped) {
      root = value;
      meta_ = json_of(*meta);
      take_meta(*meta, alone);
    }
    const bool is_many = root->kind == PickleValue::kDict || root->kind == PickleValue::kList ||
                         root->kind == PickleValue::kTuple;
    const auto full_name = [&](const std::string& name) {
      return is_dumped && is_many ? alone + "." + name : name;
    };
    std::string others;
    int64_t n_others = 0;
    for_each_tensor(
        *root, alone,
        [&](std::string name, const Tensor& tensor) {
          Tensor named = tensor;
          named.name = full_name(name);
          set_.add(std::move(named));
        },
        [&](const std::string& name, const PickleValue& other) {
          if (other.kind == PickleValue::kUnread) return report_unread(full_name(name), other.text);
          if (n_others++ < 8) others += (others.empty() ? "" : ", ") + name;
        });
    if (n_others > 0) {
      source_.rows.find(0, false,
                        std::to_string(n_others) + " values that are no tensors are not taken: " +
                            utf8::printable(others.substr(0, 300)));
    }
    if (set_.tensors().empty()) source_.rows.find(0, false, "it has no tensor that greta reads");
    for (size_t i = 0; i < set_.tensors().size(); ++i) {
      by_storage_[set_.tensors()[i].storage].push_back(i);
    }
  }

  void report_unread(const std::string& name, const std::string& why) {
    source_.rows.find(0, true, "tensor " + utf8::printable(name.substr(0, 200)) + " " + why, name);
  }

  void take_meta(const PickleValue& meta, std::string& alone) {
    const auto number = [&](const char* key, std::optional<int64_t>& to) {
      const PickleValue* said = meta.find(key);
      if (said && said->kind == PickleValue::kInteger && said->integer >= 0 &&
          said->integer <= INT32_MAX) {
        to = said->integer;
      }
    };
    number("step", source_.path.step);
    number("rank", source_.path.rank);
    number("layer_id", source_.path.layer);
    const PickleValue* name = meta.find("name");
    if (name && name->kind == PickleValue::kText && !name->text.empty()) alone = name->text;
  }

  /// Calls `use` with each storage that tensors lie in and their indices.
  template <class Use>
  void for_each_storage(const Use& use) {
    ZipReader zip(source_.bytes);
    std::set<std::string> seen;
    for (std::string name; zip.next(name);) {
      const std::string prefix = folder_ + "data/";
      if (!name.starts_with(prefix)) continue;
      const auto found = by_storage_.find(name.substr(prefix.size()));
      if (found == by_storage_.end() || !seen.insert(name).second) continue;
      const std::string key = found->first;
      const std::vector<size_t> tensors = found->second;
      use(zip, name, key, tensors);
    }
  }

  void read_lists() {
    for_each_storage([&](ZipReader& zip, const std::string& name, const std::string&,
                         const std::vector<size_t>& tensors) {
      const auto is_list = [&](size_t i) { return TensorSet::is_token_list(set_.tensors()[i]); };
      if (std::none_of(tensors.begin(), tensors.end(), is_list)) return;
      with_member(zip, source_.bytes, name, [&](Bytes& storage) {
        for (size_t i : tensors) {
          if (is_list(i)) set_.take_token_list(set_.tensors()[i], storage);
        }
      });
    });
  }

  void read_storages() {
    for_each_storage([&](ZipReader& zip, const std::string& name, const std::string& key,
                         const std::vector<size_t>& tensors) {
      with_member(zip, source_.bytes, name, [&](Bytes& storage) {
        for (size_t i : tensors) {
          if (!TensorSet::is_token_list(set_.tensors()[i])) set_.add_rows(i, storage, meta_);
        }
      });
      by_storage_.erase(key);
    });
  }

  ForeignSource source_;  // its path with what the file's own meta says
  std::string folder_;
  Pickle pickle_;
  TensorSet set_;
  std::string meta_;
  std::map<std::string, std::vector<size_t>> by_storage_;
};

/// What is no array of a .npz: an error where it may well hold some.
void report_other_member(const ForeignSource& source, const std::string& name, ZipReader& zip) {
  constexpr size_t kEnough = 4096;
  const std::string extension = lower_extension(name), head = zip.read_start(kEnough);
  const bool may_hold_tensors = foreign_kind(extension, head) != ForeignKind::kNone;
  source.rows.find(
      0, may_hold_tensors,
      "member " + utf8::printable(name.substr(0, 200)) +
          (may_hold_tensors ? " holds tensors of its own: ingest it by itself" : " is no array") +
          "; not taken");
}

void read_npz(const ForeignSource& source) {
  TensorSet set(source);
  std::vector<std::string> members;
  const auto for_each_array = [&](const auto& use) {
    ZipReader zip(source.bytes);
    size_t i = 0;
    for (std::string name; zip.next(name); ++i) use(zip, name, i);
  };
  // First the headers, for some arrays say what the rows of the others are.
  std::map<size_t, size_t> tensor_of_member;
  for_each_array([&](ZipReader& zip, const std::string& name, size_t i) {
    if (!name.ends_with(".npy")) return report_other_member(source, name, zip);
    const std::string key = name.substr(0, name.size() - 4);
    try {
      constexpr size_t kMostOfHeader = (size_t{1} << 20) + 64;
      const std::string start = zip.read_start(kMostOfHeader);
      MemoryBytes bytes(start);
      tensor_of_member[i] = set.tensors().size();
      Tensor tensor = read_npy_header(bytes, key);
      set.add(std::move(tensor));
    } catch (const ForeignError& error) {
      tensor_of_member.erase(i);
      source.rows.find(0, true, "array " + utf8::printable(key.substr(0, 200)) + " " + error.what(),
                       key);
    }
  });
  const auto for_some = [&](bool lists, const auto& use) {
    for_each_array([&](ZipReader& zip, const std::string& name, size_t i) {
      const auto found = tensor_of_member.find(i);
      if (found == tensor_of_member.end()) return;
      if (TensorSet::is_token_list(set.tensors()[found->second]) != lists) return;
      with_member(zip, source.bytes, name, [&](Bytes& bytes) { use(found->second, bytes); });
    });
  };
  for_some(true, [&](size_t i, Bytes& bytes) { set.take_token_list(set.tensors()[i], bytes); });
  set.map();
  for_some(false, [&](size_t i, Bytes& bytes) {
    try {
      refuse_more_than_one_array(set.tensors()[i], bytes);
    } catch (const ForeignError& error) {
      return set.report(set.tensors()[i], error.what());
    }
    set.add_rows(i, bytes);
  });
  if (set.tensors().empty())
    throw ForeignError("a ZIP without arrays and without a pickle of torch.save");
}

}  // namespace

void read_zip(const ForeignSource& source) {
  const std::optional<PickledPart> part = find_pickle(source.bytes);
  if (part) return TorchFile(source, *part).read();
  read_npz(source);
}

}  // namespace greta
