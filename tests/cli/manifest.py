# manifest.py FILE KEY VALUE: the state that a checkpoint's manifest holds says so from here on (VALUE is a JSON text; none: the key goes), and its hash
# is that of what it says then.
import json, sys
M = (1 << 64) - 1
P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
def turn(x, by): return (x << by | x >> (64 - by)) & M
def step(a, lane): return turn((a + lane * P2) & M, 31) * P1 & M
def xxh64(data):
    at, n = 0, len(data)
    read = lambda size: int.from_bytes(data[at:at + size], "little")
    h = P5
    if n >= 32:
        v = [(P1 + P2) & M, P2, 0, -P1 & M]
        while at + 32 <= n:
            for i in range(4):
                v[i] = step(v[i], read(8))
                at += 8
        h = sum(turn(v[i], by) for i, by in enumerate((1, 7, 12, 18))) & M
        for lane in v:
            h = ((h ^ step(0, lane)) * P1 + P4) & M
    h = (h + n) & M
    while at + 8 <= n:
        h = (turn(h ^ step(0, read(8)), 27) * P1 + P4) & M
        at += 8
    if at + 4 <= n:
        h = (turn(h ^ read(4) * P1 & M, 23) * P2 + P3) & M
        at += 4
    while at < n:
        h = turn(h ^ read(1) * P5 & M, 11) * P1 & M
        at += 1
    h = (h ^ h >> 33) * P2 & M
    h = (h ^ h >> 29) * P3 & M
    return h ^ h >> 32
path, key, value = sys.argv[1:]
root = json.load(open(path))
del root["hash"]
at = root["state"]
*objects, last = key.split(".")
for name in objects:
    at = at[name]
at.pop(last) if value == "none" else at.__setitem__(last, json.loads(value))
text = json.dumps(root)[:-1]
open(path, "w").write('%s,"hash":"%016x"}\n' % (text, xxh64(text.encode())))
