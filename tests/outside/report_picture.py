"""report_picture.py PICTURE WIDTH HEIGHT: a PNG of that size that shows a page: white paper, ink in each of its bands from
top to bottom, neither empty nor full, and more than two shades."""
import struct
import sys
import zlib


def read(path):
    """-> width, height, rows of (r, g, b) bytes"""
    data = open(path, "rb").read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG"
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and colour in (2, 6) and not interlaced, "another kind of PNG than is read here"
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    size = 3 if colour == 2 else 4
    raw, stride = zlib.decompress(packed), width * size
    above, rows = bytearray(stride), []
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        if kind == 2:
            line = bytearray((a + b) & 255 for a, b in zip(line, above))
        elif kind:
            for x in range(stride):
                left = line[x - size] if x >= size else 0
                corner = above[x - size] if x >= size else 0
                if kind == 1:
                    guess = left
                elif kind == 3:
                    guess = (left + above[x]) // 2
                else:
                    p = left + above[x] - corner
                    guess = min((abs(p - left), 0, left), (abs(p - above[x]), 1, above[x]), (abs(p - corner), 2, corner))[2]
                line[x] = (line[x] + guess) & 255
        above = line
        rows.append([bytes(line[x:x + 3]) for x in range(0, stride, size)])
    return width, height, rows


def main():
    path, width, height = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    found_width, found_height, rows = read(path)
    assert (found_width, found_height) == (width, height), f"{found_width} x {found_height}"
    white, colours, bands = b"\xff\xff\xff", set(), 12
    for band in range(bands):
        part = rows[band * height // bands:(band + 1) * height // bands]
        ink = sum(pixel != white for row in part for pixel in row)
        share = ink / (width * len(part))
        assert 0.002 < share < 0.6, f"band {band} of {bands} has ink on {100 * share:.2f} % of it"
        colours |= {pixel for row in part for pixel in row}
    assert len(colours) > 20, f"only {len(colours)} shades"
    print(f"{width} x {height}, {len(colours)} shades, ink in every band")


main()
