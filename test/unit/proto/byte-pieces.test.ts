import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { BytePieces } from "../../../proto/byte-pieces.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

it("returns all bytes in order, and keeps a million pieces of one byte in little more than their bytes", () => {
  const source = Buffer.from("0123456789");
  const pieces = new BytePieces();
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < 1_000_000; i += 1) pieces.add(source.subarray(i % 10, (i % 10) + 1));
  collectGarbage();
  // As many buffers take 100 MB.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(10_000_000);
  expect(pieces.bytes).toBe(1_000_000);
  expect(pieces.take().toString()).toBe("0123456789".repeat(100_000));
  expect([pieces.bytes, pieces.take().length]).toEqual([0, 0]);
});
