import { describe, expect, it } from "vitest";
import { selectLines } from "../../../../agent/containers/log-lines.ts";
import { readFrames } from "../../../../agent/docker/container-log.ts";
import type { LogRange } from "../../../../agent/reconcile/driver.ts";

const frame = (stream: number, text: string): Buffer => {
  const head = Buffer.alloc(8);
  head[0] = stream;
  head.writeUInt32BE(Buffer.byteLength(text), 4);
  return Buffer.concat([head, Buffer.from(text)]);
};
const log = Buffer.concat([
  frame(1, "2026-01-02T03:04:05.123456789Z first\n"),
  frame(2, "2026-01-02T03:04:06.5Z key stk_abcdefghijklmnop\n"),
  frame(1, "2026-01-02T03:04:07Z third\n"),
]);
const base = Date.parse("2026-01-02T03:04:05Z");

const readContainerLog = (framed: Buffer, range: LogRange) => selectLines(readFrames(framed), range);

describe("a container's log", () => {
  it("is both streams in order, with nanoseconds, without secrets", () => {
    expect(readContainerLog(log, { limit: 10 })).toEqual([
      { at: `${base / 1000}.123456789`, line: "first" },
      { at: `${base / 1000 + 1}.500000000`, line: "key stk_[secret]" },
      { at: `${base / 1000 + 2}.000000000`, line: "third" },
    ]);
  });

  it("is cut to its last lines, or from a moment on to the first ones", () => {
    const lines = (range: object) => readContainerLog(log, { limit: 1, ...range }).map(({ line }) => line);
    expect(lines({})).toEqual(["third"]);
    expect(lines({ fromMs: base + 1000 })).toEqual(["key stk_[secret]"]);
    expect(lines({ fromMs: base, toMs: base + 1600 })).toEqual(["key stk_[secret]"]);
  });

  it("continues at the exact nanosecond: lines of the same millisecond are not read again", () => {
    const found = readContainerLog(log, { limit: 1, fromMs: base + 123, fromAt: `${base / 1000}.123456790` });
    expect(found.map(({ line }) => line)).toEqual(["key stk_[secret]"]);
  });

  it("survives an answer that was cut in the middle of a frame", () => {
    expect(readContainerLog(log.subarray(0, log.length - 3), { limit: 10 })).toHaveLength(2);
    expect(readContainerLog(Buffer.alloc(0), { limit: 10 })).toEqual([]);
  });
});
