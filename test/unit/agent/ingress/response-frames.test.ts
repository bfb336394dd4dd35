import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ResponseFrames } from "../../../../agent/ingress/response-frames.ts";

const rates = { input: 1_000_000_000n, cachedInput: 0n, output: 2_000_000_000n };
const price = { rates, max: 1_000_000_000n };
const terms = { usage: "extra", inputTokensBound: 40, maxTokens: 50, permits: 1 } as const;

type Event = Readonly<Record<string, unknown>> & { readonly type: string };

// biome-ignore lint/suspicious/noExplicitAny: chunks are read field by field.
type Chunk = any;

/** `cuts`: positions at which the bytes are cut into pieces. */
function read(events: readonly Event[], change: Partial<typeof terms> = {}, cuts: readonly number[] = []) {
  const out: Buffer[] = [];
  const frames = new ResponseFrames({ ...terms, ...change }, price, (bytes) => out.push(bytes));
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

const textOf = (chunks: readonly Chunk[]) => chunks.map(({ choices }) => choices[0]?.delta?.content ?? "").join("");
const argumentsOf = (chunks: readonly Chunk[]) =>
  chunks
    .flatMap(({ choices }) => choices[0]?.delta?.tool_calls ?? [])
    .map((call: Chunk) => call.function.arguments)
    .join("");
const finishOf = (chunks: readonly Chunk[]) => chunks.map(({ choices }) => choices[0]?.finish_reason).find(Boolean);

const usage = (output: number, input = 3) => ({
  input_tokens: input,
  output_tokens: output,
  total_tokens: input + output,
  input_tokens_details: { cached_tokens: 1 },
});
const added = (item: object): Event => ({ type: "response.output_item.added", item });
const done = (item: object): Event => ({ type: "response.output_item.done", item });
const message = (text: string) => ({ id: "m", type: "message", content: [{ type: "output_text", text }] });
const delta = (text: string): Event => ({ type: "response.output_text.delta", item_id: "m", delta: text });
const end = (output: number, rest: object = {}): Event => ({
  type: "response.completed",
  response: { status: "completed", output: [], usage: usage(output), ...rest },
});

describe("events of a response", () => {
  it("become the chunks of a chat with the engine's usage and its cost", () => {
    const { frames, chunks, data } = read([
      { type: "response.created", response: { status: "in_progress" } },
      added({ id: "m", type: "message", content: [] }),
      delta("One"),
      delta(" two"),
      { type: "response.output_text.done", item_id: "m", text: "One two" },
      done(message("One two")),
      end(2),
    ]);
    expect([textOf(chunks), finishOf(chunks), frames.contentFrames]).toEqual(["One two", "stop", 2]);
    expect(frames.figures).toEqual({ input: 3, cachedInput: 1, output: 2, reasoning: 0 });
    expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 2, estimated_cost: 0.000006 });
    expect(data.at(-1)).toBe("[DONE]");
  });

  it("keep their text in whatever pieces it arrives, also where the end of an item contains the rest", () => {
    const parts = fc.array(fc.string({ unit: "grapheme", minLength: 1, maxLength: 8 }), { maxLength: 6 });
    fc.assert(
      fc.property(parts, fc.nat(6), fc.string(), fc.array(fc.nat()), (texts, late, given, cuts) => {
        const sent = texts.slice(0, late);
        const call = { id: "c", type: "function_call", call_id: "call_1", name: "run", arguments: given };
        const { chunks } = read(
          [
            added({ ...message(""), content: [] }),
            ...sent.map(delta),
            done(message(texts.join(""))),
            ...(late % 2 === 0 ? [added({ ...call, arguments: "" })] : []),
            done(call),
            end(9),
          ],
          {},
          cuts,
        );
        expect([textOf(chunks), argumentsOf(chunks), finishOf(chunks)]).toEqual([texts.join(""), given, "tool_calls"]);
      }),
    );
  });

  it.each<[string, Event, string]>([
    ["incomplete", end(2, { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }), "length"],
    ["a full output that is called complete", end(50), "length"],
    ["a filter", end(2, { status: "incomplete", incomplete_details: { reason: "content_filter" } }), "content_filter"],
  ])("end with the reason: %s", (_name, last, reason) => {
    expect(finishOf(read([delta("a"), last]).chunks)).toBe(reason);
  });

  it("are cut at the limit of tokens", () => {
    const { frames, chunks } = read([...Array.from({ length: 80 }, () => delta("a")), end(80)]);
    expect([frames.isCutShort, finishOf(chunks), textOf(chunks).length]).toEqual([true, "length", 66]);
  });

  it.each<[string, unknown]>([
    ["negative", { ...usage(2), output_tokens: -1 }],
    ["above the limit", usage(500)],
    ["above the bound of the prompt", usage(2, 70_000)],
    ["no object", "2"],
    ["without output", { input_tokens: 1 }],
    ["text for a number", { ...usage(2), input_tokens: "3" }],
  ])("are billed by their count where the usage is impossible: %s", (_name, given) => {
    const { frames, chunks } = read([delta("a"), delta("b"), end(2, { usage: given })]);
    expect([frames.hasInvalidUsage, frames.figures]).toEqual([true, undefined]);
    expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 2 });
  });

  it.each<[string, string]>([
    ["no JSON", "data: {\n\n"],
    ["no object", "data: []\n\n"],
    ["no type", "data: {}\n\n"],
    ["arguments of no call", 'data: {"type":"response.function_call_arguments.delta","item_id":"x","delta":"a"}\n\n'],
    ["an end without a response", 'data: {"type":"response.completed"}\n\n'],
    ["a frame without an end", `data: ${"a".repeat(1024 * 1024)}`],
  ])("are refused: %s", (_name, bytes) => {
    const frames = new ResponseFrames(terms, price, () => {});
    expect(() => frames.push(Buffer.from(bytes))).toThrow(RangeError);
  });

  it("have no end of their own where only comments and names arrive", () => {
    const frames = new ResponseFrames(terms, price, () => {});
    frames.push(Buffer.from(": ping\n\nevent: response.completed\n\n"));
    expect([frames.isFinished, frames.isDone, frames.contentFrames]).toEqual([false, false, 0]);
  });

  it("are refused beyond a thousand items", () => {
    const events = Array.from({ length: 1_001 }, (_, i) =>
      done({ id: `c${i}`, type: "function_call", call_id: "c", name: "f", arguments: "" }),
    );
    expect(() => read(events, { maxTokens: 5_000 } as object)).toThrow(RangeError);
  });

  it("report an engine's error as a chat does", () => {
    const failed: Event = { type: "response.failed", response: { error: { code: "server_error", message: "broken" } } };
    const { frames, chunks } = read([delta("a"), failed]);
    expect([frames.isError, chunks.at(-1).error.message]).toEqual([true, "broken"]);
  });

  it("drop what repeats, and what this version does not know", () => {
    const { chunks } = read([
      delta("a"),
      { type: "response.output_text.annotation.added", annotation: { text: "x" } },
      { type: "ping" },
      end(1),
    ]);
    expect(textOf(chunks)).toBe("a");
    expect(JSON.stringify(chunks)).not.toContain("annotation");
  });
});
