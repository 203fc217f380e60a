// Runs the built greta-infer as a shell would, on a small model made for the test.
#pragma once

#include "tests/cli/program.h"

namespace greta {

class InferProgram : public ProgramTest {
 protected:
  /// A command line of sh in the test's folder, where $I is greta-infer, $G greta-db and $Q the
  /// options of a small probe, 339 pairs. No variable of greta's is set; the cache is its own.
  Result sh(const std::string& command) const {
    return shell(
        "for v in $(env | sed -n 's/^\\(GRETA_[A-Z0-9_]*\\)=.*/\\1/p'); do unset $v; done; export "
        "XDG_CACHE_HOME=\"$PWD/.cache\"; I=" +
        quoted(GRETA_INFER_PROGRAM) + "; Q='--suite b3_66_v2 --decode-steps 0'; " + command);
  }

  /// Makes m.gguf: the shape of preset tiny at a tenth of its weights.
  void make_model(const std::string& options = "--type q8_0") const {
    const Result made =
        sh("$I synth --out m.gguf --dim 128 --heads 4 --kv-heads 2 --head-dim 32"
           " --ffn 256 --vocab 512 " +
           options);
    ASSERT_EQ(made.status, 0) << made.err;
  }

  /// Rows of a query, columns separated by tabs.
  std::string query(const std::string& sql, const std::string& database = "greta.db") const {
    const Result result =
        sh("$G --db " + quoted(database) + " --format tsv query " + quoted(sql) + " | tail -n +2");
    EXPECT_EQ(result.err, "");
    return result.out;
  }
};

}  // namespace greta
