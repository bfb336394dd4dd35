import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UsageFrames } from "../../../agent/ingress/usage-frames.ts";
import { OutputCounter } from "../../../control-plane/inference/output-counter.ts";
import { FramePieces, frameEnd } from "../../../proto/sse-frames.ts";

describe("pieces of frames", () => {
  it("contain all bytes in order, joined when a frame has ended and not before", () => {
    const part = fc.string({ unit: fc.constantFrom("a", "\n", "\r"), maxLength: 5 });
    fc.assert(
      fc.property(fc.array(part, { maxLength: 30 }), (parts) => {
        const pieces = new FramePieces();
        let given = "";
        for (const one of parts) {
          const bytes = pieces.add(Buffer.from(one));
          if (!bytes) continue;
          let end = 0;
          for (let next = frameEnd(bytes, 0); next >= 0; next = frameEnd(bytes, next)) end = next;
          expect(end).toBeGreaterThan(0);
          given += bytes.toString("utf8", 0, end);
          pieces.keep(bytes.subarray(end));
        }
        const rest = pieces.take();
        expect(given + rest).toBe(parts.join(""));
        expect(frameEnd(rest, 0)).toBe(-1);
      }),
    );
  });

  it("cost in proportion to a frame, however many lines and pieces it has", () => {
    const line = Buffer.from("a\n");
    const terms = { usage: "drop", inputTokensBound: 10, maxTokens: 10, permits: 1 } as const;
    const agent = new UsageFrames(terms, { rates: { input: 0n, cachedInput: 0n, output: 0n }, max: 0n }, () => {});
    const gateway = new OutputCounter();
    const startedMs = performance.now();
    for (let i = 0; i < 200_000; i += 1) {
      agent.push(line);
      gateway.push(line);
    }
    // Joining and searching all of the frame for each piece took minutes.
    expect(performance.now() - startedMs).toBeLessThan(5_000);
  });
});
