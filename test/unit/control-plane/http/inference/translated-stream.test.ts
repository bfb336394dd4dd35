import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ClientSink } from "../../../../../control-plane/http/inference/client-sink.ts";
import {
  dataFrame,
  namedFrame,
  rewriting,
  type StreamTranslation,
  TranslatedStream,
} from "../../../../../control-plane/http/inference/translated-stream.ts";
import { AnswerShare, ResponseBuffer } from "../../../../../control-plane/inference/response-buffer.ts";

/** What a client received. */
function translated(translation: StreamTranslation) {
  const parts: Buffer[] = [];
  let endCount = 0;
  const client = { write: (part: Buffer) => parts.push(part), end: () => (endCount += 1) } as unknown as ClientSink;
  return {
    stream: new TranslatedStream(client, translation),
    text: () => Buffer.concat(parts).toString(),
    ends: () => endCount,
  };
}

/** Resolves when the bytes that were written in this turn have been translated. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

const named: StreamTranslation = {
  event: (data) => (data === "[DONE]" ? "" : namedFrame("said", { data })),
  end: () => namedFrame("ended", {}),
};

describe("a translated stream", () => {
  it("gives the same frames wherever the engine's bytes are cut", () => {
    const sent = Buffer.from('data: {"a":"é 😀"}\n\n: waiting\n\ndata: second\r\n\r\ndata: [DONE]\n\n');
    const expected =
      namedFrame("said", { data: '{"a":"é 😀"}' }) +
      ": waiting\n\n" +
      namedFrame("said", { data: "second" }) +
      namedFrame("ended", {});
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(sent.length)), (cuts) => {
        const { stream, text, ends } = translated(named);
        let from = 0;
        for (const to of [...cuts.sort((a, b) => a - b), sent.length]) {
          if (to > from) stream.write(sent.subarray(from, to));
          from = to;
        }
        stream.end();
        expect(text()).toBe(expected);
        expect(ends()).toBe(1);
      }),
    );
  });

  it("translates events that have a name, which the client does not get", async () => {
    const { stream, text } = translated(named);
    stream.write(Buffer.from('event: ended\ndata: {"a":1}\n\nid: 7\nevent: ended\n\n: waiting\n\n'));
    await turn();
    expect(text()).toBe(`${namedFrame("said", { data: '{"a":1}' })}: waiting\n\n`);
  });

  it("gives up a response with an event that cannot be translated", async () => {
    const dropped: unknown[] = [];
    const written: Buffer[] = [];
    const client = {
      write: (part: Buffer) => written.push(part),
      listener: { dropped: (why: unknown) => dropped.push(why) },
    } as unknown as ClientSink;
    const rewritten = rewriting((data) => JSON.stringify(JSON.parse(data)));
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    new TranslatedStream(client, rewritten).write(Buffer.from(`data: [1]\n\ndata: ${deep}\n\ndata: [2]\n\n`));
    await turn();
    expect(dropped).toMatchObject([{ code: "upstream_error" }]);
    expect(Buffer.concat(written).toString()).toBe("data: [1]\n\n");
  });

  it("gives up a response with a frame above 4 MiB, and keeps none of it", async () => {
    const dropped: unknown[] = [];
    const written: Buffer[] = [];
    const client = {
      write: (part: Buffer) => written.push(part),
      listener: { dropped: (why: unknown) => dropped.push(why) },
    } as unknown as ClientSink;
    const stream = new TranslatedStream(client, named);
    for (let i = 0; i < 65; i += 1) stream.write(Buffer.alloc(64 * 1024, "data: a"));
    await turn();
    stream.write(Buffer.from("\n\ndata: late\n\n"));
    expect(dropped).toMatchObject([{ code: "upstream_error" }]);
    expect(written).toEqual([]);
  });

  it("counts what its translation keeps against the budget of responses, until the connection closes", async () => {
    const buffer = new ResponseBuffer(10_000);
    let kept = 0;
    const counting: StreamTranslation = {
      keptBytes() {
        return kept;
      },
      event: (data) => {
        kept += data.length;
        return "";
      },
      end: () => "",
    };
    const calls: string[] = [];
    let close = () => {};
    const client = {
      account: "u:1",
      write: () => {},
      end: () => {},
      holds: (bytes: { letGo(): void }) => (close = () => bytes.letGo()),
      listener: { stalled: () => calls.push("stalled"), drained: () => calls.push("drained") },
    } as unknown as ClientSink;
    const other = new AnswerShare(buffer, "u:2", { pause() {}, resume() {}, giveUp() {} });
    other.add(1);
    const stream = new TranslatedStream(client, counting, buffer);
    stream.write(Buffer.from("data: 12345\n\ndata: 67890\n\n"));
    await turn();
    // Counted in blocks of 1 KiB.
    expect([buffer.heldBytes, calls]).toEqual([1 + 1024, []]);
    stream.write(Buffer.from(`data: ${"x".repeat(9_500)}\n\n`));
    await turn();
    expect([buffer.heldBytes, calls]).toEqual([1 + 10 * 1024, ["stalled"]]);
    other.letGo();
    expect(calls).toEqual(["stalled", "drained"]);
    close();
    expect(buffer.heldBytes).toBe(0);
  });

  it("translates the bytes of one turn of the event loop together, and before the client's sink sends more", async () => {
    const sent: string[] = [];
    const client = { write: (part: Buffer) => sent.push(part.toString()) } as unknown as ClientSink;
    const stream = new TranslatedStream(client, named);
    for (const data of ["a", "b"]) stream.write(Buffer.from(`data: ${data}\n\n`));
    await turn();
    expect(sent).toEqual([namedFrame("said", { data: "a" }) + namedFrame("said", { data: "b" })]);
    stream.write(Buffer.from("data: c\n\n"));
    client.rewriter?.flush();
    expect(sent.at(-1)).toBe(namedFrame("said", { data: "c" }));
  });

  it("reads a last event without its empty line", () => {
    const { stream, text } = translated(named);
    stream.write(Buffer.from("data: only"));
    stream.end();
    expect(text()).toBe(namedFrame("said", { data: "only" }) + namedFrame("ended", {}));
  });

  it("reads a whole response as one event", () => {
    const { stream, text, ends } = translated(named);
    stream.whole(200, "application/json", Buffer.from('{\n"a": 1\n}'));
    expect(text()).toBe(namedFrame("said", { data: '{ "a": 1 }' }) + namedFrame("ended", {}));
    expect(ends()).toBe(1);
  });

  it("drops the events that a rewriting drops, and passes [DONE]", () => {
    const { stream, text } = translated(rewriting((data) => (data === "2" ? undefined : `<${data}>`)));
    stream.write(Buffer.from(`${dataFrame({ a: 1 })}data: 2\n\ndata: [DONE]\n\n`));
    stream.end();
    expect(text()).toBe('data: <{"a":1}>\n\ndata: [DONE]\n\n');
  });
});
