#!/usr/bin/env python3
"""Writes a GGUF file of metadata only again, with another tokenizer.ggml.pre.

    with_pre_tokenizer.py FILE NAME OUT
"""

import struct
import sys

STRING, ARRAY = 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def string(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip(element)
        else:
            self.at += SIZES[kind]


def main():
    file, name, out = sys.argv[1:]
    with open(file, "rb") as source:
        reader = Reader(source.read())
    magic, version = reader.number("I"), reader.number("I")
    tensors, count = reader.number("Q"), reader.number("Q")
    if tensors != 0:
        sys.exit(f"{file} has tensors")
    entries = []
    for _ in range(count):
        begin = reader.at
        key = reader.string()
        reader.skip(reader.number("I"))
        if key != b"tokenizer.ggml.pre":
            entries.append(reader.data[begin:reader.at])
    key, value = b"tokenizer.ggml.pre", name.encode()
    entries.append(struct.pack("<Q", len(key)) + key + struct.pack("<IQ", STRING, len(value)) + value)
    with open(out, "wb") as target:
        target.write(struct.pack("<IIQQ", magic, version, 0, len(entries)) + b"".join(entries))


if __name__ == "__main__":
    main()
