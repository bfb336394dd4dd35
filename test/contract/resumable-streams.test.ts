// Streams that a client continues: what it sends, what it gets, and what is refused.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { frame, gateAfter } from "../fakes/agent-data-plane.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { eventsOf, type StreamEvent, textOf } from "../fakes/resuming-client.ts";

const path = "/v1/chat/completions";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
beforeEach(() => {
  edge.agent.asked.length = 0;
});
afterAll(() => edge.close());

const headersOf = (key: string, after?: number) => ({
  "idempotency-key": key,
  "x-stoker-resumable": "true",
  ...(after === undefined ? {} : { "last-event-id": String(after) }),
});

interface Sent {
  readonly path?: string;
  readonly after?: number;
  readonly body?: object;
  readonly signal?: AbortSignal;
}

const send = (key: string, sent: Sent = {}) =>
  edge.post(sent.path ?? path, sent.body ?? chat({ stream: true }), {
    headers: headersOf(key, sent.after),
    ...(sent.signal ? { signal: sent.signal } : {}),
  });

async function read(response: Response): Promise<StreamEvent[]> {
  const events: StreamEvent[] = [];
  for await (const event of eventsOf(response)) events.push(event);
  return events;
}

const errorOf = async (response: Response) => {
  const { error } = (await response.json()) as { readonly error: { readonly code: string } };
  return [response.status, error.code];
};

const words = ["one ", "two ", "three ", "four "];
const wordFrames = words.map(frame);

describe("a whole stream", () => {
  it("numbers its events, and is read again from any of them without another run", async () => {
    edge.agent.script({ kind: "stream", frames: wordFrames });
    const key = randomUUID();
    const first = await send(key);
    const events = await read(first);
    expect(events.map(({ id }) => id)).toEqual(events.map((_, i) => i + 1));
    expect(textOf(events)).toBe(words.join(""));
    for (const after of [0, 2, events.length]) {
      const again = await send(key, { after });
      expect(again.headers.get("x-stoker-request-id")).toBe(first.headers.get("x-stoker-request-id"));
      expect(await read(again)).toEqual(events.slice(after));
    }
    expect(edge.agent.asked).toHaveLength(1);
  });

  it.each([
    ["/v1/responses", { model: "org/model", input: "Hello", stream: true }],
    [
      "/v1/messages",
      { model: "org/model", messages: [{ role: "user", content: "Hello" }], max_tokens: 9, stream: true },
    ],
  ])("is read again alike from %s", async (of, body) => {
    edge.agent.script({ kind: "stream", frames: wordFrames });
    const key = randomUUID();
    const events = await read(await send(key, { path: of, body }));
    expect(textOf(events)).toBe(words.join(""));
    expect(await read(await send(key, { path: of, body, after: 3 }))).toEqual(events.slice(3));
  });
});

describe("a client that leaves", () => {
  it("finds its stream going on, and gets the rest", async () => {
    const { gate, release } = gateAfter(2);
    edge.agent.script({ kind: "stream", frames: wordFrames, gate });
    const key = randomUUID();
    const leaving = new AbortController();
    const got: StreamEvent[] = [];
    const reading = (async () => {
      for await (const event of eventsOf(await send(key, { signal: leaving.signal }))) {
        got.push(event);
        if (got.length === 2) leaving.abort();
      }
    })();
    await expect(reading).rejects.toThrow();
    const second = send(key, { after: 2 });
    release();
    expect(textOf([...got, ...(await read(await second))])).toBe(words.join(""));
    expect(edge.agent.asked).toHaveLength(1);
    expect(edge.agent.asked[0]?.abortedAtMs).toBeUndefined();
  });
});

describe("a host that breaks", () => {
  it("is replaced by another run, which sends the rest, under the same request with another attempt", async () => {
    const key = randomUUID();
    edge.agent.script(
      { kind: "stream", frames: [...wordFrames.slice(0, 2), 'data: {"error":{"message":"gone"}}\n\n'] },
      { kind: "stream", frames: [frame("one two th"), frame("ree "), frame("four ")] },
    );
    const events = await read(await send(key));
    expect(textOf(events)).toBe(words.join(""));
    expect(events.map(({ id }) => id)).toEqual(events.map((_, i) => i + 1));
    const tickets = edge.agent.asked.map(({ ticket }) => ticket as { requestId: string; attempt: number });
    expect(new Set(tickets.map(({ requestId }) => requestId)).size).toBe(1);
    expect(tickets.map(({ attempt }) => attempt)).toEqual([1, 2]);
  });

  it("ends the stream for good if the other run generates another text", async () => {
    edge.agent.script(
      { kind: "stream", frames: [...wordFrames.slice(0, 2), 'data: {"error":{"message":"gone"}}\n\n'] },
      { kind: "stream", frames: [frame("one "), frame("more ")] },
    );
    const key = randomUUID();
    const events = await read(await send(key));
    expect(textOf(events.slice(0, 2))).toBe("one two ");
    expect(JSON.parse(events.at(-1)?.data ?? "{}").error.code).toBe("stream_diverged");
    expect(await errorOf(await send(key, { after: 2 }))).toEqual([502, "stream_diverged"]);
  });
});

describe("a host that sends nonsense", () => {
  const broken = 'data: {"error":{"message":"gone"}}\n\n';

  it("is asked three times at most for one stream, which then ends for good", async () => {
    edge.agent.script({ kind: "stream", frames: [frame("one "), broken] });
    const key = randomUUID();
    const events = await read(await send(key));
    expect(textOf(events.slice(0, 1))).toBe("one ");
    expect(JSON.parse(events.at(-1)?.data ?? "{}").error.code).toBe("stream_broken");
    expect(edge.agent.asked).toHaveLength(3);
    expect(await errorOf(await send(key, { after: 1 }))).toEqual([502, "stream_broken"]);
  });

  it.each([
    ["an error first", [broken]],
    ["a frame without an end", [`data: {"choices":[{"index":0,"delta":{"content":"${"x".repeat(5 * 1024 * 1024)}`]],
  ])("%s: the request is refused, and may be sent again", async (_, frames) => {
    edge.agent.script({ kind: "stream", frames }, { kind: "stream", frames: wordFrames });
    const key = randomUUID();
    expect(await errorOf(await send(key))).toEqual([502, "upstream_error"]);
    expect(textOf(await read(await send(key)))).toBe(words.join(""));
  });

  it("JSON that can be read but not written, in a repetition: the stream ends with an error", async () => {
    const deep = `data: {"choices":[{"index":0,"delta":{"content":"one two ","x":${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}}}]}\n\n`;
    edge.agent.script(
      { kind: "stream", frames: [frame("one "), broken] },
      { kind: "stream", frames: [frame("one "), deep] },
    );
    const events = await read(await send(randomUUID()));
    expect(JSON.parse(events.at(-1)?.data ?? "{}").error.code).toBe("stream_broken");
  });
});

describe("refused", () => {
  it("a stream without a key, a wrong event id, another request under the key, and what is no stream of text", async () => {
    const bare = (headers: Record<string, string>, body: object = chat({ stream: true })) =>
      edge.post(path, body, { headers });
    expect(await errorOf(await bare({ "x-stoker-resumable": "true" }))).toEqual([422, "stream_key_missing"]);
    expect(await errorOf(await bare({ ...headersOf(randomUUID()), "last-event-id": "two" }))).toEqual([
      422,
      "last_event_invalid",
    ]);
    expect(await errorOf(await bare(headersOf(randomUUID()), chat()))).toEqual([422, "not_resumable"]);
    const stored = { model: "org/model", input: "Hello", stream: true, store: true };
    expect(await errorOf(await send(randomUUID(), { path: "/v1/responses", body: stored }))).toEqual([
      422,
      "not_resumable",
    ]);
    edge.agent.script({ kind: "stream", frames: wordFrames });
    const key = randomUUID();
    await read(await send(key));
    expect(await errorOf(await send(key, { body: chat({ stream: true, max_tokens: 5 }) }))).toEqual([
      422,
      "idempotency_key_reused",
    ]);
    expect(edge.agent.asked).toHaveLength(1);
  });

  it("a request that no host takes: the same key begins anew", async () => {
    edge.agent.script(
      { kind: "error", status: 400, body: JSON.stringify({ error: { message: "no", type: "invalid_request_error" } }) },
      { kind: "stream", frames: wordFrames },
    );
    const key = randomUUID();
    expect((await send(key)).status).toBe(400);
    expect(textOf(await read(await send(key)))).toBe(words.join(""));
  });
});
