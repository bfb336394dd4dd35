import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FrameCounter } from "../../../../control-plane/inference/frame-counter.ts";

const count = (chunks: readonly Buffer[]) => {
  const counter = new FrameCounter();
  for (const chunk of chunks) counter.push(chunk);
  return counter.frames;
};

describe("data frames", () => {
  it("are counted alike however the bytes are cut", () => {
    const frames = fc.array(
      fc.constantFrom(
        'data: {"a":"data: no"}\n\n',
        ": keep-alive\n\n",
        "data: x\n\n",
        "data:y\r\n\r\n",
        "d\n\n",
        "dat\n\n",
      ),
      { maxLength: 12 },
    );
    fc.assert(
      fc.property(frames, fc.array(fc.nat(200), { maxLength: 30 }), (list, cuts) => {
        const bytes = Buffer.from(list.join(""));
        const at = [0, ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
        const chunks = at.slice(1).map((end, i) => bytes.subarray(at[i], end));
        expect(count(chunks)).toBe(list.filter((frame) => frame.startsWith("data:")).length);
      }),
    );
  });

  it("do not begin in the middle of a line, wherever it is cut", () => {
    const chunks = ['data: {"a":"', "d", 'ata: no"}\n\n', "d", "ata: x\n\n"];
    expect(count(chunks.map((chunk) => Buffer.from(chunk)))).toBe(2);
  });

  it("do not include comments", () => {
    expect(count([Buffer.from(": data: none\n\n: keep-alive\n\n")])).toBe(0);
  });
});
