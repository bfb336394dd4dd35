import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MessageFrames } from "../../../../agent/ingress/message-frames.ts";

const price = { rates: { input: 1_000_000_000n, cachedInput: 0n, output: 2_000_000_000n }, max: 1_000_000_000n };
const terms = { usage: "extra", inputTokensBound: 40, maxTokens: 50, permits: 1 } as const;

type Event = Readonly<Record<string, unknown>> & { readonly type: string };

// biome-ignore lint/suspicious/noExplicitAny: chunks are read field by field.
type Chunk = any;

/** `cuts`: positions at which the bytes are cut into pieces. */
function read(events: readonly Event[], cuts: readonly number[] = []) {
  const out: Buffer[] = [];
  const frames = new MessageFrames(terms, price, (bytes) => out.push(bytes));
  const bytes = Buffer.from(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
  const edges = [0, ...cuts.map((cut) => cut % bytes.length).toSorted((a, b) => a - b), bytes.length];
  for (let i = 1; i < edges.length; i++)
    if (!frames.isDone) frames.push(bytes.subarray(edges[i - 1] as number, edges[i] as number));
  const counted = { input: 10, cachedInput: 0, output: frames.contentFrames, reasoning: 0 };
  const text = Buffer.concat([...out, ...(frames.isDone ? [frames.tail(counted)] : [])]).toString();
  const data = text.split("\n\n").flatMap((frame) => (frame.startsWith("data: ") ? [frame.slice(6)] : []));
  const chunks: Chunk[] = data.filter((one) => one !== "[DONE]").map((one) => JSON.parse(one));
  return { frames, chunks, data };
}

const field = (chunks: readonly Chunk[], name: string) =>
  chunks.map(({ choices }) => choices[0]?.delta?.[name] ?? "").join("");
const start: Event = {
  type: "message_start",
  message: { id: "msg", model: "m", usage: { input_tokens: 4, cache_read_input_tokens: 3, output_tokens: 1 } },
};
const begin = (index: number, content_block: object): Event => ({ type: "content_block_start", index, content_block });
const delta = (index: number, fields: object): Event => ({ type: "content_block_delta", index, delta: fields });
const stop = (index: number): Event => ({ type: "content_block_stop", index });
const said = (index: number, text: string): readonly Event[] => [
  begin(index, { type: "text", text: "" }),
  delta(index, { type: "text_delta", text }),
  stop(index),
];
const finish = (stop_reason: string, output_tokens = 6, usage: object = {}): readonly Event[] => [
  { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens, ...usage } },
  { type: "message_stop" },
];

describe("events of a message", () => {
  it("become the chunks of a chat with the provider's usage and its cost", () => {
    const { frames, chunks, data } = read([start, { type: "ping" }, ...said(0, "One two"), ...finish("end_turn")]);
    expect(field(chunks, "content")).toBe("One two");
    expect(chunks[0]).toMatchObject({ id: "msg", model: "m", object: "chat.completion.chunk" });
    expect(chunks[0].choices[0].delta.role).toBe("assistant");
    expect(chunks.at(-1).usage).toEqual({
      prompt_tokens: 7,
      completion_tokens: 6,
      total_tokens: 13,
      prompt_tokens_details: { cached_tokens: 3 },
      completion_tokens_details: {},
      estimated_cost: expect.any(Number),
    });
    expect(frames.figures).toMatchObject({ input: 7, cachedInput: 3, output: 6 });
    expect(data.at(-1)).toBe("[DONE]");
  });

  it.each([
    ["end_turn", "stop"],
    ["stop_sequence", "stop"],
    ["max_tokens", "length"],
    ["tool_use", "tool_calls"],
    ["refusal", "content_filter"],
    ["model_context_window_exceeded", "length"],
  ])("end by %s with %s", (reason, expected) => {
    const { chunks } = read([start, ...said(0, "a"), ...finish(reason)]);
    expect(chunks.map(({ choices }) => choices[0]?.finish_reason).find(Boolean)).toBe(expected);
  });

  it("keep thoughts, calls and their arguments in whatever pieces they arrive", () => {
    const piece = fc.string({ minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 5 }),
        piece,
        fc.array(fc.nat(), { maxLength: 12 }),
        (parts, more, cuts) => {
          const given = JSON.stringify({ parts });
          const half = Math.ceil(given.length / 2);
          const json = (partial_json: string) => delta(2, { type: "input_json_delta", partial_json });
          const { chunks } = read(
            [
              start,
              begin(0, { type: "thinking", thinking: "" }),
              ...parts.map((thinking) => delta(0, { type: "thinking_delta", thinking })),
              delta(0, { type: "signature_delta", signature: "c2ln" }),
              stop(0),
              ...said(1, more),
              begin(2, { type: "tool_use", id: "a", name: "run", input: {} }),
              json(given.slice(0, half)),
              json(given.slice(half)),
              stop(2),
              begin(3, { type: "tool_use", id: "b", name: "now", input: {} }),
              stop(3),
              ...finish("tool_use"),
            ],
            cuts,
          );
          expect(field(chunks, "reasoning_content")).toBe(parts.join(""));
          expect(field(chunks, "content")).toBe(more);
          const calls: Chunk[] = chunks.flatMap(({ choices }) => choices[0]?.delta?.tool_calls ?? []);
          const argumentsOf = (n: number) =>
            calls
              .filter(({ index }) => index === n)
              .map((call) => call.function.arguments)
              .join("");
          expect([argumentsOf(0), argumentsOf(1)]).toEqual([given, "{}"]);
          expect(calls.filter(({ id }) => id !== undefined).map(({ id, function: { name } }) => [id, name])).toEqual([
            ["a", "run"],
            ["b", "now"],
          ]);
        },
      ),
      { numRuns: 100 },
    );
  });

  it("take the later figures of usage", () => {
    const { frames } = read([start, ...said(0, "a"), ...finish("end_turn", 2, { input_tokens: 9 })]);
    expect(frames.figures).toMatchObject({ input: 12, cachedInput: 3, output: 2 });
  });

  it.each([
    ["usage that is no number", { output_tokens: "6" }],
    ["more tokens than the request allows", { output_tokens: 5_000_000 }],
  ])("are counted instead with %s", (_, usage) => {
    const { frames } = read([start, ...said(0, "a"), ...finish("end_turn", 2, usage)]);
    expect([frames.figures, frames.hasInvalidUsage]).toEqual([undefined, true]);
  });

  it("end with an error of the provider after output, and break before it", () => {
    const error: Event = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
    const { frames, chunks } = read([start, ...said(0, "a"), error]);
    expect(frames.isError).toBe(true);
    expect(chunks.at(-1).error).toMatchObject({ message: "Overloaded", code: "overloaded_error" });
    expect(() => read([start, error])).toThrow(/overloaded_error/);
  });

  it.each<[string, readonly Event[]]>([
    ["no start", [...said(0, "a")]],
    ["a second start", [start, start]],
    ["a delta of an unknown block", [start, delta(3, { type: "text_delta", text: "a" })]],
    ["a block twice", [start, ...said(0, "a"), ...said(0, "b")]],
    ["output after the end", [start, ...finish("end_turn").slice(0, 1), ...said(0, "a")]],
    ["a second end", [start, ...finish("end_turn").slice(0, 1), ...finish("end_turn")]],
    ["an unknown reason", [start, ...finish("tired")]],
    ["an end without a reason", [start, ...said(0, "a"), { type: "message_stop" }]],
    ["no type", [{} as Event]],
    ["endless blocks", [start, ...Array.from({ length: 2_000 }, (_, i) => begin(i, { type: "other" }))]],
  ])("are refused with %s", (_, events) => expect(() => read(events)).toThrow(RangeError));

  it("stop a provider that does not stop", () => {
    const { frames } = read([
      start,
      begin(0, { type: "text", text: "" }),
      ...Array.from({ length: 200 }, () => delta(0, { type: "text_delta", text: "a" })),
    ]);
    expect([frames.isCutShort, frames.isDone]).toEqual([true, true]);
  });
});
