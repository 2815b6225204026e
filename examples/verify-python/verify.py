#!/usr/bin/env python3
"""Verifies Assay's audit log without Assay, as docs/audit-format.md describes it. Needs Python 3.11 and nothing else.

    verify.py export --key KEYS [--checkpoints FILE] EXPORT...   verify exports of the audit log
    verify.py log --key KEYS --checkpoint OLD URL                verify that a host's public log only grew since OLD
    verify.py receipt --key KEYS RECEIPT...                      verify receipts of checks

KEYS are the verifier keys that the operator published: the output of `assay audit checkpoint` will do. Later keys are
followed. OLD is a checkpoint that you kept. The exit status is 0 if everything is valid, 1 if something is not, and 2
for a wrong call.
"""

import argparse
import base64
import functools
import hashlib
import json
import re
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

ANCHORS = "assay/audit"  # the name of the key that signs anchors
UNSIGNED_SECONDS = 600  # an older record must be covered by a checkpoint
STATES = 1_000_000  # the first chain of the records about accounts, keys, lineups and so on
KEPT_SECONDS = 30 * 24 * 3600  # after a key has ended, its row may be deleted; that of an override at once


class Invalid(Exception):
    """What is wrong with the log, for people."""


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


# Ed25519 (RFC 8032, section 5.1): only verification, so no time depends on a secret.

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)  # of -1
Point = tuple[int, int, int, int]  # x, y, z and t with x/z, y/z and x*y = z*t


def recover(encoded: bytes) -> Point | None:
    """Decodes a point (section 5.1.3)."""
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or not x and sign:
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def add(a: Point, b: Point) -> Point:
    """Adds two points (section 5.1.4)."""
    e = (a[1] - a[0]) * (b[1] - b[0]) % P
    f = (a[1] + a[0]) * (b[1] + b[0]) % P
    g = 2 * a[3] * b[3] * D % P
    h = 2 * a[2] * b[2] % P
    x, y, z, t = f - e, h - g, h + g, f + e
    return x * y % P, t * z % P, y * z % P, x * t % P


def multiply(n: int, point: Point) -> Point:
    result: Point = (0, 1, 1, 0)
    while n:
        if n & 1:
            result = add(result, point)
        point, n = add(point, point), n >> 1
    return result


BASE = recover((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


@functools.lru_cache  # several notes and files contain the same signature
def signed_by(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether a signature is the key's (section 5.1.7)."""
    a = recover(key)
    if len(signature) != 64 or a is None or BASE is None:
        return False
    s = int.from_bytes(signature[32:], "little")
    if s >= ORDER:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    minus = (P - a[0], a[1], a[2], P - a[3])
    x, y, z, _ = add(multiply(s, BASE), multiply(h, minus))
    inverse = pow(z, -1, P)
    x, y = x * inverse % P, y * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little") == signature[:32]


# Signed notes (C2SP signed-note).

NAMED = re.compile(r"assay/[0-9a-f]{16}/chain/(0|[1-9][0-9]{0,9})(?:/after/([1-9][0-9]{0,18}))?")
STATEMENT = "assay key, version 1"  # the first line of a statement that introduces a key
REWRITTEN = "the Merkle tree differs from a signed checkpoint: records up to here were rewritten"
LATE_ANCHOR = "records were pruned under an anchor that was signed with a key that had been replaced"
OVERLAP = 3600  # seconds for which records may be covered by a key that was replaced
Term = tuple[bytes, float]  # a key, and when it was replaced; infinity if it was not


@dataclass
class Keys:
    """The keys of an installation: the first, which names its logs, and those that statements introduce."""

    first: bytes
    statements: list[tuple[str, bytes, str, float]] = field(default_factory=list)  # text, key, uses, and from when

    def name(self) -> str:
        return f"assay/{sha256(self.first)[:8].hex()}"

    def tree_of(self, origin: str) -> tuple[int, int]:
        """Returns the chain of a tree, and the number of the record that accepts its last loss, given its origin."""
        match = NAMED.fullmatch(origin)
        if not match or not origin.startswith(self.name() + "/"):
            raise Invalid(f"{origin!r} is not the origin of a tree of this installation")
        return int(match[1]), int(match[2] or 0)

    def terms(self, use: str) -> list[Term]:
        """The keys for a use, oldest first."""
        terms = [(self.first, float("inf"))]
        for _, key, uses, since in self.statements:
            if use in uses.split():
                terms[-1:] = [(terms[-1][0], since), (key, float("inf"))]
        return terms

    def follow(self, notes: list[str]) -> "Keys":
        """Returns the keys with those that statements introduce."""
        result = Keys(self.first, list(self.statements))
        for note in notes:
            result.add(note)
        return result

    def add(self, note: str) -> None:
        text = note.partition("\n\n")[0]
        lines = text.split("\n")
        if len(lines) != 6 or lines[0] != STATEMENT or lines[1] != self.name():
            raise Invalid(f"{text[:200]!r} does not introduce a key of this installation")
        place, uses, encoded = number(lines[2]) - 2, lines[3], lines[4]
        if 0 <= place < len(self.statements):
            if self.statements[place][0] != text:
                raise Invalid(f"there are two statements about key {lines[2]}")
            Keys(self.first, self.statements[:place]).add(note)  # others must be able to follow it too
            return
        key = decode_key(encoded)
        since = seconds(lines[5])
        if place != len(self.statements) or uses not in ("checkpoints", "records", "checkpoints records"):
            raise Invalid(f"the statement about key {len(self.statements) + 2} is missing")
        if self.statements and since < self.statements[-1][3]:
            raise Invalid(f"key {lines[2]} begins earlier than the previous key")
        if key in [self.first] + [known for _, known, _, _ in self.statements]:
            raise Invalid(f"key {lines[2]} is an earlier key")
        for signer in (self.terms("checkpoints")[-1][0], key):
            open_note(note, self.name(), [(signer, 0)])
        self.statements.append((text, key, uses, since))


def read_keys(text: str) -> Keys:
    """Reads an installation's keys from a text with its verifier keys and statements."""
    found: dict[bytes, set[str]] = {}
    for line in text.splitlines():
        name, _, rest = line.strip().removeprefix("verifier key: ").partition("+")
        if name != ANCHORS and not NAMED.fullmatch(name):
            continue
        hashed, _, encoded = rest.partition("+")
        key = decode_key(encoded)
        if hashed != key_hash(name, key).hex():
            raise Invalid(f"the key {line!r} is not a verifier key of Ed25519")
        found.setdefault(key, set()).add(name)
    first = {key for key, names in found.items() if ANCHORS in names or
             any(name.startswith(Keys(key).name() + "/") for name in names)}
    if len(first) != 1:
        raise Invalid(f"the file of keys has the keys of {len(first)} installations, not of one")
    keys = Keys(first.pop())
    keys = keys.follow([note for note in split_notes(text) if note.startswith(STATEMENT + "\n")])
    for key in found:
        if key not in [known for known, _ in keys.terms("checkpoints")]:
            raise Invalid("the file of keys has the keys of two installations, or lacks a statement")
    return keys


def decode_key(encoded: str) -> bytes:
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise Invalid(f"the key {encoded!r} is not base 64") from None
    if len(key) != 33 or key[0] != 1:
        raise Invalid(f"the key {encoded!r} is not one of Ed25519")
    return key[1:]


def key_hash(name: str, key: bytes) -> bytes:
    return sha256(name.encode() + b"\n\x01" + key)[:4]


def open_note(note: str, name: str, terms: list[Term]) -> tuple[list[str], float]:
    """Returns the lines of a note that one of the keys signed under a name, and when that key was replaced."""
    for key, until in reversed(terms):
        lines = signed_note(note, name, key)
        if lines is not None:
            return lines, until
    raise Invalid(f"a note is not signed by {name} with this installation's key: {note[:60]!r}")


def signed_note(note: str, name: str, key: bytes) -> list[str] | None:
    text, blank, signatures = note.rpartition("\n\n")
    text += "\n"
    if blank and signatures.endswith("\n"):
        lines = None
        for line in signatures[:-1].split("\n"):
            match = re.fullmatch(r"\u2014 ([^\s+]+) (\S+)", line)
            try:
                raw = base64.b64decode(match[2] if match else "", validate=True)
            except ValueError:
                raw = b""
            if not match or len(raw) < 5:
                raise Invalid(f"the line {line[:60]!r} is not a signature")
            if match[1] == name and raw[:4] == key_hash(name, key) and signed_by(key, text.encode(), raw[4:]):
                lines = text[:-1].split("\n")
        return lines
    return None


def number(text: str) -> int:
    if not re.fullmatch("0|[1-9][0-9]{0,18}", text):
        raise Invalid(f"{text!r} is not a number")
    return int(text)


@dataclass(frozen=True)
class Signed:
    """A checkpoint: the size and the root of a tree, and what its signature says."""

    chain: int
    after: int  # number of the record that accepts the chain's last loss; 0: none
    size: int
    root: bytes
    until: float  # when its key was replaced; infinity if it was not


def open_checkpoint(note: str, keys: Keys) -> Signed:
    """Verifies the signature of a checkpoint."""
    name = note.partition("\n")[0]
    chain, after = keys.tree_of(name)
    lines, until = open_note(note, name, keys.terms("checkpoints"))
    if len(lines) != 3:
        raise Invalid("a checkpoint does not have three lines")
    return Signed(chain, after, number(lines[1]), decode_hash(lines[2]), until)


def open_anchor(note: str, keys: Keys) -> tuple[int, int, bytes, float]:
    """Returns the chain, the number and the hash of an anchor, and when its key was replaced."""
    lines, until = open_note(note, ANCHORS, keys.terms("checkpoints"))
    if len(lines) != 4 or not re.fullmatch(r"pruned before \d{4}-\d{2}-\d{2}", lines[3]):
        raise Invalid("a note is not an anchor")
    if seconds(lines[3].removeprefix("pruned before ") + "T00:00:00Z") > until + OVERLAP:
        raise Invalid(LATE_ANCHOR)
    chain = number(lines[0].removeprefix(ANCHORS + "/chain/"))
    return chain, number(lines[1]), decode_hash(lines[2]), until


def decode_hash(text: str) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except ValueError:
        value = b""
    if len(value) != 32:
        raise Invalid(f"{text!r} is not a hash in base 64")
    return value


def split_notes(text: str) -> list[str]:
    """Splits a file of notes, each of which is text, an empty line and signatures."""
    return re.findall(r"(?:[^\n]+\n)+\n(?:\u2014 [^\n]+\n)+", text)


# Merkle trees (RFC 6962, section 2.1).


def node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01", left, right)


@dataclass
class Tree:
    """A tree that grows: the roots of its complete subtrees from left to right, with their heights."""

    edge: list[tuple[int, bytes]] = field(default_factory=list)
    size: int = 0

    def push(self, height: int, value: bytes) -> None:
        self.size += 1 << height
        self.edge.append((height, value))
        while len(self.edge) > 1 and self.edge[-1][0] == self.edge[-2][0]:
            (height, left), (_, right) = self.edge[-2:]
            self.edge[-2:] = [(height + 1, node(left, right))]

    def root(self) -> bytes:
        if not self.edge:
            return sha256()
        value = self.edge[-1][1]
        for _, left in reversed(self.edge[:-1]):
            value = node(left, value)
        return value


def largest_power(n: int) -> int:
    """The largest power of two below n."""
    return 1 << (n - 1).bit_length() - 1


def range_root(read: Callable[[int, int], bytes], start: int, end: int) -> bytes:
    """The root of the leaves from start to end. read(height, index) is the root of a complete subtree."""
    size = end - start
    if size & (size - 1) == 0:
        height = size.bit_length() - 1
        return read(height, start >> height)
    middle = start + largest_power(size)
    return node(range_root(read, start, middle), range_root(read, middle, end))


def consistency(read: Callable[[int, int], bytes], old: int, new: int) -> list[bytes]:
    """The proof that the tree of the first old leaves is the beginning of that of new (RFC 6962, section 2.1.2)."""

    def part(old: int, start: int, end: int, known: bool) -> list[bytes]:
        if old == end - start:
            return [] if known else [range_root(read, start, end)]
        k = largest_power(end - start)
        if old <= k:
            return part(old, start, start + k, known) + [range_root(read, start + k, end)]
        return part(old - k, start + k, end, False) + [range_root(read, start, start + k)]

    return part(old, 0, new, True)


def consistent(old: int, old_root: bytes, new: int, new_root: bytes, proof: list[bytes]) -> bool:
    """Whether the proof is right (RFC 9162, section 2.1.4.2)."""
    if old == 0 or old == new:
        return not proof and (old == 0 or old_root == new_root)
    if old & (old - 1) == 0:
        proof = [old_root, *proof]
    first, last = old - 1, new - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    if not proof:
        return False
    left = right = proof[0]
    for step in proof[1:]:
        if last == 0:
            return False
        if first & 1 or first == last:
            left, right = node(step, left), node(step, right)
            while first and not first & 1:
                first, last = first >> 1, last >> 1
        else:
            right = node(right, step)
        first, last = first >> 1, last >> 1
    return last == 0 and left == old_root and right == new_root


def included(leaf: bytes, index: int, size: int, root: bytes, proof: list[bytes]) -> bool:
    """Whether the proof that a leaf is in a tree is right (RFC 9162, section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    value, last = leaf, size - 1
    for step in proof:
        if last == 0:
            return False
        if index & 1 or index == last:
            value = node(step, value)
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            value = node(value, step)
        index, last = index >> 1, last >> 1
    return last == 0 and value == root


# Exports.


def text_field(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(4, "big") + data


def bytes_field(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def from_hex(value: object, length: int | None = None) -> bytes:
    if not isinstance(value, str) or not re.fullmatch("([0-9a-f]{2})*", value):
        raise Invalid(f"{value!r} is not hexadecimal")
    data = bytes.fromhex(value)
    if length is not None and len(data) != length:
        raise Invalid(f"{value!r} is not {length} bytes long")
    return data


def integer(value: object) -> int:
    if type(value) is not int:  # bool is a subclass
        raise Invalid(f"{value!r} is not an integer")
    return value


CONTENT = {"at": "", "ref": "", "account": "", "key": "", "type": "", "pseudonym": "", "score": 0, "verdict": "",
           "revision": 0, "digest": ""}


def leaf_of(nonce: bytes, record: dict[str, Any]) -> bytes:
    """The leaf of a record."""
    r = CONTENT | record
    try:
        encoding = b"".join([
            b"\x01", *(text_field(r[name]) for name in ("kind", "at", "ref", "account", "key", "type")),
            bytes_field(from_hex(r["pseudonym"])), integer(r["score"]).to_bytes(8, "big", signed=True),
            text_field(r["verdict"]), integer(r["revision"]).to_bytes(8, "big", signed=True),
            bytes_field(from_hex(r["digest"])),
        ])
    except (AttributeError, OverflowError, UnicodeEncodeError):
        raise Invalid("a member has the wrong type") from None
    return sha256(b"\x00", nonce, encoding)


@dataclass
class Chain:
    """A chain that is verified record by record."""

    number: int
    keys: Keys
    line: dict[str, Any]
    outside: list[Signed]  # checkpoints that are kept elsewhere

    def __post_init__(self) -> None:
        self.seq = self.start = 0
        self.replaced = float("inf")  # when the key of the newest anchor was
        self.head = sha256(f"assay audit chain {self.number}, version 1".encode())
        for note in self.line["anchors"] or []:
            chain, seq, value, self.replaced = open_anchor(note, self.keys)
            if chain != self.number or seq < self.start or seq == 0:
                raise Invalid("an anchor is of another chain, or not in its place")
            self.seq = self.start = seq
            self.head = value
        self.anchor, self.pruned = self.head, False
        self.blank: dict[int, bytes] = {}  # erased records that no erasure has named yet
        self.since = self.until = ""  # times of the first and the newest record that no checkpoint covers
        self.met, self.erased = 0, 0
        self.newest = 0.0  # time of the newest record
        self.states: dict[tuple[str, str], dict[str, Any]] = {}  # the last record of each account, key and so on
        self.open_tree()

    def open_tree(self) -> None:
        """Reads the checkpoints, and the tree of the records before the first one."""
        notes = [open_checkpoint(note, self.keys) for note in self.line["checkpoints"] or []]
        if any(signed.chain != self.number for signed in notes):
            raise Invalid("a checkpoint is of another chain")
        self.signed: dict[int, list[Signed]] = {}  # by size, not reached yet
        for signed in self.outside + notes:
            known = self.signed.setdefault(signed.size, [])
            if any(k.after == signed.after and k.root != signed.root for k in known):
                raise Invalid("two checkpoints of the same size differ")
            known.append(signed)
        self.contradicted: list[Signed] = []  # signed before a loss; the records differ from them
        self.loss = self.confirmed = 0
        self.excused = False
        stored = self.line["tree"]
        self.tree: Tree | None = None
        if stored is None:
            if self.signed:
                raise Invalid("a checkpoint of its Merkle tree was signed, but the export has no tree")
            return
        self.after = integer(stored.get("after", 0))
        self.first, self.size = integer(stored["first"]), integer(stored["size"])
        self.root = from_hex(stored["root"], 32)
        size = self.start + 1 - self.first
        if size < 0 or size > self.size or self.first < 1:
            raise Invalid("its Merkle tree does not cover the records before the first one")
        self.tree = Tree()
        for tile in sorted(self.line["edge"] or [], key=lambda tile: -tile["level"]):
            level, hashes = integer(tile["level"]), from_hex(tile["hashes"])
            width = size // 256**level % 256
            values = [hashes[i : i + 32] for i in range(0, len(hashes), 32)]
            if len(hashes) != width * 32 or integer(tile["index"]) != size // 256 ** (level + 1):
                raise Invalid("a tile of its Merkle tree is not the one on the right edge")
            while values:  # complete subtrees, the largest first
                part = 1 << len(values).bit_length() - 1
                subtree = Tree()
                for value in values[:part]:
                    subtree.push(0, value)
                self.tree.push(8 * level + part.bit_length() - 1, subtree.root())
                values = values[part:]
        if self.tree.size != size:
            raise Invalid("tiles of its Merkle tree are missing")
        pruned = [signed for n, all in self.signed.items() if n < size for signed in all]
        if any(signed.until > self.replaced for signed in pruned):
            raise Invalid(LATE_ANCHOR)
        self.signed = {n: signed for n, signed in self.signed.items() if n >= size}
        self.compare_root()

    def compare_root(self) -> None:
        if self.tree is None:
            return
        size = self.tree.size
        if size not in self.signed and size != self.size:
            return
        root, met = self.tree.root(), False
        for signed in self.signed.pop(size, []):
            if signed.root != root and signed.after < self.after:
                self.contradicted.append(signed)
            elif signed.root != root:
                raise Invalid(REWRITTEN)
            elif self.newest > signed.until + OVERLAP:
                raise Invalid("a checkpoint up to here was signed with a key that had been replaced")
            else:
                met = True
                self.confirmed = max(self.confirmed, signed.after)
        if met:
            self.met, self.since, self.until = self.met + 1, "", ""
        if size == self.size and root != self.root:
            raise Invalid("the Merkle tree of the records does not have the stored root")

    def lose(self, seq: int, survived: int) -> None:
        """Notes an accepted loss: checkpoints signed before need not be met if they cover more than survived."""

        def kept(signed: Signed) -> bool:
            excused = signed.after < seq and self.first + signed.size - 1 > survived
            self.excused = self.excused or excused
            return not excused

        self.loss = seq
        self.contradicted = [signed for signed in self.contradicted if kept(signed)]
        self.signed = {size: left for size, all in self.signed.items() if (left := [s for s in all if kept(s)])}

    def add(self, record: dict[str, Any]) -> None:
        """Verifies the next record."""
        if integer(record.get("seq")) != self.seq + 1:
            raise Invalid(f"the next record is number {record.get('seq')!r}")
        leaf, nonce = from_hex(record["leaf"], 32), record.get("nonce")
        if nonce is None:
            if any(record.get(name) for name in CONTENT):
                raise Invalid("its nonce was deleted, but not its content")
            if record.get("kind") != "erased":
                raise Invalid("its content was deleted, but its kind is not that of an erased record")
            self.blank[self.seq + 1] = leaf
            self.erased += 1
        else:
            if leaf_of(from_hex(nonce, 16), record) != leaf:
                raise Invalid("the record does not match its leaf")
            self.since = self.since or record.get("at", "")
            self.until = max(self.until, record.get("at", ""))
            if record.get("at") and self.keys.statements:
                self.newest = max(self.newest, seconds(record["at"]))
            if record["kind"] == "erasure":
                self.erase(record)
            elif record["kind"] == "pruning":
                self.prune(record)
            elif record["kind"] == "state":
                self.states[record.get("type", ""), record.get("key") or record.get("account", "")] = record
        self.seq += 1
        place = self.number.to_bytes(4, "big") + self.seq.to_bytes(8, "big")
        self.head = sha256(b"\x01", self.head, place, leaf)
        if self.head != from_hex(record["hash"], 32):
            raise Invalid("the hash does not follow from the previous record")
        if self.tree is not None:
            self.tree.push(0, leaf)
            if nonce is not None and record["kind"] == "loss":
                self.lose(self.seq, record.get("revision", 0))
            self.compare_root()

    def erase(self, record: dict[str, Any]) -> None:
        named = [(integer(e["seq"]), from_hex(e["leaf"], 32)) for e in record.get("erased") or []]
        message = b"assay erasure, version 1\n" + self.number.to_bytes(4, "big")
        message += b"".join(seq.to_bytes(8, "big") + leaf for seq, leaf in named)
        digest = from_hex(record.get("digest", ""))
        keys = [key for key, until in self.keys.terms("records")
                if until == float("inf") or seconds(record["at"]) <= until + OVERLAP]
        if not any(signed_by(key, message, digest) for key in keys):
            raise Invalid("the list of erased records differs from the signed one")
        for seq, leaf in named:
            if seq > self.start and self.blank.pop(seq, None) != leaf:
                raise Invalid(f"record {seq}, which it erased, has content, another leaf or another erasure")

    def prune(self, record: dict[str, Any]) -> None:
        if record.get("revision", 0) > self.start:
            raise Invalid("it reports a pruning without a signed anchor")
        if record.get("revision", 0) == self.start:
            if from_hex(record.get("digest", "")) != self.anchor:
                raise Invalid("the anchor that it names differs from the signed one")
            self.pruned = True

    def close(self) -> str:
        """Verifies the end, and returns a sentence about the chain."""
        head = self.line["head"]
        if integer(head["seq"]) != self.seq or from_hex(head["hash"]) != self.head:
            raise Invalid(f"the records end here, but the chain's head is record {head['seq']}")
        if self.start and not self.pruned:
            raise Invalid("no record after the anchor reports the pruning")
        if self.blank:
            raise Invalid(f"the content of record {min(self.blank)} was deleted, but no later erasure names it")
        if self.signed:
            raise Invalid(f"the records end here, but a signed checkpoint covers {max(self.signed)} leaves")
        if self.contradicted:
            raise Invalid(REWRITTEN)
        if self.tree is not None and self.after != self.loss and (self.loss or self.after > self.start):
            raise Invalid("the Merkle tree goes on after a loss that no record accepts")
        if self.excused and self.confirmed < self.loss:
            raise Invalid(f"record {self.loss} accepts a loss, but no checkpoint was signed since")
        if self.tree is not None and self.size > self.tree.size:
            raise Invalid("the records end here, but the Merkle tree has more leaves")
        if self.since:
            until = seconds(self.until) if self.met else time.time()
            if abs(until - seconds(self.since)) >= UNSIGNED_SECONDS:
                raise Invalid("no signed checkpoint covers the last records: they were deleted")
        return (f"Audit chain {self.number} is valid: {self.seq - self.start} records ({self.erased} erased), "
                f"{self.met} signed checkpoints match.")


def compare_states(stored: dict[tuple[str, str], str], recorded: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Compares the accounts, keys and so on that are stored with the last record of each."""
    for name, digest in stored.items():
        if name not in recorded:
            raise Invalid(f"the {' '.join(name)} is stored, but no record says that it was added")
        if not digest or recorded[name].get("digest") != digest:
            raise Invalid(f"the {' '.join(name)} differs from its last record")
    for name, record in recorded.items():
        ends = record.get("revision", 0) / 1000
        kept = KEPT_SECONDS if name[0] == "key" else 0
        deletable = ends and ends + kept <= time.time()
        if name not in stored and record.get("digest") and not deletable:
            raise Invalid(f"the {' '.join(name)} is gone, but no record says that it was removed")


def seconds(timestamp: str) -> float:
    """A time in seconds since 1970."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        raise Invalid(f"{timestamp!r} is not a time") from None


def unambiguous(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without a member that another program could take for one of those that are verified."""
    if len({name.lower() for name, _ in members}) < len(members):
        raise Invalid("an object has a member twice")
    return dict(members)


def texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(note, str) for note in value):
        raise Invalid("the statements that introduce keys are not a list of texts")
    return value


def parse_line(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=unambiguous)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Invalid("a line is not a JSON object")
    return value


def verify_export(lines: Iterator[str], keys: Keys, notes: list[str]) -> list[str]:
    """Verifies an export and checkpoints that were kept, and returns a sentence about each chain."""
    header = parse_line(next(lines, ""))
    if header.get("format") != "assay-audit-export-1":
        raise Invalid("the first line is not that of an export")
    statements = texts(header.get("statements", []))
    if len(statements) < len(keys.statements):
        raise Invalid("statements that introduce keys were deleted")
    keys = keys.follow(statements)
    outside: dict[int, list[Signed]] = {}
    for note in notes:
        signed = open_checkpoint(note, keys)
        outside.setdefault(signed.chain, []).append(signed)
    said: list[str] = []
    chain: Chain | None = None
    seen: set[int] = set()
    records, ended = 0, False
    stored: dict[tuple[str, str], str] = {}
    recorded: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        value = parse_line(line)
        if ended:
            raise Invalid("there are lines after the end")
        try:
            if line.startswith(('{"chain":', '{"state":', '{"records":')) and chain is not None:
                said.append(chain.close())
                if chain.number >= STATES:
                    for name in recorded.keys() & chain.states.keys():
                        raise Invalid(f"the {' '.join(name)} was recorded in another chain before")
                    recorded |= chain.states
                chain = None
            if line.startswith('{"state":'):
                name = value["state"], value["id"]
                if not seen or stored and name <= max(stored):
                    raise Invalid("the stored states are not in ascending order")
                stored[name] = value["digest"]
            elif stored and not line.startswith('{"records":'):
                raise Invalid("there are lines after the stored states")
            elif line.startswith('{"chain":'):
                if seen and integer(value["chain"]) <= max(seen):
                    raise Invalid("the chains are not in ascending order")
                seen.add(integer(value["chain"]))
                chain = Chain(value["chain"], keys, value, outside.get(value["chain"], []))
            elif line.startswith('{"records":'):
                ended = value.get("end") is True and integer(value["records"]) == records
            elif chain is None:
                raise Invalid("a record belongs to no chain")
            else:
                records += 1
                chain.add(value)
        except Invalid as error:
            place = f"audit chain {chain.number}, after record {chain.seq}: " if chain else ""
            raise Invalid(f"{place}{error}") from None
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise Invalid(f"a line lacks a member or has a wrong one: {error!r}") from None
    if not ended:
        raise Invalid("the export was cut off")
    compare_states(stored, recorded)
    for number, kept in outside.items():
        if number not in seen and any(signed.size for signed in kept):
            raise Invalid(f"audit chain {number} is gone, but a signed checkpoint covers it")
    return said


# Public logs (C2SP tlog-tiles).


def verify_log(url: str, old_note: str, keys: Keys) -> str:
    """Verifies that a host's log contains the tree of an older checkpoint."""
    match = NAMED.fullmatch(old_note.partition("\n")[0])
    if not match:
        raise Invalid("the old checkpoint is not one")
    base = f"{url.rstrip('/')}/audit/{match[1]}/"
    keys = keys.follow([note for note in split_notes(fetch(base + "keys").decode()) if note.startswith(STATEMENT)])
    before, now = open_checkpoint(old_note, keys), open_checkpoint(fetch(base + "checkpoint").decode(), keys)
    chain, old, old_root, new, new_root = before.chain, before.size, before.root, now.size, now.root
    if now.chain != chain:
        raise Invalid("the host serves the checkpoint of another chain")
    if now.after != before.after:
        raise Invalid(f"the operator accepted a loss in record {now.after}, so the log goes on as another one")
    if new < old:
        raise Invalid(f"the log has {new} leaves, but a signed checkpoint covers {old}: it went back")
    kept: dict[tuple[int, int], bytes] = {}

    def read(height: int, index: int) -> bytes:
        level, inner = divmod(height, 8)
        start = index << inner
        tile, offset = divmod(start, 256)
        if (level, tile) not in kept:
            width = min(256, (new >> 8 * level) - 256 * tile)
            kept[level, tile] = fetch(base + tile_path(level, tile, width))
        hashes = kept[level, tile]
        subtree = Tree()
        for i in range(offset, offset + (1 << inner)):
            subtree.push(0, hashes[32 * i : 32 * i + 32])
        return subtree.root()

    if not consistent(old, old_root, new, new_root, consistency(read, old, new) if 0 < old < new else []):
        raise Invalid(f"the log of {new} leaves does not begin with the signed tree of {old}: it was rewritten")
    return f"Audit chain {chain} only grew, from {old} to {new} records."


# Receipts.


def only(value: dict[str, Any], *names: str) -> None:
    """Refuses members that are not verified, as a reader could rely on them."""
    if unknown := value.keys() - set(names):
        raise Invalid(f"it has the unknown member {min(unknown)!r}")


def verify_receipt(receipt: dict[str, Any], keys: Keys) -> str:
    """Verifies a receipt, and returns a sentence about it."""
    if receipt.get("format") != "assay-receipt-1":
        raise Invalid("the file is not a receipt")
    only(receipt, "format", "record", "activation", "promise", "keys", "proof")
    record, note, proof = receipt["record"], receipt["promise"], receipt["proof"]
    only(record, "nonce", "kind", *CONTENT)
    from_hex(receipt.get("activation", ""))  # nothing proves it
    keys = keys.follow(texts(receipt.get("keys", [])))
    name = (note.split("\n") + [""])[1]
    chain, _ = keys.tree_of(name)
    lines, until = open_note(note, name, keys.terms("records"))
    if len(lines) != 5 or lines[0] != "assay promise, version 1":
        raise Invalid("the promise does not have five lines")
    index, leaf = number(lines[2]), decode_hash(lines[3])
    if leaf_of(from_hex(record["nonce"], 16), record) != leaf:
        raise Invalid("the promise is about another record")
    if seconds(record["at"]) > until + OVERLAP:
        raise Invalid("the key of the promise was replaced before the check")
    about = f"{record.get('ref')}: {record.get('verdict')} {record.get('score', 0)} at {record.get('at')}"
    if proof is None:
        return f"{about}, promised to be leaf {index} of {name} by {lines[4]}."
    only(proof, "index", "hashes", "checkpoint")
    signed = open_checkpoint(proof["checkpoint"], keys)
    size, root = signed.size, signed.root
    if seconds(record["at"]) > signed.until + OVERLAP:
        raise Invalid("the key of the checkpoint was replaced before the check")
    joined = base64.b64decode(proof["hashes"], validate=True)
    hashes = [joined[i : i + 32] for i in range(0, len(joined), 32)]
    if signed.chain != chain or integer(proof["index"]) != index or len(joined) % 32:
        raise Invalid("the proof is about another place in the log")
    if not included(leaf, index, size, root, hashes):
        raise Invalid("the proof is wrong: the signed tree does not contain the record")
    return f"{about}, is leaf {index} of the signed tree of {size} leaves of {name}."


def tile_path(level: int, index: int, width: int) -> str:
    groups = [f"{index % 1000:03}"]
    while index >= 1000:
        index //= 1000
        groups.insert(0, f"x{index % 1000:03}")
    return f"tile/{level}/{'/'.join(groups)}" + (f".p/{width}" if width < 256 else "")


def fetch(url: str) -> bytes:
    if not url.startswith(("https://", "http://")):
        raise Invalid(f"{url!r} is not the URL of a host")
    with urllib.request.urlopen(url, timeout=30) as response:
        data: bytes = response.read()
        return data


def read_text(name: str) -> str:
    with open(name, encoding="utf-8") as file:
        return file.read()


def main() -> int:
    parser = argparse.ArgumentParser(description="Verify Assay's audit log without Assay.")
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="verify exports of the audit log")
    export.add_argument("--checkpoints", action="append", default=[], metavar="FILE", help="checkpoints that you kept")
    export.add_argument("file", nargs="+", metavar="EXPORT")
    log = commands.add_parser("log", help="verify that a host's public log only grew")
    log.add_argument("--checkpoint", required=True, metavar="OLD", help="file of checkpoints that you kept")
    log.add_argument("url", metavar="URL")
    receipt = commands.add_parser("receipt", help="verify receipts of checks")
    receipt.add_argument("file", nargs="+", metavar="RECEIPT")
    for command in (export, log, receipt):
        command.add_argument("--key", required=True, metavar="KEYS", help="file of the operator's verifier keys")
    args = parser.parse_args()
    status = 0
    try:
        keys = read_keys(read_text(args.key))
        if args.command == "log":
            kept = split_notes(read_text(args.checkpoint))
            if not kept:
                raise Invalid(f"{args.checkpoint} has no checkpoint")
            for note in kept:
                print(verify_log(args.url, note, keys))
            return 0
        kept = [] if args.command == "receipt" else args.checkpoints
        notes = [note for name in kept for note in split_notes(read_text(name))]
        for name in args.file:
            try:
                if args.command == "receipt":
                    print(verify_receipt(parse_line(read_text(name)), keys))
                    continue
                with open(name, encoding="utf-8", newline="\n") as file:
                    for sentence in verify_export(iter(file), keys, notes):
                        print(sentence)
            except (KeyError, TypeError, AttributeError) as error:
                print(f"{name}: a member is missing or wrong: {error!r}", file=sys.stderr)
                status = 1
            except (Invalid, ValueError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                status = 1
    except (Invalid, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
