#include "ingest/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ingest/text.h"

namespace greta {
namespace {

struct Parsed {
  std::vector<LogEvent> events;
  LogFacts facts;
};

Parsed parse(std::string_view log) {
  Parsed parsed;
  LogParser parser;
  int64_t line_no = 0;
  for (const std::string_view line : text::split_lines(log)) {
    parser.add_line(line, ++line_no, parsed.events);
  }
  parsed.facts = parser.facts();
  return parsed;
}

std::string field(const LogEvent& event, const std::string& key) {
  for (const auto& [name, value] : event.fields) {
    if (name == key) return value;
  }
  return "(none)";
}

TEST(Log, TaggedLineIsAnEventWithFieldsAndStep) {
  const auto [events, facts] = parse(
      "noise\n[GRETA_TRACE_D2H] tensor=logits step=15 layer=-1 src_ptr=0x72eb91c00000 "
      "offset_bytes=104656896\r\n");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].line, 2);
  EXPECT_EQ(events[0].tag, "GRETA_TRACE_D2H");
  EXPECT_EQ(events[0].step, 15);
  EXPECT_EQ(field(events[0], "tensor"), "logits");
  EXPECT_EQ(field(events[0], "layer"), "-1");
  EXPECT_EQ(field(events[0], "src_ptr"), "0x72eb91c00000");
  EXPECT_EQ(field(events[0], "offset_bytes"), "104656896");
}

TEST(Log, LeadingWordsStayInTheText) {
  const auto [events, facts] = parse(
      "[ROPE_DIAG] RoPE Q prefill x_ptr=0x79eed0800000 seq_len=13 rope_base=500000.000000 "
      "valid=true\n[GRETA_RT] Found 1 HIP device(s). Selecting device 0...\n");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(events[0].text.starts_with("RoPE Q prefill x_ptr="));
  EXPECT_EQ(events[0].fields.size(), 4u);
  EXPECT_EQ(field(events[0], "valid"), "true");
  EXPECT_EQ(field(events[0], "rope_base"), "500000.000000");
  EXPECT_EQ(events[0].step, std::nullopt);
  EXPECT_EQ(events[1].text, "Found 1 HIP device(s). Selecting device 0...");
  EXPECT_TRUE(events[1].fields.empty());
}

TEST(Log, UnprefixedHexBecomesDecimal) {
  const auto [events, facts] = parse(
      "[D2H_CHECK] tensor=buffer_offset step=ffffffff layer=1f src_ptr=7c324b5df000 offset=5df000 "
      "size=7d400 alloc=3ea00000\n"
      "[D2H_CHECK] tensor=abc step=10 offset=ffffffff size=0x10 alloc=zz\n");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(field(events[0], "step"), "-1");
  EXPECT_EQ(events[0].step, -1);
  EXPECT_EQ(field(events[0], "layer"), "31");
  EXPECT_EQ(field(events[0], "tensor"), "buffer_offset");
  EXPECT_EQ(field(events[0], "offset"), "6156288");
  EXPECT_EQ(field(events[0], "size"), "513024");
  EXPECT_EQ(field(events[0], "src_ptr"), "136555454656512");
  EXPECT_NE(events[0].text.find("offset=5df000"), std::string::npos) << "raw text is kept";
  EXPECT_EQ(field(events[1], "tensor"), "abc");
  EXPECT_EQ(events[1].step, 16);
  EXPECT_EQ(field(events[1], "offset"), "4294967295");
  EXPECT_EQ(field(events[1], "size"), "16");
  EXPECT_EQ(field(events[1], "alloc"), "zz");
}

TEST(Log, SampleStatisticsAndTopTokensAreTwoEvents) {
  const auto [events, facts] = parse(
      "[SAMPLE DEBUG] Logits stats: min=-13.492 max=12.0042 avg=-0.5821 NaNs=0\n"
      "  Top tokens: 79(12.0042) 18(11.0106) 95(10.7\n");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].tag, "SAMPLE DEBUG");
  EXPECT_EQ(field(events[0], "NaNs"), "0");
  EXPECT_EQ(events[1].tag, "SAMPLE DEBUG TOP");
  EXPECT_EQ(events[1].fields.size(), 4u);
  EXPECT_EQ(field(events[1], "top1_id"), "79");
  EXPECT_EQ(field(events[1], "top2_logit"), "11.0106");
  EXPECT_NE(events[1].text.find("95(10.7"), std::string::npos) << "the torn word is kept as text";
}

struct TagCase {
  std::string line;
  std::vector<std::string> tags;
};
TEST(Log, TagsStartEvents) {
  const std::vector<TagCase> cases = {
      {"[A1 B_c] x", {"A1 B_c"}},
      {"  \t[TAG]", {"TAG"}},
      {"[TAG]k=v", {"TAG"}},
      {"  - Group [GRETA_TRACE_D2H] tensor=logits step=0", {"GRETA_TRACE_D2H"}},
      {"[D2H_CHECK] tensor=a step=0[ROPE_DIAG] RoPE Q x_ptr=0x1", {"D2H_CHECK", "ROPE_DIAG"}},
      {"[GRETA_LOAD] Transposed from [KV] to [D, KV]", {"GRETA_LOAD"}},
      {"[GRETA_LOAD] a [KV] b [ROPE_DIAG] x=1", {"GRETA_LOAD", "ROPE_DIAG"}},
      {"Prompt: [ROPE_DIAG] x=1", {}},
      {"  Prompt: \"[ROPE_DIAG] x=1\"", {}},
      {"text [note] x=1", {}},
      {"[1, 2] x=1", {}},
      {"[0] x=1", {}},
      {"[TAG", {}},
      {"[]", {}},
      {"", {}}};
  for (const TagCase& c : cases) {
    SCOPED_TRACE(c.line.substr(0, 80));
    std::vector<std::string> tags;
    for (const LogEvent& event : parse(c.line).events) tags.push_back(event.tag);
    EXPECT_EQ(tags, c.tags);
  }
}

TEST(Log, ATornLineLosesNoField) {
  const auto [events, facts] =
      parse("[D2H_CHECK] tensor=a step=1 off[ROPE_DIAG] RoPE K decode seq_len=1\n");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].text, "tensor=a step=1 off");
  EXPECT_EQ(field(events[1], "seq_len"), "1");
  EXPECT_EQ(events[1].line, 1);
}

TEST(Log, Facts) {
  const auto [events, facts] = parse(
      "\nConfiguration:\n  Model: models/m.gguf\n  Prompt: \"Hi\"\n  Max tokens: 16\n  Top-K: 50\n"
      "  Greedy: yes\n\nModel config: layers=32, vocab=128256, params=8.8353B\n"
      "Note: not a fact\nGeneration error: hipMemcpy D2H failed: illegal access\n"
      "Prompt: Hi\nGenerated: O\n\nStatistics:\n  Prompt tokens: 205\n  Generated tokens: 16\n"
      "  Total time: 1204.06 ms\n  Tokens/second: 13.2883\n\nSTATUS=OK\n");
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(facts.prompt_tokens, 205);
  EXPECT_TRUE(facts.valid_utf8);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"model", "models/m.gguf"},
      {"prompt", "Hi"},
      {"max_tokens", "16"},
      {"top_k", "50"},
      {"greedy", "yes"},
      {"config_layers", "32"},
      {"config_vocab", "128256"},
      {"config_params", "8.8353B"},
      {"error", "Generation error: hipMemcpy D2H failed: illegal access"},
      {"generated", "O"},
      {"prompt_tokens", "205"},
      {"generated_tokens", "16"},
      {"total_time_ms", "1204.06"},
      {"tokens_per_second", "13.2883"},
      {"status", "OK"}};
  EXPECT_EQ(facts.facts, expected);
}

TEST(Log, InvalidUtf8IsReportedAndParsed) {
  const auto [events, facts] = parse("Generated: \xc6\n[ROPE_DIAG] a=\xc6 valid=true\n");
  EXPECT_FALSE(facts.valid_utf8);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(field(events[0], "a"), "\xc6");
}

struct LooksCase {
  std::string head;
  bool is_log;
};
TEST(Log, LooksLikeLogNeedsATaggedLine) {
  const std::vector<LooksCase> cases = {
      {"Configuration:\n  Model: x\n\n[GRETA_RT] Initializing\n", true},
      {"[D2H_CHECK] a=1", true},
      {"", false},
      {"# B3.64\n```\n[ROPE_DIAG] x=1\n```\n[ROPE_DIAG] y=1\n", false},
      {"Notes\n```\n[ROPE_DIAG] x=1\n```\n", false},
      {"{\"a\":1}\n[TAG] x=1\n", false},
      {"[Link](url)\n", false},
      {"ERROR: [GUARD_RAIL_FATAL] Model\n", false},
      {"[TAG](url)\n", false},
      {"[1,2,3]\n", false}};
  for (const LooksCase& c : cases) {
    SCOPED_TRACE(c.head.substr(0, 80));
    EXPECT_EQ(looks_like_log(c.head), c.is_log) << c.head;
  }
}

TEST(LogHostile, AnyBytesAreReadInLinearTime) {
  const size_t n = 1 << 20;
  for (const char c : {'[', ']', '=', ' ', '(', ':', 'A', '\0', '\xff', '\n'}) {
    const std::string bytes(n, c);
    parse(bytes);
    looks_like_log(bytes);
  }
  for (const std::string& piece :
       {std::string("[AAA]"), std::string("[AAA] a=b "), std::string("a=b "),
        std::string("error: x\n"), std::string("[AAA] step=99999999999999999999 ")}) {
    std::string text;
    while (text.size() < n) text += piece;
    parse(text);
  }
  EXPECT_EQ(parse("[AAA] step=99999999999999999999").events.at(0).step, std::nullopt);
}

}  // namespace
}  // namespace greta
