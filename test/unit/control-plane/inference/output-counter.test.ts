import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OutputCounter } from "../../../../control-plane/inference/output-counter.ts";

const count = (chunks: readonly (Buffer | string)[]) => {
  const counter = new OutputCounter();
  for (const chunk of chunks) counter.push(Buffer.from(chunk));
  return counter;
};
const delta = (value: object, more: object = {}) =>
  `data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta: value, finish_reason: null }], ...more })}\n\n`;

const output = [
  delta({ content: "a" }),
  delta({ content: 'data: "no" [DONE] \\n\\n' }),
  delta({ role: "assistant", content: "b" }),
  delta({ reasoning_content: "c" }),
  delta({ content: null, tool_calls: [{ index: 0, function: { arguments: "{" } }] }),
  delta({ content: "d" }, { usage: { prompt_tokens: 1, completion_tokens: 1 } }),
  'data:{"choices":[{"text":"e","index":0}]}\r\n\r\n',
];
const noOutput = [
  delta({ role: "assistant" }),
  delta({ role: "assistant", content: "" }),
  delta({ content: null, tool_calls: [] }),
  delta({}),
  'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
  'data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}\n\n',
  'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n',
  'data: {"error":{"message":"the model server stopped"}}\n\n',
  "data: [DONE]\n\n",
];
const comments = [": keep-alive\n\n", ": data: none\n\n"];

describe("delivered output", () => {
  it.each(output)("counts one frame of %j", (frame) => {
    expect(count([frame])).toMatchObject({ frames: 1, hasData: true });
  });

  it.each(noOutput)("does not count %j", (frame) => {
    expect(count([frame])).toMatchObject({ frames: 0, hasData: true });
  });

  it.each(comments)("takes %j for no data", (frame) => {
    expect(count([frame])).toMatchObject({ frames: 0, hasData: false });
  });

  it("counts a frame only once it is whole", () => {
    const frame = delta({ content: "a" });
    for (let cut = 1; cut < frame.length; cut++)
      expect(count([frame.slice(0, cut)]), `cut at ${cut}`).toMatchObject({ frames: 0, hasData: true });
  });

  it("counts alike however the bytes are cut", () => {
    const frames = fc.array(fc.constantFrom(...output, ...noOutput, ...comments), { maxLength: 12 });
    fc.assert(
      fc.property(frames, fc.array(fc.nat(1500), { maxLength: 30 }), (list, cuts) => {
        const bytes = Buffer.from(list.join(""));
        const at = [0, ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
        const counter = count(at.slice(1).map((end, i) => bytes.subarray(at[i], end)));
        expect(counter.frames).toBe(list.filter((frame) => output.includes(frame)).length);
        expect(counter.hasData).toBe(list.some((frame) => frame.startsWith("data:")));
      }),
    );
  });

  it("stops counting after a frame of more than 2 MiB instead of keeping it", () => {
    const piece = Buffer.alloc(1024 * 1024, 120);
    expect(
      count([delta({ content: "a" }), "data: ", piece, piece, piece, "\n\n", delta({ content: "b" })]).frames,
    ).toBe(1);
  });
});
