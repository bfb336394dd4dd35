import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  dataFrames,
  exitFrame,
  maxTerminalBytes,
  sizeFrame,
  sizeIn,
  sizeOf,
  type TerminalFrame,
  TerminalFrames,
  terminalPath,
} from "../../../proto/terminal-tunnel.ts";

const cells = fc.integer({ min: 1, max: 1_000 });
const frame: fc.Arbitrary<TerminalFrame> = fc.oneof(
  fc
    .uint8Array({ minLength: 1, maxLength: 300 })
    .map((bytes) => ({ kind: "data" as const, bytes: Buffer.from(bytes) })),
  fc.record({ columns: cells, rows: cells }).map((size) => ({ kind: "size" as const, size })),
  fc.option(fc.integer({ min: -1, max: 255 })).map((code) => ({ kind: "exit" as const, code })),
);
const bytesOf = (one: TerminalFrame): Buffer => {
  if (one.kind === "data") return dataFrames(one.bytes);
  return one.kind === "size" ? sizeFrame(one.size) : exitFrame(one.code);
};

describe("frames of a terminal", () => {
  it("are the same after any division into chunks", () => {
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 20 }), fc.integer({ min: 1, max: 200 }), (frames, step) => {
        const bytes = Buffer.concat(frames.map(bytesOf));
        const reader = new TerminalFrames();
        const found: TerminalFrame[] = [];
        for (let at = 0; at < bytes.length; at += step) found.push(...reader.take(bytes.subarray(at, at + step)));
        expect(found).toEqual(frames);
      }),
    );
  });

  it("divide long output into pieces of the maximum length", () => {
    const bytes = Buffer.alloc(3 * maxTerminalBytes + 1, "x");
    const lengths = new TerminalFrames()
      .take(dataFrames(bytes))
      .map((one) => (one.kind === "data" ? one.bytes.length : 0));
    expect(lengths).toEqual([maxTerminalBytes, maxTerminalBytes, maxTerminalBytes, 1]);
  });

  it("are none for no bytes", () => {
    expect(dataFrames(Buffer.alloc(0))).toHaveLength(0);
  });

  it("keep their bytes while later ones are read", () => {
    const reader = new TerminalFrames();
    const bytes = Buffer.concat([dataFrames(Buffer.from("first")), dataFrames(Buffer.from("other"))]);
    const found = [4, 12, 16].flatMap((end, n, ends) => reader.take(bytes.subarray(ends[n - 1] ?? 0, end)));
    expect(found).toEqual(["first", "other"].map((text) => ({ kind: "data", bytes: Buffer.from(text) })));
  });

  it("are refused when the kind, a length or a size is invalid", () => {
    const invalid = [
      [0, 0, 0],
      [9, 0, 0],
      [1, 0, 2, 0, 80],
      [1, 0, 4, 0, 0, 0, 24],
      [1, 0, 4, 255, 255, 0, 24],
      [2, 0, 1, 0],
    ];
    for (const bytes of invalid) expect(() => new TerminalFrames().take(Buffer.from(bytes)), String(bytes)).toThrow();
  });
});

describe("the size of a terminal", () => {
  it("is the same after the path of a tunnel", () => {
    fc.assert(
      fc.property(cells, cells, (columns, rows) => {
        const [path, query = ""] = terminalPath("in-1", { columns, rows }).split("?");
        expect(path).toBe("/i/in-1/terminal");
        expect(sizeIn(query)).toEqual({ columns, rows });
      }),
    );
  });

  it("is 80 by 24 when none or an invalid one is given", () => {
    for (const query of ["", "columns=0&rows=24", "columns=80", "columns=80&rows=1e9", "columns=x&rows=24"])
      expect(sizeIn(query), query).toEqual({ columns: 80, rows: 24 });
    for (const value of [0, 1_001, 1.5, "80", null, Number.NaN]) expect(sizeOf(value, 24)).toBeUndefined();
  });
});
