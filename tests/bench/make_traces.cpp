// Writes stage_trace files as an engine of the historical shape would: for script/bench.
// usage: make_traces OUT_DIR RUNS LINES_PER_RUN SAMPLE_VALUES [FIRST]
//        make_traces OUT_DIR RUNS LINES_PER_RUN SAMPLE_VALUES LINEAGES together|apart some|all
// One file per run, 32 layers x 10 trace points per token, prefill_last and decode0 of the last
// prompt token, then decoded tokens; a sixth of the pairs differ. FIRST numbers the first run (0).
// With LINEAGES the runs follow each other day by day in as many experiments: their values are
// those of the day before, attn_out with a sample of four. Of ten days `some` break decode on the
// fourth, mend it on the seventh and change both phases on the last; `all` change both phases every
// day. `apart` writes the same rows of runs that each have a seed of their own, so that nothing is
// held against the day before.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace {

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr const char* kPoints[] = {"x_in",   "attn_norm_out", "q_pre_rope",  "k_pre_rope",
                                   "v_proj", "q_post_rope",   "k_post_rope", "attn_out",
                                   "wo_out", "mlp_out"};
constexpr int kLayers = 32;
constexpr int kPromptTokens = 38;

double real(uint64_t bits, double scale) {
  return (static_cast<double>(bits >> 11) / 4503599627370496.0 - 1.0) * scale;
}

/// What the values of a run are made of.
struct Content {
  uint64_t id;          ///< runs of the same have the same values
  uint64_t changes;     ///< how often those of both phases changed, behind the faulty trace point
  bool drifts;          ///< decode differs, behind the faulty trace point
  int sample_values;    ///< of every row
  int attn_out_values;  ///< of attn_out alone
};

constexpr int kFaultyLayer = 10, kFaultyPoint = 7;

void write_line(FILE* out, const Content& content, const char* phase, int point, int layer,
                int step, int pos) {
  const bool decode = step > 0;
  const bool follows = layer > kFaultyLayer || (layer == kFaultyLayer && point >= kFaultyPoint);
  const int sample_values = point == kFaultyPoint && content.attn_out_values > 0
                                ? content.attn_out_values
                                : content.sample_values;
  uint64_t h = mix((content.id << 40) ^ (uint64_t(pos) << 20) ^ (uint64_t(layer) << 8) ^
                   uint64_t(point) ^ (uint64_t(decode && follows && content.drifts) << 60) ^
                   ((follows ? content.changes : 0) << 48));
  const double min = real(mix(h), 0.03) - 0.03, max = real(mix(h + 1), 0.03) + 0.03;
  long long ptr = 131129153683456LL + point * 33554432LL;
  std::fprintf(
      out,
      "{\"event\":\"stage_trace\",\"prompt_id\":\"p0_short\",\"phase\":\"%s\",\"point\":\"%s\","
      "\"layer\":%d,"
      "\"step\":%d,\"pos_id\":%d,\"seq_len\":%d,\"tokens_total\":%d,\"token_index\":%d,\"stride_"
      "elems\":4096,"
      "\"sample_n\":%d,\"ptr\":%lld,\"offset_bytes\":%d,\"hash\":%llu,\"min\":%.6g,\"max\":%.6g,"
      "\"mean\":%.6g,\"abs_sum\":%.6g,\"nan\":0,\"inf\":0,\"nz_count\":%d,",
      phase, kPoints[point], layer, step, pos, decode ? 1 : kPromptTokens, pos + 1,
      decode ? 0 : pos, sample_values ? sample_values : 256, ptr, decode ? 0 : pos * 16384,
      static_cast<unsigned long long>(h), min, max, std::clamp(real(mix(h + 2), 0.004), min, max),
      real(mix(h + 3), 1) + 2, sample_values ? sample_values : 256);
  if (sample_values) {
    std::fputs("\"sample\":[", out);
    for (int i = 0; i < sample_values; ++i)
      std::fprintf(out, i ? ",%.6g" : "%.6g", real(mix(h + 16 + uint64_t(i)), 0.02));
    std::fputs("],", out);
  }
  std::fprintf(out, "\"kv_pos\":%d,\"token_id\":%d,\"route\":\"%s\"}\n", pos,
               int(mix(uint64_t(pos)) % 128000), decode ? "VALU" : "MFMA");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6 && argc != 8) {
    std::fprintf(stderr,
                 "usage: make_traces OUT_DIR RUNS LINES_PER_RUN SAMPLE_VALUES"
                 " [FIRST | LINEAGES together|apart some|all]\n");
    return 2;
  }
  std::filesystem::path root = argv[1];
  int runs = std::atoi(argv[2]);
  long lines = std::atol(argv[3]);
  int sample_values = std::atoi(argv[4]);
  const int first = argc == 6 ? std::atoi(argv[5]) : 0;
  const int lineages = argc > 6 ? std::atoi(argv[5]) : 0;
  const bool apart = argc > 6 && std::string_view(argv[6]) == "apart";
  const bool all_change = argc > 6 && std::string_view(argv[7]) == "all";
  for (int run = first; run < first + runs; ++run) {
    const int nth = lineages > 0 ? run / lineages : run;  // of its lineage
    const int experiment = lineages > 0 ? run % lineages : run / 336;
    char date[16];
    std::snprintf(date, sizeof date, "2025-%02d-%02d", 1 + nth / 28 % 12, 1 + nth % 28);
    auto folder = root / date / ("b3_" + std::to_string(100 + experiment));
    if (lineages == 0 || apart) folder /= "seed_" + std::to_string(run);
    folder /= "traces";
    Content content{static_cast<uint64_t>(run), 0, run % 2 == 1, sample_values, 0};
    if (lineages > 0) {
      content.id = static_cast<uint64_t>(experiment);
      content.changes = static_cast<uint64_t>(all_change ? nth : (nth + 1) / 10);
      content.drifts = !all_change && nth % 10 >= 3 && nth % 10 < 6;
      content.attn_out_values = 4;
    }
    std::filesystem::create_directories(folder);
    FILE* out = std::fopen((folder / "p0_short_trace.jsonl").c_str(), "w");
    if (!out) return std::perror("make_traces"), 1;
    std::vector<char> buffer(1 << 20);
    std::setvbuf(out, buffer.data(), _IOFBF, buffer.size());
    long written = 0;
    for (int token = 0; written < lines; ++token) {
      int step = token, pos = token == 0 ? kPromptTokens - 1 : kPromptTokens - 2 + token;
      const char* phase = step == 0 ? "prefill_last" : step == 1 ? "decode0" : "decode";
      for (int layer = 0; layer < kLayers && written < lines; ++layer) {
        for (int point = 0; point < 10 && written < lines; ++point, ++written) {
          write_line(out, content, phase, point, layer, step, pos);
        }
      }
    }
    if (std::fclose(out) != 0) return std::perror("make_traces"), 1;
  }
}
