import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { GoingAway } from "../../../../../control-plane/http/dashboards/forward-upgrade.ts";

const goingAway = Buffer.from([0x88, 0x02, 0x03, 0xe9]);

function frame(size: number, { opcode = 2, isMasked = false } = {}): Buffer {
  const short = size < 126 ? size : size < 65_536 ? 126 : 127;
  const head = Buffer.alloc({ 126: 4, 127: 10 }[short] ?? 2);
  head[0] = 0x80 | opcode;
  head[1] = short | (isMasked ? 0x80 : 0);
  if (short === 126) head.writeUInt16BE(size, 2);
  if (short === 127) head.writeBigUInt64BE(BigInt(size), 2);
  // Bytes that would be heads, were they not a payload's.
  return Buffer.concat([head, Buffer.alloc(isMasked ? 4 : 0, 7), Buffer.alloc(size, 0x88)]);
}

/** What the browser hears when the dashboard says `chunks` and this side leaves before the one of number `at`. */
async function heard(chunks: readonly Buffer[], at: number): Promise<Buffer> {
  const way = new GoingAway();
  const parts: Buffer[] = [];
  way.on("data", (part) => parts.push(part));
  for (const [n, chunk] of chunks.entries()) {
    if (n === at) way.leave();
    way.write(chunk);
  }
  if (at === chunks.length) way.leave();
  await turn();
  way.end();
  await turn();
  return Buffer.concat(parts);
}

test("the goodbye stands between two frames wherever the bytes are cut and whenever this side leaves; nothing comes behind it", async () => {
  const frames = [frame(0), frame(5), frame(125), frame(126), frame(300, { isMasked: true }), frame(1)];
  const bytes = Buffer.concat(frames);
  const ends = frames.map((_, n) => Buffer.concat(frames.slice(0, n + 1)).length);
  for (const size of [1, 3, 64, 1_000]) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
      bytes.subarray(n * size, (n + 1) * size),
    );
    for (let at = 0; at <= chunks.length; at += size === 1 ? 7 : 1) {
      const end = [0, ...ends].find((one) => one >= Math.min(at * size, bytes.length)) as number;
      expect(
        (await heard(chunks, at)).equals(Buffer.concat([bytes.subarray(0, end), goingAway])),
        `${size} ${at}`,
      ).toBe(true);
    }
  }
});

test("a frame of more than 64 KiB is passed whole before it", async () => {
  const large = frame(70_000);
  const chunks = [large.subarray(0, 9), large.subarray(9, 40_000), large.subarray(40_000), frame(3)];
  expect((await heard(chunks, 1)).equals(Buffer.concat([large, goingAway]))).toBe(true);
});

test("a dashboard that has said goodbye itself is not talked over", async () => {
  const close = frame(2, { opcode: 8 });
  expect(await heard([close], 1)).toEqual(close);
});
