#!/usr/bin/env python3
"""Prints texts for tokenizers, the same ones for the same arguments.

    unicode_strings.py COUNT SEED [FILE ...]

Texts are separated by a line "__ggml_vocab_test__", as in llama.cpp's tokenizer cases. With files
they are lines drawn from them. Else each is a random mix of what tokenizers split on: words and
contractions, capitals within words, digits of many scripts, spaces and line ends of every kind,
combining marks, emoji sequences, control characters, special tokens spelled out, and code points
drawn evenly from all planes, whether assigned or not.
"""

import sys

SEPARATOR = "\n__ggml_vocab_test__\n"
MASK = (1 << 64) - 1

WORDS = ["the", "Hello", "WORLD", "naïve", "straße", "I", "we", "don", "tokenizer",
         "e\u0301a\u0308", "Привет", "Ελλάδα", "שלום", "مرحبا", "नमस्ते", "สวัสดี",
         "ភាសាខ្មែរ", "你好", "日本語", "カタカナ", "한국어", "ქართული", "አማርኛ", "Ꮳ", "ᠮᠣᠩᠭᠣᠯ", "𝔘𝔫𝔦",
         "𐌰𐌱", "ﬁ", "ǅ", "ª", "ʰ", "camelCase", "HTMLParser", "ÉCOLE", "ABÉcD", "ÀÉîÕü", "Ａｂ",
         "Ḁẞ", "ֆԱբ", "ᲐაႠ", "ꟿ"]
ENDINGS = ["'s", "'S", "'ll", "'LL", "'Re", "'vE", "'m", "'D", "'t", "'\u017f", "'x", "'", "''s",
           "\u2019s"]
DIGITS = ["0", "7", "42", "123", "1234", "1000000", "3.14", "٣٤", "४५६७", "１２３４", "²³", "½",
          "Ⅷ", "〇一", "①②③④", "𝟗𝟘"]
SPACES = [" ", "  ", "   ", "     ", " " * 17, "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", " \n",
          "\n ", " \t\n  ", "\u00a0", "\u00a0 ", "\u2003", "\u3000", "\u0085", "\u2028",
          "\u2029", "\u1680", "\u180e", "\u200b", "\ufeff", "\v", "\f"]
MARKS = ["\u0301", "\u0308", "\u0323\u0302", "\u20e3", "\ufe0f", "\u0e49", "\u094d", "\u064b",
         "\u3099"]
EMOJI = ["😀", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇮🇹", "🇮", "❤️", "1️⃣", "🧑🏿‍🚀", "\u200d", "🫠", "🪿"]
SIGNS = [".", ",", "!", "?!", "...", "::", "-", "--", "_", "/", "\\", "\"", "(", ")]}", "<", ">",
         "|", "#", "@", "$", "€", "±", "→", "∑", "。", "「", "…", "«", "==", "&&", "//", "\u00ad"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<｜end▁of▁sentence｜>", "ø", "[PAD151650]",
           "<|padding|>", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|eot_id",
           "<|reserved_special_token_7|>", "<s>", "</s>", "<unk>", "<0x0A>", "<0xff>", "\u2581",
           "\u2581\u2581the"]
# Letters and digits that Unicode 15 has and 14 has not.
NEW_LETTERS = [0x1123F, 0x11F02, 0x11F50, 0x1D2C0, 0x1E030, 0x1E4D0, 0x1E4F0, 0x2EBF0, 0x31350,
               0x323AF]


class Random:
    """SplitMix64, so that no library's generator decides what the texts are."""

    def __init__(self, seed):
        self.state = seed & MASK

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % n

    def pick(self, items):
        return items[self.below(len(items))]


def any_code_point(random, low, high):
    while True:
        code = low + random.below(high - low)
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def part(random):
    kind = random.below(20)
    if kind < 4:
        return random.pick(["", " "]) + random.pick(WORDS)
    if kind < 6:
        return random.pick(WORDS) + random.pick(ENDINGS)
    if kind < 8:
        return random.pick(DIGITS)
    if kind < 11:
        return random.pick(SPACES)
    if kind < 12:
        return random.pick(WORDS) + random.pick(MARKS) + random.pick(MARKS)
    if kind < 13:
        return random.pick(EMOJI)
    if kind < 15:
        return random.pick(SIGNS)
    if kind < 16:
        return random.pick(SPECIAL)
    if kind < 17:
        return any_code_point(random, 0, 0x100)  # with C0 and C1 controls
    if kind < 18:
        return any_code_point(random, 0, 0x3000)
    if kind < 19:
        return any_code_point(random, 0, 0x110000)
    if random.below(4) == 0:
        return chr(random.pick(NEW_LETTERS))
    return any_code_point(random, 0, 0x20000)


def lines_of(files):
    """Those of some length, in UTF-8; longer ones cost a regular expression its stack."""
    lines = []
    for file in files:
        with open(file, "rb") as source:
            text = source.read().decode("utf-8", "replace")
        lines += [line for line in text.split("\n") if 0 < len(line) <= 1000]
    return lines


def main():
    count, random = int(sys.argv[1]), Random(int(sys.argv[2]))
    if len(sys.argv) > 3:
        lines = lines_of(sys.argv[3:])
        texts = [random.pick(lines) for _ in range(count)]
    else:
        texts = ["".join(part(random) for _ in range(random.below(60))) for _ in range(count)]
    sys.stdout.buffer.write(SEPARATOR.join(texts).encode())


if __name__ == "__main__":
    main()
