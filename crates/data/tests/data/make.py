"""Makes the images here and what they hold: python make.py (needs pillow and numpy).

The pictures are drawn below, so they are under the licence of this repository. Each NAME.npy holds what Pillow reads
from NAME.png or NAME.jpg: u8 [height, width, channels].
"""

import struct
import zlib

import numpy as np
from PIL import Image

H, W = 13, 11
y, x = np.mgrid[0:H, 0:W]
rng = np.random.default_rng(0)
rgb = np.stack([x * 23, y * 19, (x + y) * 10], -1).astype(np.uint8)
grey = ((x * 17 + y * 29) % 256).astype(np.uint8)
alpha = ((x * y * 3) % 256).astype(np.uint8)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def pack(rows, depth):
    """Samples [h, w * channels] as bytes."""
    if depth == 16:
        return [r.astype(">u2").tobytes() for r in rows]
    if depth == 8:
        return [r.astype(np.uint8).tobytes() for r in rows]
    bits = lambda r: "".join(format(int(v), f"0{depth}b") for v in r)
    pad = lambda s: s + "0" * (-len(s) % 8)
    return [int(pad(bits(r)), 2).to_bytes(len(pad(bits(r))) // 8, "big") for r in rows]


def filtered(rows, bpp, kind):
    """Each row with its filter: kind, or all five in turn."""
    out, above = b"", bytes(len(rows[0])) if rows else b""
    for i, row in enumerate(rows):
        f = i % 5 if kind == "all" else kind
        line = bytearray()
        for k, v in enumerate(row):
            a = row[k - bpp] if k >= bpp else 0
            b, c = above[k], above[k - bpp] if k >= bpp else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line.append((v - [0, a, b, (a + b) // 2, paeth][f]) % 256)
        out += bytes([f]) + bytes(line)
        above = row
    return out


def png(name, samples, depth, colour, interlaced=False, extra=b"", split=1):
    h, w = samples.shape[:2]
    n = 1 if samples.ndim == 2 else samples.shape[2]
    s = samples.reshape(h, w, n)
    adam7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    data = b""
    for x0, y0, dx, dy in adam7 if interlaced else [(0, 0, 1, 1)]:
        part = s[y0::dy, x0::dx]
        if part.size:
            rows = pack(part.reshape(part.shape[0], -1), depth)
            data += filtered(rows, max(1, n * depth // 8), "all")
    packed = zlib.compress(data, 9)
    step = -(-len(packed) // split)
    idat = b"".join(chunk(b"IDAT", packed[i : i + step]) for i in range(0, len(packed), step))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, int(interlaced)))
    text = chunk(b"tEXt", b"Comment\0made by make.py")
    open(name + ".png", "wb").write(b"\x89PNG\r\n\x1a\n" + head + text + extra + idat + chunk(b"IEND", b""))


png("grey1", grey >> 7, 1, 0)
png("grey2", grey >> 6, 2, 0)
png("grey4", grey >> 4, 4, 0)
png("grey8", grey, 8, 0)
png("grey16", grey.astype(np.uint16) * 257, 16, 0)
png("rgb8", rgb, 8, 2, split=3)
png("rgb16", rgb.astype(np.uint16) * 256 + 77, 16, 2)
png("grey_alpha8", np.stack([grey, alpha], -1), 8, 4)
png("rgba8", np.concatenate([rgb, alpha[..., None]], -1), 8, 6)
png("rgba8_interlaced", np.concatenate([rgb, alpha[..., None]], -1), 8, 6, interlaced=True)
png("grey2_interlaced", grey >> 6, 2, 0, interlaced=True)
palette = rng.integers(0, 256, (16, 3), dtype=np.uint8)
png("palette4", grey >> 4, 4, 3, extra=chunk(b"PLTE", palette.tobytes()))
png("palette4_alpha", grey >> 4, 4, 3, extra=chunk(b"PLTE", palette.tobytes()) + chunk(b"tRNS", bytes([0, 128, 7])))
png("rgb8_key", rgb, 8, 2, extra=chunk(b"tRNS", struct.pack(">HHH", *[int(v) for v in rgb[2, 3]])))

big = np.kron(rgb, np.ones((4, 4, 1), np.uint8))
soft = Image.fromarray(big).resize((37, 29), Image.BICUBIC)
soft.save("colour420.jpg", quality=80, subsampling=2)
soft.save("colour444.jpg", quality=90, subsampling=0)
soft.save("progressive.jpg", quality=80, progressive=True)
soft.convert("L").save("grey.jpg", quality=85)

for name in ["grey1", "grey2", "grey4", "grey8", "grey16", "rgb8", "rgb16", "grey_alpha8", "rgba8", "rgba8_interlaced",
             "grey2_interlaced", "palette4", "palette4_alpha", "rgb8_key"]:
    image = Image.open(name + ".png")
    if name == "grey16":
        a = (np.asarray(image) >> 8).astype(np.uint8)[..., None]
    elif name.startswith("grey") and "alpha" not in name:
        a = np.asarray(image.convert("L"))[..., None]
    elif name in ("palette4_alpha", "rgb8_key"):
        a = np.asarray(image.convert("RGBA"))
    elif name == "palette4":
        a = np.asarray(image.convert("RGB"))
    else:
        a = np.asarray(image)
    np.save(name + ".npy", a)
for name in ["colour420", "colour444", "progressive", "grey"]:
    a = np.asarray(Image.open(name + ".jpg"))
    np.save(name + ".npy", a if a.ndim == 3 else a[..., None])
