// Trained weights, which have what random ones do not: outliers, attention sinks, a text that is
// published. Of every model in GRETA_MODELS that the engine reads.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/cli/greta_infer/infer_program.h"
#include "tests/environment_folder.h"

namespace greta {
namespace {

class RealWeights : public InferProgram {
 protected:
  struct Model {
    std::string file;
    bool is_f32 = false;  ///< every tensor: the published text is of these weights
  };

  void SetUp() override {
    folder_of_models_ = folder_from_environment("GRETA_MODELS");
    if (!folder_of_models_) {
      GTEST_SKIP() << "GRETA_MODELS is not set: the folder of trained models and their README.md";
    }
  }

  /// Those that are read; the others name the type that they cannot be read for.
  std::vector<Model> models() const {
    std::vector<Model> found;
    for (const auto& entry : std::filesystem::directory_iterator(*folder_of_models_)) {
      if (entry.path().extension() != ".gguf") continue;
      const std::string file = entry.path().string();
      const Result info = sh("$I info --model " + quoted(file));
      if (info.status == 0) {
        const size_t at = info.out.find("\nweights      f32:");
        found.push_back({file, at != info.out.npos &&
                                   info.out.find(' ', at + 14) > info.out.find('\n', at + 1)});
      } else {
        EXPECT_TRUE(info.says("is not supported; supported: ")) << file << "\n" << info.err;
      }
    }
    EXPECT_FALSE(found.empty());
    return found;
  }

  /// The indented block after "Published text" of the folder's README.md.
  std::string published_text() const {
    const std::string readme = read((*folder_of_models_ / "README.md").string());
    std::string text;
    bool inside = false;
    size_t at = readme.find("Published text");
    for (at = at == std::string::npos ? readme.size() : readme.find('\n', at);
         at < readme.size();) {
      const size_t end = std::min(readme.find('\n', at + 1), readme.size());
      const std::string line = readme.substr(at + 1, end - at - 1);
      at = end;
      if (line.starts_with("    ")) {
        text += (inside ? "\n" : "") + line.substr(4);
        inside = true;
      } else if (inside) {
        break;
      }
    }
    return text;
  }

  std::optional<std::filesystem::path> folder_of_models_;
};

TEST_F(RealWeights, TellThePublishedTextTokenByToken) {
  const std::string text = published_text();
  ASSERT_GT(text.size(), 200u);
  int told = 0;
  for (const Model& model : models()) {
    if (!model.is_f32) continue;
    const Result run = sh("$I run --model " + quoted(model.file) + " --prompt '' -n 190");
    ASSERT_EQ(run.status, 0) << run.err;
    const size_t begin = run.out.find_first_not_of(' ');
    EXPECT_TRUE(run.out.substr(begin).starts_with(text)) << run.out;
    ++told;
  }
  EXPECT_GT(told, 0);
}

TEST_F(RealWeights, RaiseNoAlarmInAnyMode) {
  std::mt19937 random(7);
  constexpr const char* kWords[] = {"Once", "upon",  "a",    "time", "there", "was",  "little",
                                    "girl", "named", "Lily", "who",  "loved", "her",  "big",
                                    "red",  "ball",  "one",  "day",  "she",   "said", "hello"};
  std::string suite;
  for (int i = 0; i < 20; ++i) {
    std::string prompt;
    for (auto n = 1 + random() % 40; n > 0; --n) {
      prompt += (prompt.empty() ? "" : " ") + std::string(kWords[random() % std::size(kWords)]);
    }
    suite += R"({"name": "p)" + std::to_string(i) + R"(", "text": ")" + prompt + "\"}\n";
  }
  write("suite.jsonl", suite);
  int number = 0;
  for (const Model& model : models()) {
    const std::string database = "m" + std::to_string(number++) + ".db";
    for (const char* mode : {"as_designed", "kv_aligned", "batch_invariant"}) {
      EXPECT_EQ(sh("$I probe --model " + quoted(model.file) + " --db " + database +
                   " --experiment stories --suite suite.jsonl --gate numeric --mode " + mode)
                    .status,
                0)
          << model.file << " " << mode << "\n";
    }
    EXPECT_EQ(query("SELECT count(*), sum(numeric_verdict = 'PASS'),"
                    " sum(strict_verdict = 'PASS' AND mode = 'batch_invariant'), sum(divergent)"
                    " FROM run_verdict",
                    database),
              "3\t3\t1\t0\n")
        << model.file;
  }
}

}  // namespace
}  // namespace greta
