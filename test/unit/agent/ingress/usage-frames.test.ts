import { describe, expect, it } from "vitest";
import { withCost } from "../../../../agent/ingress/find-usage.ts";
import { UsageFrames } from "../../../../agent/ingress/usage-frames.ts";
import type { UsagePlacement } from "../../../../proto/ticket.ts";

const price = { rates: { input: 1_000_000_000n, cachedInput: 0n, output: 2_000_000_000n }, max: 1_000_000_000n };
const terms = (usage: UsagePlacement) => ({ usage, inputTokensBound: 40, maxTokens: 100, permits: 1 });
const counted = { input: 9, cachedInput: 0, output: 2, reasoning: 0 };
const usage = '{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}';
/** 3 x 1000 + 2 x 2000 nano-USD. */
const priced = '{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"estimated_cost":0.000007}';

const text = (t: string, index = 0) =>
  `{"id":"c","choices":[{"index":${index},"delta":{"content":"${t}"},"finish_reason":null}]}`;
const finish = (extra = "", index = 0) =>
  `{"id":"c","choices":[{"index":${index},"delta":{},"finish_reason":"stop"}]${extra}}`;
const alone = `{"id":"c","choices":[],"usage":${usage}}`;
const frames = (...jsons: readonly string[]) => jsons.map((j) => `data: ${j}\n\n`).join("");

interface Case {
  readonly engine: string;
  readonly placement: UsagePlacement;
  readonly input: string;
  readonly output: string;
  readonly isSilent?: boolean;
}

const content = [text("a"), text("b")];
const cases: readonly Case[] = [
  {
    engine: "usage on an extra chunk",
    placement: "merge",
    input: frames(...content, finish(), alone, "[DONE]"),
    output: frames(...content, finish(`,"usage":${priced}`), "[DONE]"),
  },
  {
    engine: "usage on an extra chunk",
    placement: "extra",
    input: frames(...content, finish(), alone, "[DONE]"),
    output: frames(...content, finish(), `{"id":"c","choices":[],"usage":${priced}}`, "[DONE]"),
  },
  {
    engine: "usage on an extra chunk",
    placement: "drop",
    input: frames(...content, finish(), alone, "[DONE]"),
    output: frames(...content, finish(), "[DONE]"),
  },
  {
    engine: "usage on the finish chunk",
    placement: "merge",
    input: frames(...content, finish(`,"usage":${usage}`), "[DONE]"),
    output: frames(...content, finish(`,"usage":${priced}`), "[DONE]"),
  },
  {
    engine: "usage on the finish chunk",
    placement: "extra",
    input: frames(...content, finish(`,"usage":${usage}`), "[DONE]"),
    output: frames(...content, finish(), `{"id":"c","choices":[],"usage":${priced}}`, "[DONE]"),
  },
  {
    engine: "usage on the finish chunk",
    placement: "drop",
    input: frames(...content, finish(`,"usage":${usage}`), "[DONE]"),
    output: frames(...content, finish(), "[DONE]"),
  },
  {
    engine: "two choices",
    placement: "merge",
    input: frames(text("a"), finish("", 1), text("b"), finish(), alone, "[DONE]"),
    output: frames(text("a"), finish("", 1), text("b"), finish(`,"usage":${priced}`), "[DONE]"),
  },
  {
    engine: "running usage on every chunk",
    placement: "continuous",
    input: frames(
      `{"choices":[{"delta":{"content":"a"}}],"usage":${usage}}`,
      finish(`,"usage":${usage}`),
      alone,
      "[DONE]",
    ),
    output: frames(
      `{"choices":[{"delta":{"content":"a"}}],"usage":${priced}}`,
      finish(`,"usage":${priced}`),
      `{"id":"c","choices":[],"usage":${priced}}`,
      "[DONE]",
    ),
  },
  {
    engine: "running usage on every chunk, and nobody wants an extra one",
    placement: "continuous_merge",
    input: frames(
      `{"choices":[{"delta":{"content":"a"}}],"usage":${usage}}`,
      finish(',"usage":{"prompt_tokens":3,"completion_tokens":1}'),
      alone,
      "[DONE]",
    ),
    output: frames(`{"choices":[{"delta":{"content":"a"}}],"usage":${priced}}`, finish(`,"usage":${priced}`), "[DONE]"),
  },
  {
    engine: "running usage on every chunk of two choices",
    placement: "continuous_merge",
    input: frames(
      finish(',"usage":{"prompt_tokens":3,"completion_tokens":1}', 1),
      finish(`,"usage":${usage}`),
      "[DONE]",
    ),
    output: frames(
      finish(',"usage":{"prompt_tokens":3,"completion_tokens":1,"estimated_cost":0.000005}', 1),
      finish(`,"usage":${priced}`),
      "[DONE]",
    ),
  },
  {
    engine: "usage null until the end",
    placement: "merge",
    input: frames(`{"choices":[{"delta":{"content":"a"}}],"usage":null}`, finish(`,"usage":null`), alone, "[DONE]"),
    output: frames(`{"choices":[{"delta":{"content":"a"}}],"usage":null}`, finish(`,"usage":${priced}`), "[DONE]"),
  },
  {
    engine: "spaces after colons",
    placement: "merge",
    input: frames(
      text("a"),
      '{"choices": [{"delta": {}, "finish_reason": "stop"}]}',
      `{"choices": [], "usage": ${usage}}`,
      "[DONE]",
    ),
    output: frames(text("a"), `{"choices": [{"delta": {}, "finish_reason": "stop"}],"usage":${priced}}`, "[DONE]"),
  },
  {
    engine: "usage that follows no finish reason",
    placement: "merge",
    input: frames(...content, alone, "[DONE]"),
    output: frames(...content, `{"id":"c","choices":[],"usage":${priced}}`, "[DONE]"),
  },
  {
    engine: "an upstream's own estimated_cost",
    placement: "merge",
    input: frames(...content, finish(`,"usage":${usage.replace("}", ',"estimated_cost":99}')}`), "[DONE]"),
    output: frames(...content, finish(`,"usage":${priced}`), "[DONE]"),
  },
  {
    engine: "text that looks like usage, a finish reason and the end",
    placement: "merge",
    input: frames(text('\\"usage\\":{\\"x\\":1} \\"finish_reason\\":\\"stop\\" [DONE]'), finish(), alone, "[DONE]"),
    output: frames(
      text('\\"usage\\":{\\"x\\":1} \\"finish_reason\\":\\"stop\\" [DONE]'),
      finish(`,"usage":${priced}`),
      "[DONE]",
    ),
  },
  {
    engine: "comments between frames",
    placement: "merge",
    input: `: ping\n\n${frames(text("a"), finish())}: ping\n\n${frames(alone, "[DONE]")}`,
    output: `: ping\n\n${frames(text("a"))}: ping\n\n${frames(finish(`,"usage":${priced}`), "[DONE]")}`,
  },
  {
    engine: "no usage at all",
    placement: "merge",
    input: frames(...content, finish(), "[DONE]"),
    output: frames(
      ...content,
      finish(',"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"estimated_cost":0.000013}'),
      "[DONE]",
    ),
    isSilent: true,
  },
];

function run(placement: UsagePlacement, pieces: readonly Buffer[]) {
  let out = "";
  const reader = new UsageFrames(terms(placement), price, (bytes) => {
    out += bytes.toString();
  });
  for (const piece of pieces) reader.push(piece);
  expect(reader.isDone).toBe(true);
  return { reader, out: out + reader.tail(counted).toString() };
}

describe("usage placement", () => {
  it.each(cases)("$engine, $placement: usage is in one place with its cost, wherever the bytes are split", (c) => {
    const input = Buffer.from(c.input);
    expect(run(c.placement, [input]).out).toBe(c.output);
    for (let at = 1; at < input.length; at++) {
      const { out, reader } = run(c.placement, [input.subarray(0, at), input.subarray(at)]);
      expect(out, `cut at ${at}`).toBe(c.output);
      if (!c.isSilent) expect(reader.figures).toEqual({ input: 3, cachedInput: 0, output: 2, reasoning: 0 });
    }
    const singles = Array.from(input, (byte) => Buffer.from([byte]));
    expect(run(c.placement, singles).out).toBe(c.output);
  });

  it("passes a chunk of whole text frames on as the same buffer", () => {
    const chunk = Buffer.from(frames(text("a"), text("b")));
    const out: Buffer[] = [];
    const reader = new UsageFrames(terms("merge"), price, (bytes) => out.push(bytes));
    reader.push(Buffer.from(frames(text("first"))));
    reader.push(chunk);
    expect(out).toHaveLength(2);
    expect(out[1]).toBe(chunk);
  });

  it("counts frames with text, but not those with only the role or the finish reason", () => {
    const role = '{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}';
    const input = Buffer.from(frames(role, ...content, finish(), alone, "[DONE]"));
    for (let at = 1; at < input.length; at++)
      expect(run("merge", [input.subarray(0, at), input.subarray(at)]).reader.contentFrames, `cut at ${at}`).toBe(2);
  });

  it("reads cached and reasoning tokens", () => {
    const full =
      '{"prompt_tokens":8,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":4}}';
    const { reader } = run("merge", [Buffer.from(frames(finish(`,"usage":${full}`), "[DONE]"))]);
    expect(reader.figures).toEqual({ input: 8, cachedInput: 6, output: 5, reasoning: 4 });
  });

  it("ignores invalid usage", () => {
    const { reader } = run("merge", [
      Buffer.from(frames(...content, finish(',"usage":{"prompt_tokens":-1}'), "[DONE]")),
    ]);
    expect(reader.figures).toBeUndefined();
  });

  it("recognises an engine's own error frame and passes it on", () => {
    let out = "";
    const reader = new UsageFrames(terms("merge"), price, (bytes) => {
      out += bytes.toString();
    });
    reader.push(Buffer.from(frames(text("a"), '{"error":{"message":"boom"}}', "[DONE]")));
    expect(reader.isError).toBe(true);
    expect(out).toBe(frames(text("a"), '{"error":{"message":"boom"}}'));
  });

  it("throws for a frame above 1 MiB instead of buffering it", () => {
    const reader = new UsageFrames(terms("merge"), price, () => {});
    const piece = Buffer.alloc(300 * 1024, 120);
    reader.push(Buffer.from("data: "));
    for (let i = 0; i < 3; i++) reader.push(piece);
    expect(() => reader.push(piece)).toThrow(RangeError);
  });

  it("passes frames that end in CRLF on and finds their usage", () => {
    const crlf = (s: string) => s.replaceAll("\n", "\r\n");
    const { out, reader } = run("drop", [Buffer.from(crlf(frames(...content, finish(), alone, "[DONE]")))]);
    expect(out).toBe(`${crlf(frames(...content, finish()))}data: [DONE]\n\n`);
    expect(reader.figures?.output).toBe(2);
  });

  it("finds usage in proportion to the frame, however many keys are called so", () => {
    const engines = '{"prompt_tokens":3,"completion_tokens":2}';
    const depth = 60_000;
    const nested = `${'{"usage":'.repeat(depth)}1${"}".repeat(depth)}`;
    const chunk = `{"choices":[{"index":0,"delta":{"content":"a"}}],"note":"usage","usage":${engines},"more":${nested}}`;
    const reader = new UsageFrames(terms("drop"), price, () => {});
    const startedMs = performance.now();
    reader.push(Buffer.from(frames(chunk)));
    // A search for the end of each took more than a minute.
    expect(performance.now() - startedMs).toBeLessThan(4_000);
    expect(reader.figures).toMatchObject({ input: 3, output: 2 });
  });

  it.each([
    [
      "within other fields",
      '{"prompt_tokens":3,"completion_tokens":2,"more":{"estimated_cost":9,"a":1}}',
      '"more":{"a":1}',
    ],
    ["as a text", '{"prompt_tokens":3,"completion_tokens":2,"note":"estimated_cost"}', '"note":"estimated_cost"'],
    [
      "above deep nesting",
      `{"prompt_tokens":3,"completion_tokens":2,"estimated_cost":9,"a":${"[".repeat(1e5)}${"]".repeat(1e5)}}`,
      '"prompt_tokens":3',
    ],
  ])("hides an upstream's price %s", (_name, usage, kept) => {
    const shown = withCost(usage, { input: 3, cachedInput: 0, output: 2, reasoning: 0 }, price);
    expect(shown.match(/"estimated_cost":/g)).toHaveLength(1);
    expect(shown).toContain(kept);
    expect(shown).not.toContain(":9");
  });
});
