import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ChatDelta, ChatDeltas, deltasOf } from "../../../../../control-plane/http/inference/chat-deltas.ts";
import { chatReply, chunksOf, cutBy, wholeReply } from "../../../../fakes/chat-replies.ts";
import { longer } from "../../../../fakes/nightly.ts";

function read(...events: readonly string[]): ChatDelta[] {
  const deltas: ChatDelta[] = [];
  const reader = new ChatDeltas((delta) => deltas.push(delta));
  readFrames(reader, events);
  reader.end();
  return deltas;
}

/** Reads events that arrive together. */
function readFrames(reader: ChatDeltas, events: readonly string[], name = "data: "): void {
  const frames = events.map((event) => `${name}${event}\n\n`).join("");
  for (let at = reader.readTexts(frames, 0); at < frames.length; at = reader.readTexts(frames, at)) {
    const end = frames.indexOf("\n\n", at);
    reader.read(frames.slice(at + name.length, end));
    at = end + 2;
  }
}

/** The deltas with the parts of one text joined. */
function joined(deltas: readonly ChatDelta[]): ChatDelta[] {
  const all: ChatDelta[] = [];
  for (const delta of deltas) {
    const last = all.at(-1);
    const isSame =
      last?.kind === delta.kind && (!("index" in delta) || ("index" in last && last.index === delta.index));
    if (isSame && "text" in delta && "text" in last) all[all.length - 1] = { ...last, text: last.text + delta.text };
    else all.push(delta);
  }
  return all;
}

/** Members of the object, each with a comma. */
const inner = (fields: object): string =>
  Object.entries(fields)
    .map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)},`)
    .join("");

const delta = (fields: object, finish: string | null = null) =>
  JSON.stringify({ choices: [{ index: 0, delta: fields, finish_reason: finish }] });

describe("deltas of a chat", () => {
  it("are the same for a stream and for the whole response", () => {
    fc.assert(
      fc.property(chatReply, fc.nat(), (reply, seed) => {
        const streamed = read(...chunksOf(reply, cutBy(seed)), "[DONE]");
        expect(joined(streamed)).toEqual(deltasOf(wholeReply(reply)));
      }),
    );
  });

  it("join the texts of events until another event or a flush", () => {
    const deltas: ChatDelta[] = [];
    const reader = new ChatDeltas((one) => deltas.push(one));
    const texts = () => deltas.flatMap((one) => (one.kind === "text" ? [one.text] : []));
    // The first two events are parsed; those that repeat the second are joined.
    const say = (...said: readonly string[]) =>
      readFrames(
        reader,
        said.map((content) => delta({ content })),
      );
    say("a", "b", "c", "d");
    expect(texts()).toEqual(["a", "b"]);
    reader.flush();
    expect(texts()).toEqual(["a", "b", "cd"]);
    say("e");
    readFrames(reader, [delta({}, "stop")]);
    expect(deltas.slice(-2)).toMatchObject([{ kind: "text", text: "e" }, { kind: "finish" }]);
    say("f");
    reader.end();
    expect(texts()).toEqual(["a", "b", "cd", "e", "f"]);
  });

  it.each(["data: ", "data:"])("join texts with escapes after `%s`", (name) => {
    const deltas: ChatDelta[] = [];
    const reader = new ChatDeltas((one) => deltas.push(one));
    const texts = ["a", "b", '"', "\\", "\n", "\u0001", "é", "\ud83d", "\ude00", '","content":"'];
    readFrames(
      reader,
      texts.map((content) => delta({ content })),
      name,
    );
    reader.end();
    expect(deltas.flatMap((one) => (one.kind === "text" ? [one.text] : []))).toEqual([
      "a",
      "b",
      texts.slice(2).join(""),
    ]);
  });

  it("of events that repeat all but their text are those of each event alone", () => {
    const text = fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.constantFrom('"content":"x"', "\\", "\n", ""));
    /** What the events of a response have beside their text. */
    const shape = fc.record({
      index: fc.constantFrom(0, 0, 0, 1),
      choice: fc.constantFrom<object>({}, {}, { logprobs: { content: [{}] } }, { finish_reason: "stop" }),
      said: fc.constantFrom<object>({}, {}, { reasoning: "why" }, { content: "twice" }, { tool_calls: null }),
      rest: fc.constantFrom<object>({}, { usage: { prompt_tokens: 3 } }, { note: { content: "other" } }),
      space: fc.constantFrom("", " "),
    });
    type Shape = typeof shape extends fc.Arbitrary<infer T> ? T : never;
    const eventOf = ({ index, choice, said, rest, space }: Shape, words: string) =>
      `{"id":"c1",${inner(rest)}"choices":[{"index":${index},${inner(choice)}"delta":{${inner(said)}"content":${space}${JSON.stringify(words)}}}]}`;
    const broken = fc.constantFrom("", '"}}', "}]}}", "\u0001");
    const withoutFrame = (deltas: readonly ChatDelta[]) =>
      deltas.filter(({ kind }) => kind !== "start" && kind !== "end");
    fc.assert(
      fc.property(
        shape,
        shape,
        fc.array(fc.tuple(fc.boolean(), text, broken), { maxLength: 12 }),
        (one, two, given) => {
          const events = given.flatMap(([isOne, said, end]) => {
            const event = eventOf(isOne ? one : two, said);
            return [event, `${event.slice(0, -4)}${end}`];
          });
          expect(withoutFrame(read(...events))).toEqual(events.flatMap((event) => withoutFrame(read(event))));
        },
      ),
      { numRuns: longer(100, 500) },
    );
  });

  it("end once, with or without [DONE], and ignore what follows", () => {
    expect(read("[DONE]", "[DONE]", delta({ content: "late" }))).toEqual([{ kind: "end" }]);
    expect(read()).toEqual([{ kind: "end" }]);
  });

  it("accept `reasoning` as a second name of `reasoning_content`, once", () => {
    const both = delta({ reasoning: "hm", reasoning_content: "hm" });
    expect(read(both, delta({ reasoning: "!" })).filter(({ kind }) => kind === "reasoning")).toEqual([
      { kind: "reasoning", text: "hm" },
      { kind: "reasoning", text: "!" },
    ]);
  });

  it("begin a call when its name is known, and keep arguments that came before", () => {
    const call = (fields: object) => delta({ tool_calls: [{ index: 3, ...fields }] });
    const deltas = read(call({ function: { arguments: '{"a"' } }), call({ id: "x", function: { name: "f" } }));
    expect(deltas.slice(1, -1)).toEqual([
      { kind: "call", index: 0, id: "x", name: "f" },
      { kind: "arguments", index: 0, text: '{"a"' },
    ]);
  });

  it("read interleaved calls by their index", () => {
    const call = (index: number, fields: object) => ({ index, function: fields });
    const deltas = read(
      delta({ tool_calls: [call(0, { name: "a" }), call(1, { name: "b" })] }),
      delta({ tool_calls: [call(1, { arguments: "1" }), call(0, { arguments: "0" })] }),
    );
    expect(deltas.filter(({ kind }) => kind === "arguments")).toEqual([
      { kind: "arguments", index: 1, text: "1" },
      { kind: "arguments", index: 0, text: "0" },
    ]);
  });

  it("report an error event, and the first choice only", () => {
    expect(read('{"error":{"message":"gone","code":"engine_error"}}')).toEqual([
      { kind: "error", code: "engine_error", message: "gone" },
      { kind: "end" },
    ]);
    expect(read('{"choices":[{"index":1,"delta":{"content":"second"}}]}')).toEqual([{ kind: "end" }]);
  });

  it("never throws for what an engine sends", () => {
    const fields = fc.constantFrom(
      "choices",
      "delta",
      "message",
      "content",
      "tool_calls",
      "function",
      "index",
      "usage",
      "error",
      "logprobs",
    );
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: "medium" },
        fc.jsonValue({ maxDepth: 1 }),
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(fields, tie("value"), { maxKeys: 5 }),
      ),
    }));
    fc.assert(
      fc.property(fc.dictionary(fields, value), (chunk) => {
        expect(read(JSON.stringify(chunk)).at(-1)).toEqual({ kind: "end" });
      }),
    );
    expect(read("no JSON", "null", "[]", "3")).toEqual([{ kind: "end" }]);
  });

  it("throws for a whole body that is no chat completion", () => {
    for (const body of ["", "{}", '{"object":"list","data":[]}', '{"choices":[]}'])
      expect(() => deltasOf(body)).toThrow(TypeError);
  });
});
