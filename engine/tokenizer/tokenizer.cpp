#include "engine/tokenizer/tokenizer.h"

#include <limits>
#include <stdexcept>

#include "engine/gguf/parser.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/spm.h"

namespace greta {
namespace {

// Texts of tokens that end a turn or a document in models of these families and their fine-tunes;
// of those for infilling, the ones that stand between texts. A file that lists them as plain text
// is wrong in a known way: they are control tokens.
constexpr std::array<std::string_view, 16> kEndTexts{
    "<|eot_id|>", "<|eom_id|>",    "<|end_of_text|>",    "<|im_end|>",
    "<|end|>",    "<|endoftext|>", "<end_of_turn>",      "</s>",
    "<EOT>",      "<|fim_pad|>",   "<end_of_utterance>", "<｜end▁of▁sentence｜>",
    "<fim_pad>",  "<|repo_name|>", "<reponame>",         "<|file_sep|>"};

// Those of infilling that go on to text.
constexpr std::array<std::string_view, 9> kInfillTexts{
    "<|fim_prefix|>", "<|fim_suffix|>",  "<|fim_middle|>", "<fim_prefix>", "<fim_suffix>",
    "<fim_middle>",   "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"};

bool is_end_text(std::string_view text) {
  return std::ranges::find(kEndTexts, text) != kEndTexts.end();
}

bool is_infill_text(std::string_view text) {
  return std::ranges::find(kInfillTexts, text) != kInfillTexts.end();
}

void mark_known_texts_as_control(Vocabulary& vocabulary) {
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& text = vocabulary.tokens[i];
    if (is_end_text(text) || is_infill_text(text)) vocabulary.types[i] = TokenType::kControl;
  }
}

template <typename Wanted>
SpecialTokens special_tokens(const Vocabulary& vocabulary, Wanted wanted) {
  std::vector<std::pair<std::string, int32_t>> tokens;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (wanted(vocabulary.types[i])) {
      tokens.emplace_back(vocabulary.tokens[i], static_cast<int32_t>(i));
    }
  }
  return SpecialTokens(std::move(tokens));
}

bool is_user_defined(TokenType type) { return type == TokenType::kUserDefined; }

bool vanishes(TokenType type) { return type == TokenType::kControl || type == TokenType::kUnknown; }

std::vector<bool> end_tokens(const Vocabulary& vocabulary) {
  std::vector<bool> ends(vocabulary.tokens.size());
  for (const int32_t id : {vocabulary.eos, vocabulary.eot, vocabulary.eom}) {
    if (id >= 0) ends[id] = true;
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    if (is_end_text(vocabulary.tokens[i])) ends[i] = true;
  }
  return ends;
}

}  // namespace

SpecialTokens::SpecialTokens(std::vector<std::pair<std::string, int32_t>> tokens)
    : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const auto& token) { return token.first.empty(); });
  std::sort(tokens_.begin(), tokens_.end());
  for (const auto& [text, id] : tokens_) starts_[static_cast<uint8_t>(text[0])] = true;
}

std::optional<SpecialTokens::Match> SpecialTokens::find(std::string_view text, size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t i = from; i < text.size(); ++i) {
    if (!starts_[static_cast<uint8_t>(text[i])]) continue;
    if (const auto match = longest_at(text, i)) return match;
  }
  return std::nullopt;
}

// Narrows the sorted tokens to those that agree with the text, a byte at a time.
std::optional<SpecialTokens::Match> SpecialTokens::longest_at(std::string_view text,
                                                              size_t begin) const {
  std::optional<Match> longest;
  auto low = tokens_.begin(), high = tokens_.end();
  for (size_t depth = 0; low != high && begin + depth < text.size(); ++depth) {
    // A token that ends here sorts before those that go on.
    const int byte = static_cast<uint8_t>(text[begin + depth]);
    const auto byte_at = [depth](const auto& token) {
      return depth < token.first.size() ? static_cast<int>(static_cast<uint8_t>(token.first[depth]))
                                        : -1;
    };
    low = std::partition_point(low, high, [&](const auto& t) { return byte_at(t) < byte; });
    high = std::partition_point(low, high, [&](const auto& t) { return byte_at(t) == byte; });
    if (low != high && low->first.size() == depth + 1) {
      longest = Match{begin, begin + depth + 1, low->second};
    }
  }
  return longest;
}

std::unique_ptr<Tokenizer> Tokenizer::load(const GgufFile& file) {
  return make(Vocabulary::read(file));
}

std::unique_ptr<Tokenizer> Tokenizer::make(Vocabulary vocabulary) {
  if (vocabulary.model != "gpt2" && vocabulary.model != "llama") {
    vocabulary.fail("tokenizer.ggml.model is " + gguf_quoted(vocabulary.model) +
                    "; supported: gpt2 llama");
  }
  if (vocabulary.add_bos && vocabulary.bos < 0) vocabulary.fail("there is no BOS token to add");
  if (vocabulary.add_eos && vocabulary.eos < 0) vocabulary.fail("there is no EOS token to add");
  const auto ids = vocabulary.index();  // checks what all that follows relies on
  mark_known_texts_as_control(vocabulary);
  if (vocabulary.model == "gpt2") return std::make_unique<BpeTokenizer>(vocabulary, ids);
  return std::make_unique<SpmTokenizer>(vocabulary);
}

Tokenizer::Tokenizer(const Vocabulary& vocabulary, Piece (*piece_of)(const std::string&, TokenType))
    : types_(vocabulary.types),
      user_defined_(special_tokens(vocabulary, is_user_defined)),
      special_(special_tokens(vocabulary,
                              [](TokenType t) { return is_user_defined(t) || vanishes(t); })),
      bos_(vocabulary.bos),
      eos_(vocabulary.eos),
      add_bos_(vocabulary.add_bos),
      add_eos_(vocabulary.add_eos),
      ends_generation_(end_tokens(vocabulary)) {
  pieces_.reserve(types_.size());  // by_bytes_ borrows: no piece may move
  by_bytes_.reserve(types_.size());
  for (size_t i = 0; i < types_.size(); ++i) {
    Piece piece{vocabulary.tokens[i]};
    if (types_[i] == TokenType::kByte) {
      piece.bytes = vocabulary.byte_text(i);
    } else if (!vanishes(types_[i])) {
      piece = piece_of(vocabulary.tokens[i], types_[i]);
    }
    pieces_.push_back(std::move(piece.bytes));
    if (piece.in_text && !pieces_.back().empty()) {
      by_bytes_.try_emplace(pieces_.back(), static_cast<int32_t>(pieces_.size() - 1));
    }
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special,
                                       bool parse_special) const {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw std::length_error("tokenizer: a text of " + std::to_string(text.size()) +
                            " bytes; below 2^31 are supported");
  }
  const SpecialTokens& specials = parse_special ? special_ : user_defined_;
  std::vector<int32_t> ids;
  if (add_special && add_bos_) ids.push_back(bos_);
  bool leads = true;
  for (size_t at = 0; at < text.size();) {
    const auto match = specials.find(text, at);
    const size_t end = match ? match->begin : text.size();
    if (end > at) encode_text(text.substr(at, end - at), leads, ids);
    leads = match.has_value();
    if (match) ids.push_back(match->id);
    at = match ? match->end : end;
  }
  if (add_special && add_eos_) ids.push_back(eos_);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    const std::string_view of_token = piece(id);
    if (special || !vanishes(types_[id])) bytes += of_token;
  }
  return bytes;
}

std::string_view Tokenizer::piece(int32_t id) const {
  if (id < 0 || id >= size()) {
    throw std::out_of_range("tokenizer: token " + std::to_string(id) + " is not one of " +
                            std::to_string(size()));
  }
  return pieces_[id];
}

bool Tokenizer::ends_generation(int32_t id) const {
  return id >= 0 && id < size() && ends_generation_[id];
}

int32_t Tokenizer::find(std::string_view bytes) const {
  const auto found = by_bytes_.find(bytes);
  return found == by_bytes_.end() ? -1 : found->second;
}

}  // namespace greta
