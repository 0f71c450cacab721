"""Chakra execution traces of our own making, byte by byte after mlcommons/chakra's schema."""


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def text(number, value):
    data = value if isinstance(value, bytes) else value.encode()
    return varint(number << 3 | 2) + varint(len(data)) + data


def whole(number, value):
    return varint(number << 3) + varint(value)


def attribute(name, value, kind=9):
    return text(10, text(1, name) + whole(kind, value))


def node(identity, kind, micros=0, waits=(), begin=0, **told):
    """A node: its type as a number, durations in microseconds, attributes by name."""
    body = whole(1, identity) + text(2, f"node {identity}") + whole(3, kind)
    if waits:
        body += text(5, b"".join(varint(n) for n in waits))
    body += (whole(6, begin) if begin else b"") + whole(7, micros)
    for name, value in told.items():
        body += attribute(name, int(value), 27 if isinstance(value, bool) else 9)
    return body


def trace(*nodes, version="0.0.4"):
    """A whole file."""
    parts = [text(1, version), *nodes]
    return b"".join(varint(len(part)) + part for part in parts)


COMPUTE, SEND, COLLECTIVE = 4, 5, 7
ALL_REDUCE, BROADCAST = 0, 5
