#!/usr/bin/env python3
"""Verifies the audit log of a Gradus state directory, or a file that `gradus audit export` wrote; written from
docs/audit-format.md alone.

    verify_independently.py STATE-DIRECTORY [--anchor FILE] [--public-key HEX]
    verify_independently.py --export FILE [--anchor FILE] [--public-key HEX]

Needs Python 3 and its standard library. Reads only. Shares no code with Gradus: where the two disagree, the page is wrong
or one of them is. --anchor takes a copy of the anchor kept elsewhere; --public-key demands that signatures are by that
key, instead of by the keys that the log itself names.
Exit 0: whole. 1: not whole, with the event and the reason. 2: it could not be read.
"""
import argparse
import hashlib
import json
import pathlib
import sqlite3
import sys


class Bad(Exception):
    """The log is not whole."""


# ---- canonical bytes ----

def text(value):
    return b"t" + len(value).to_bytes(4, "little") + value


def number(value):
    return b"n" + value.to_bytes(8, "little", signed=True)


def domain(name):
    return b"D" + len(name).to_bytes(4, "little") + name


def optional(encode, value):
    return b"-" if value is None else encode(value)


def sha256(data):
    return hashlib.sha256(data).digest()


def event_hash(previous, row):
    (seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest) = row
    return sha256(
        domain(b"gradus.event.1") + b"d" + previous + number(seq) + number(at) + number(batch) + text(kind)
        + optional(number, actor) + optional(number, project) + optional(number, change) + optional(number, promotion)
        + optional(text, stage) + text(body) + optional(text, payload_digest))


def payload_hash(salt, words):
    return sha256(domain(b"gradus.payload.1") + text(salt) + text(words))


def signed_message(store, seq, head):
    return domain(b"gradus.signed-checkpoint.1") + text(store.encode()) + number(seq) + b"d" + head


# ---- Ed25519, RFC 8032, section 6 ----

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def multiply(scalar, point):
    result = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def point_from(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P != 0:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P != 0 or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


BASE = point_from((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def signature_is_valid(public_key, message, signature):
    key, r = point_from(public_key), point_from(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if key is None or r is None or s >= ORDER:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % ORDER
    left, right = multiply(s, BASE), add(r, multiply(h, key))
    return (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0


# ---- the log ----

class Log:
    def __init__(self, database):
        self.rows = database
        self.hashes = {}  # seq -> hash
        self.store = None
        self.keys = set()
        self.redacted = set()

    def walk(self):
        previous, seq = bytes(32), 0
        for row in self.rows.execute(
                "select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash "
                "from event order by seq"):
            seq += 1
            if row[0] != seq:
                raise Bad(f"event {seq}: missing; event {row[0]} stands there")
            if event_hash(previous, row[:11]) != row[11]:
                raise Bad(f"event {seq}: its hash does not follow from its fields and the hash before it")
            previous = self.hashes[seq] = row[11]
            self.learn(row[3], json.loads(row[9]))

    def learn(self, kind, body):
        if kind == b"log.started":
            self.store = body["store"]
        if kind in (b"log.started", b"log.reanchored") and "public-key" in body:
            self.keys.add(bytes.fromhex(body["public-key"]))
        if kind == b"payload.redacted":
            self.redacted.add(body["seq"])

    def check_payloads(self):
        present = {seq: (salt, words) for seq, salt, words in self.rows.execute("select seq, salt, text from payload")}
        for seq, digest in self.rows.execute("select seq, payload_digest from event order by seq"):
            if digest is None and seq in present:
                raise Bad(f"event {seq}: has a payload that was never recorded")
            if digest is None:
                continue
            if seq not in present:
                if seq not in self.redacted:
                    raise Bad(f"event {seq}: its payload is gone without a redaction")
            elif payload_hash(*present[seq]) != digest:
                raise Bad(f"event {seq}: its payload is not the one that was recorded")
        return len(present)

    def check_point(self, seq, head, where):
        if seq > len(self.hashes):
            raise Bad(f"event {seq}: {where} remembers it, but the log ends at event {len(self.hashes)}")
        if seq > 0 and self.hashes[seq] != head:
            raise Bad(f"event {seq}: is not the one that {where} remembers")

    def check_signature(self, seq, head, key, signature, demanded):
        self.check_point(seq, head, "a signed checkpoint")
        if key != demanded if demanded else key not in self.keys:
            raise Bad(f"event {seq}: signed by a key that is not the log's")
        if not signature_is_valid(key, signed_message(self.store, seq, head), signature):
            raise Bad(f"event {seq}: the signature is not valid")


def read_anchor(path):
    """The store's id, the points and the signed points. What follows the last newline was torn by a crash."""
    lines = path.read_bytes().split(b"\n")[:-1]
    header = lines[0].decode().split(" ")
    if len(header) != 3 or header[:2] != ["gradus-anchor", "1"]:
        raise Bad(f"{path}:1: not an anchor")
    points, signed = [], []
    for where, line in enumerate(lines[1:], 2):
        words = line.decode().split(" ")
        if len(words) == 2:
            points.append((int(words[0]), bytes.fromhex(words[1])))
            if len(points) > 1 and points[-2][0] >= points[-1][0]:
                raise Bad(f"{path}:{where}: goes back")
        elif len(words) == 5 and words[0] == "signed":
            signed.append((int(words[1]), *(bytes.fromhex(word) for word in words[2:])))
        else:
            raise Bad(f"{path}:{where}: not a point")
    return header[2], points, signed


def verify(state, anchor_path, demanded):
    database = sqlite3.connect((state / "state.db").resolve().as_uri() + "?mode=ro", uri=True)
    database.text_factory = bytes
    log = Log(database)
    log.walk()
    store, points, signed = read_anchor(anchor_path)
    if store != log.store:
        raise Bad(f"event 1: {anchor_path} belongs to another log")
    for seq, head in points:
        log.check_point(seq, head, "the anchor")
    signed += database.execute("select seq, hash, public_key, signature from signed_checkpoint").fetchall()
    for point in signed:
        log.check_signature(*point, demanded)
    payloads = log.check_payloads()
    anchored = points[-1][0] if points else 0
    print(f"ok: {len(log.hashes)} events, {payloads} payloads, {len(log.redacted)} redactions, "
          f"{len(signed)} signatures, anchored up to event {anchored}")


# ---- an export ----

def only_once(pairs):
    """A name that stands twice could mean one thing here and another elsewhere."""
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a name stands twice")
    return dict(pairs)


def encoded(value):
    return None if value is None else value.encode()


def unhex(value):
    return None if value is None else bytes.fromhex(value)


class Export:
    def __init__(self, path):
        *lines, torn = path.read_bytes().split(b"\n")
        self.torn = torn != b""
        self.header = json.loads(lines[0], object_pairs_hook=only_once)
        if (self.header["schema"], self.header["format"]) != ("gradus.v1/audit-export", 1):
            raise ValueError("not an export of an audit log")
        self.lines = lines[1:]
        self.first, self.last = self.header["first"], self.header["last"]
        self.store = self.header["store"]
        self.keys = {bytes.fromhex(key) for key in self.header["public_keys"]}
        self.named_keys, self.named_store = set(), None
        self.redacted, self.redacted_here = set(), set()
        self.hashes = {}
        self.counts = {"payloads": 0, "redacted": 0, "withheld": 0}

    def walk(self):
        previous, seq = bytes.fromhex(self.header["before"]), self.first - 1
        for line in self.lines:
            seq += 1
            try:
                event = json.loads(line, object_pairs_hook=only_once)
                row = (event["seq"], event["at"], event["batch"], event["kind"].encode(), event["actor"],
                       event["project"], event["change"], event["promotion"], encoded(event["stage"]),
                       event["body"].encode(), unhex(event["payload_digest"]))
                stated = bytes.fromhex(event["hash"])
            except (ValueError, KeyError, AttributeError, TypeError) as error:
                raise Bad(f"event {seq}: its line is not an event") from error
            if row[0] != seq:
                raise Bad(f"event {seq}: missing; event {row[0]} stands there")
            if seq > self.last:
                raise Bad(f"event {seq}: stands behind the last one")
            if event_hash(previous, row) != stated:
                raise Bad(f"event {seq}: its hash does not follow from its fields and the hash before it")
            previous = self.hashes[seq] = stated
            self.learn(row[3], json.loads(row[9]))
            self.check_payload(event, row[10])
        if self.torn or seq < self.last:
            raise Bad(f"event {seq + 1}: the file should go on to event {self.last}, and ends here")

    def learn(self, kind, body):
        if kind == b"log.started":
            self.named_store = body["store"]
        if kind in (b"log.started", b"log.reanchored") and "public-key" in body:
            self.named_keys.add(bytes.fromhex(body["public-key"]))
        if kind == b"payload.redacted":
            self.redacted.add(body["seq"])

    def is_selected(self, event):
        wanted = self.header["selection"]
        return ((wanted["since"] is None or event["at"] >= wanted["since"])
                and (wanted["until"] is None or event["at"] < wanted["until"])
                and all(wanted[name] is None or event[name] == wanted[name] for name in ("change", "stage")))

    def check_payload(self, event, digest):
        seq = event["seq"]
        if digest is None:
            if "payload" in event:
                raise Bad(f"event {seq}: has a payload that was never recorded")
        elif "payload" in event:
            self.counts["payloads"] += 1
            if payload_hash(bytes.fromhex(event["salt"]), event["payload"].encode()) != digest:
                raise Bad(f"event {seq}: its payload is not the one that was recorded")
        elif "redacted_by" in event:
            self.counts["redacted"] += 1
            if event["redacted_by"] <= self.last:
                self.redacted_here.add(seq)
        elif self.is_selected(event):
            raise Bad(f"event {seq}: its payload is gone without a redaction")
        else:
            self.counts["withheld"] += 1

    def check_around(self, anchor_path, demanded):
        if self.first == 1:
            if self.named_store != self.store:
                raise Bad("event 1: the header names another log")
            self.keys = self.named_keys
        for seq in sorted(self.redacted_here - self.redacted):
            raise Bad(f"event {seq}: its payload is gone without a redaction")
        points = [(point["seq"], bytes.fromhex(point["hash"])) for point in self.header["anchors"]]
        signed = [(point["seq"], *(bytes.fromhex(point[name]) for name in ("hash", "public_key", "signature")))
                  for point in self.header["signed"]]
        if anchor_path:
            store, kept, kept_signed = read_anchor(anchor_path)
            if store != self.store:
                raise Bad(f"event {self.first}: {anchor_path} belongs to another log")
            points += [point for point in kept if self.first <= point[0] <= self.last]
            signed += [point for point in kept_signed if self.first <= point[0] <= self.last]
        for seq, head in points:
            if self.hashes.get(seq) != head:
                raise Bad(f"event {seq}: is not the one that the anchor remembers")
        for seq, head, key, signature in signed:
            if self.hashes.get(seq) != head:
                raise Bad(f"event {seq}: is not the one that a signed checkpoint remembers")
            if key != demanded if demanded else key not in self.keys:
                raise Bad(f"event {seq}: signed by a key that is not the log's")
            if not signature_is_valid(key, signed_message(self.store, seq, head), signature):
                raise Bad(f"event {seq}: the signature is not valid")
        return len(signed)


def verify_export(path, anchor_path, demanded):
    export = Export(path)
    export.walk()
    signatures = export.check_around(anchor_path, demanded)
    print(f"ok: {len(export.hashes)} events, {export.counts['payloads']} payloads, {export.counts['redacted']} redacted, "
          f"{export.counts['withheld']} withheld, {signatures} signatures")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("state", type=pathlib.Path, nargs="?")
    parser.add_argument("--export", type=pathlib.Path)
    parser.add_argument("--anchor", type=pathlib.Path)
    parser.add_argument("--public-key", type=bytes.fromhex)
    asked = parser.parse_args()
    if (asked.state is None) == (asked.export is None):
        parser.error("name a state directory or an export")
    try:
        if asked.export:
            verify_export(asked.export, asked.anchor, asked.public_key)
        else:
            verify(asked.state, asked.anchor or asked.state / "anchor", asked.public_key)
    except Bad as bad:
        print(f"not whole: {bad}")
        return 1
    except (OSError, ValueError, KeyError, IndexError, sqlite3.Error) as error:
        print(f"cannot be read: {error!r}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
