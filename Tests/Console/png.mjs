// Makes a screenshot small: a PNG with a palette of the 256 most frequent colors. Other colors become the nearest of these.
import { crc32, deflateSync, inflateSync } from "node:zlib";

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** Encodes a PNG of 8-bit RGB or RGBA without interlacing again, with a palette. */
export function withPalette(png) {
  const { width, height, pixels } = decode(png);
  const counts = new Map();
  for (const color of pixels) counts.set(color, (counts.get(color) ?? 0) + 1);
  const palette = [...counts].sort((first, second) => second[1] - first[1]).slice(0, 256).map(([color]) => color);
  const indexes = new Map(palette.map((color, index) => [color, index]));
  const rows = Buffer.alloc(height * (width + 1));
  pixels.forEach((color, at) => {
    if (!indexes.has(color)) indexes.set(color, nearest(palette, color));
    rows[at + Math.floor(at / width) + 1] = indexes.get(color);
  });
  const header = Buffer.from(png.subarray(16, 29));
  header.set([8, 3], 8);
  return Buffer.concat([
    signature, chunk("IHDR", header), chunk("PLTE", Buffer.from(palette.flatMap((color) => [color >> 16, color >> 8 & 255, color & 255]))),
    chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0)),
  ]);
}

function nearest(palette, color) {
  let found = 0;
  let smallest = Infinity;
  palette.forEach((candidate, index) => {
    const distance = [16, 8, 0].reduce((sum, shift) => sum + ((candidate >> shift & 255) - (color >> shift & 255)) ** 2, 0);
    if (distance < smallest) [smallest, found] = [distance, index];
  });
  return found;
}

function decode(png) {
  const [width, height, depth, type, interlace] = [png.readUInt32BE(16), png.readUInt32BE(20), png[24], png[25], png[28]];
  if (depth !== 8 || (type !== 2 && type !== 6) || interlace !== 0) throw new Error(`a PNG of depth ${depth}, type ${type}, interlace ${interlace}`);
  const parts = [];
  for (let at = 8; at < png.length;) {
    const length = png.readUInt32BE(at);
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(png.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  const raw = inflateSync(Buffer.concat(parts));
  const size = type === 6 ? 4 : 3;
  const stride = width * size;
  const pixels = new Array(width * height);
  let above = new Uint8Array(stride);
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (stride + 1)];
    const row = Uint8Array.from(raw.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1)));
    for (let x = 0; x < stride; x += 1) {
      const left = x < size ? 0 : row[x - size];
      const corner = x < size ? 0 : above[x - size];
      row[x] += [0, left, above[x], left + above[x] >> 1, paeth(left, above[x], corner)][filter];
    }
    for (let x = 0; x < width; x += 1) pixels[y * width + x] = row[x * size] << 16 | row[x * size + 1] << 8 | row[x * size + 2];
    above = row;
  }
  return { width, height, pixels };
}

function paeth(left, above, corner) {
  const estimate = left + above - corner;
  const [toLeft, toAbove, toCorner] = [left, above, corner].map((value) => Math.abs(estimate - value));
  return toLeft <= toAbove && toLeft <= toCorner ? left : toAbove <= toCorner ? above : corner;
}

function chunk(type, data) {
  const result = Buffer.alloc(data.length + 12);
  result.writeUInt32BE(data.length, 0);
  result.write(type, 4, "latin1");
  data.copy(result, 8);
  result.writeUInt32BE(crc32(result.subarray(4, data.length + 8)), data.length + 8);
  return result;
}
