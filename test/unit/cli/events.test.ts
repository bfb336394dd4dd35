import fc from "fast-check";
import { expect, test } from "vitest";
import { events } from "../../../cli/api.ts";

const text = ': keep-alive\n\ndata: {"a":"é"}\n\ndata: {"b":2}\r\n\r\ndata: [DONE]\n\n';

test("events come out the same however the bytes were cut", async () => {
  const bytes = Buffer.from(text);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: bytes.length }), { maxLength: 8 }), async (cuts) => {
      const edges = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
      const chunks = edges.slice(1).map((end, index) => bytes.subarray(edges[index], end));
      expect(await collect(chunks)).toEqual(['{"a":"é"}', '{"b":2}', "[DONE]"]);
    }),
  );
});

test("does not emit an event without its end", async () => {
  expect(await collect([Buffer.from("data: 1\n\ndata: 2")])).toEqual(["1"]);
});

async function collect(chunks: readonly Uint8Array[]): Promise<string[]> {
  const source = (async function* () {
    yield* chunks;
  })();
  return Array.fromAsync(events(source));
}
