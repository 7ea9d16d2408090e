"""longlines FILE...: comments of C files that are wider than 100 columns go on in the next line."""
import re, sys
def width(s): return len(s)
for path in sys.argv[1:]:
    lines = open(path).read().split("\n")
    i = 0; changed = False
    while i < len(lines):
        line = lines[i]
        if width(line) > 100:
            m = re.match(r"(\s*// ?)(.*)$", line)
            whole = bool(m)
            if not whole:
                # trailing comment: last " // " outside a string
                k = line.rfind(" // ")
                if k < 0 or line[:k].count('"') % 2: i += 1; continue
                pre = line[:k + 1]; rest = line[k + 4:]
                if len(pre) > 70:
                    # above the line
                    ind = re.match(r"\s*", line).group(0)
                    lines[i] = pre.rstrip(); lines.insert(i, ind + "// " + rest); changed = True
                    continue
                room = 100 - len(pre) - 3
                cut = rest.rfind(" ", 0, room + 1)
                if cut <= 0: i += 1; continue
                lines[i] = pre + "// " + rest[:cut].rstrip()
                tail = rest[cut + 1:]
                nxt = lines[i + 1] if i + 1 < len(lines) else ""
                m2 = re.match(r"(\s{%d,}// )(.*)$" % max(len(pre) - 6, 8), nxt)
                if m2 and len(m2.group(1)) <= len(pre) + 9 and not re.match(r"\s*//\s{2,}", nxt):
                    lines[i + 1] = " " * len(pre) + "// " + tail + " " + m2.group(2)
                else:
                    lines.insert(i + 1, " " * len(pre) + "// " + tail)
                changed = True; i += 1; continue
            head, rest = m.group(1), m.group(2)
            room = 100 - len(head)
            cut = rest.rfind(" ", 0, room + 1)
            if cut <= 0: i += 1; continue
            lines[i] = head + rest[:cut].rstrip(); tail = rest[cut + 1:]
            nxt = lines[i + 1] if i + 1 < len(lines) else ""
            hang = re.match(r"( *)(?:- )?", rest).group(1)
            m2 = re.match(r"%s(\S.*)$" % re.escape(head + hang), nxt)
            if m2 and not re.match(r"(- |\d+\. |[|*])", m2.group(1)):
                lines[i + 1] = head + hang + tail + " " + m2.group(1)
            else:
                lines.insert(i + 1, head + hang + tail)
            changed = True
        i += 1
    if changed: open(path, "w").write("\n".join(lines))
