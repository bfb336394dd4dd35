// Streams that a client continues: what it sends, what it gets, and what is refused.
import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
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
  edge.post(sent.path ?? path, sent.body ?? chat({ stream: true, temperature: 0 }), {
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

describe("an account", () => {
  it("has 100 clients at a time", async () => {
    const { gate, release } = gateAfter(0);
    edge.agent.script({ kind: "stream", frames: wordFrames, gate });
    const open = Array.from({ length: 100 }, () => send(randomUUID()));
    await vi.waitFor(() => expect(edge.agent.asked).toHaveLength(100), { timeout: 20_000 });
    expect(await errorOf(await send(randomUUID()))).toEqual([429, "resumable_streams_full"]);
    release();
    for (const one of open) expect(textOf(await read(await one))).toBe(words.join(""));
    await vi.waitFor(async () => expect((await send(randomUUID())).status).toBe(200));
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

  it("ends the stream of a request that is not repeated, since it would give a different text", async () => {
    edge.agent.script({
      kind: "stream",
      frames: [...wordFrames.slice(0, 2), 'data: {"error":{"message":"gone"}}\n\n'],
    });
    const body = chat({ stream: true, temperature: 0.7 });
    const key = randomUUID();
    const events = await read(await send(key, { body }));
    expect(JSON.parse(events.at(-1)?.data ?? "{}").error.code).toBe("stream_not_repeatable");
    expect(await errorOf(await send(key, { body, after: 2 }))).toEqual([502, "stream_not_repeatable"]);
    expect(edge.agent.asked).toHaveLength(1);
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
  const bare = (headers: Record<string, string>, body: object = chat({ stream: true })) =>
    edge.post(path, body, { headers });
  afterEach(() => expect(edge.agent.asked).toHaveLength(0));

  it("without a key", async () => {
    expect(await errorOf(await bare({ "x-stoker-resumable": "true" }))).toEqual([422, "stream_key_missing"]);
    expect(await errorOf(await bare({ "last-event-id": "3" }))).toEqual([422, "stream_key_missing"]);
  });

  it.each(["two", "-1", "1.5", ""])("with %j as the id of an event", async (id) => {
    const headers = { ...headersOf(randomUUID()), "last-event-id": id };
    expect(await errorOf(await bare(headers))).toEqual([422, "last_event_invalid"]);
  });

  it.each([
    ["without `stream`", path, chat()],
    ["an embedding", "/v1/embeddings", { model: "org/model", input: "Hello" }],
    ["a stored response", "/v1/responses", { model: "org/model", input: "Hello", stream: true, store: true }],
    ["a background response", "/v1/responses", { model: "org/model", input: "Hello", store: true, background: true }],
  ])("%s", async (_, of, body) => {
    expect(await errorOf(await send(randomUUID(), { path: of, body }))).toEqual([422, "not_resumable"]);
  });

  it("to continue a stream that is not stored", async () => {
    expect(await errorOf(await send(randomUUID(), { after: 5 }))).toEqual([404, "stream_gone"]);
  });
});

describe("the key of a stream", () => {
  it("is not for another request", async () => {
    edge.agent.script({ kind: "stream", frames: wordFrames });
    const key = randomUUID();
    await read(await send(key));
    const other = await send(key, { body: chat({ stream: true, max_tokens: 5 }) });
    expect(await errorOf(other)).toEqual([422, "idempotency_key_reused"]);
    expect(edge.agent.asked).toHaveLength(1);
  });

  it("starts again after a request that no host takes", async () => {
    edge.agent.script(
      { kind: "error", status: 400, body: JSON.stringify({ error: { message: "no", type: "invalid_request_error" } }) },
      { kind: "stream", frames: wordFrames },
    );
    const key = randomUUID();
    expect((await send(key)).status).toBe(400);
    expect(textOf(await read(await send(key)))).toBe(words.join(""));
  });
});
