// Compares greta's logits with those of another engine; see compare.sh.
//
//   greta_logits MODEL IDS PEER     IDS: token ids as text; PEER: f32 [n_ids, vocab], host byte order
//
// Prints one line for prefill (all tokens at once) and one for decode (one by one on the cache):
// normalised mean squared error Σ(a−b)²/Σb², and how often both choose the same token.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "engine/forward.h"

namespace greta {
namespace {

struct Score {
  double error = 0;
  double energy = 0;
  int64_t same_top1 = 0;
  int64_t rows = 0;

  void add(const float* mine, const float* theirs, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double difference = static_cast<double>(mine[i]) - static_cast<double>(theirs[i]);
      error += difference * difference;
      energy += static_cast<double>(theirs[i]) * static_cast<double>(theirs[i]);
    }
    same_top1 += std::max_element(mine, mine + n) - mine ==
                 std::max_element(theirs, theirs + n) - theirs;
    ++rows;
  }
  void print(const char* path) const {
    std::printf("%s %.2e %lld/%lld\n", path, error / energy, static_cast<long long>(same_top1),
                static_cast<long long>(rows));
  }
};

std::vector<float> read_peer(const char* path, size_t n) {
  std::vector<float> values(n);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(n * sizeof(float)));
  if (!in || in.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error(std::string(path) + " does not hold n_ids x vocab values");
  }
  return values;
}

void compare(const char* model_path, const char* ids_path, const char* peer_path) {
  std::ifstream ids(ids_path);
  const std::vector<int32_t> tokens{std::istream_iterator<int32_t>(ids), {}};
  const auto n = static_cast<int64_t>(tokens.size());
  const GgufFile file = GgufFile::open(model_path);
  const Model model(file);
  const int64_t vocab = model.config().vocab;
  const std::vector<float> peer = read_peer(peer_path, static_cast<size_t>(n * vocab));
  const auto backend = make_cpu_backend(0);
  const ModelWeights weights = upload_weights(model, *backend);
  KvCache cache(model.config(), n, *backend);
  Forward forward(model, weights, *backend, cache,
                  {.mode = Mode::kAsDesigned,
                   .routes = choose_routes(*backend, Mode::kAsDesigned, {}),
                   .faults = {},
                   .max_batch = n});
  Score prefill;
  forward.run({.tokens = tokens, .n_logits = n}, nullptr);
  for (int64_t i = 0; i < n; ++i) {
    prefill.add(forward.logits() + i * vocab, peer.data() + i * vocab, vocab);
  }
  prefill.print("prefill");
  Score decode;
  cache.poison_from(0);
  for (int64_t i = 0; i < n; ++i) {
    forward.run({.tokens = {&tokens[static_cast<size_t>(i)], 1}, .first_pos = i, .decode = true},
                nullptr);
    decode.add(forward.logits(), peer.data() + i * vocab, vocab);
  }
  decode.print("decode");
}

}  // namespace
}  // namespace greta

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: greta_logits MODEL IDS PEER\n", stderr);
    return 2;
  }
  try {
    greta::compare(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "greta_logits: %s\n", error.what());
    return 1;
  }
}
