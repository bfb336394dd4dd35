// Hostile clients of the WebSockets for audio: what they cost, and how they end.
import { once } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, it, vi } from "vitest";
import { WebSocket } from "ws";
import type { Caller } from "../../control-plane/accounts/caller.ts";
import { InvalidApiKey, roleNotAllowed } from "../../control-plane/accounts/errors.ts";
import { AddressLimits } from "../../control-plane/http/connections/address-limits.ts";
import type { HttpDeps } from "../../control-plane/http/core/create-http.ts";
import { ByteBudget } from "../../control-plane/inference/byte-budget.ts";
import { apiKey } from "../fakes/ports.ts";
import { connect, refusedUpgrade } from "../fakes/socket-client.ts";
import { startTaskEdge, type TaskEdge } from "../fakes/task-edge.ts";

const realtime = "/v1/realtime?intent=transcription&model=org/model";
const speaking = "/v1/text-to-speech/af_bella/stream-input?model_id=org/model";

let tasks: TaskEdge | undefined;
afterEach(async () => {
  await tasks?.close();
  tasks = undefined;
});

async function start(change: (deps: HttpDeps) => HttpDeps): Promise<TaskEdge> {
  tasks = await startTaskEdge(undefined, change);
  tasks.offer({});
  return tasks;
}

async function openSockets({ edge }: TaskEdge): Promise<number> {
  const page = await edge.registry.getSingleMetricAsString("stoker_websockets");
  return [...page.matchAll(/^stoker_websockets\{[^}]*\} (\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as (options: object) => Promise<void>;
async function heapBytes(): Promise<number> {
  await collect({ execution: "async" });
  return process.memoryUsage().heapUsed;
}

const append = (bytes: number) => ({
  type: "input_audio_buffer.append",
  audio: Buffer.alloc(bytes).toString("base64"),
});
const manual = {
  type: "session.update",
  session: { type: "transcription", audio: { input: { turn_detection: null } } },
};

describe("a hostile client of WebSockets", () => {
  it("is disconnected when it never reads, and its request is cut and billed like one over HTTP", async () => {
    const edge = await start((deps) => ({ ...deps, socketLimits: { unreadMs: 200, checkMs: 20 } }));
    const pieces = Array.from({ length: 100 }, () => Buffer.alloc(256 * 1024, 1));
    edge.engine.answer({ contentType: "audio/mpeg", pieces, usage: { characters: 5 } });
    const client = await connect(edge.edge.url + speaking);
    client.ws.pause();
    client.send({ text: "Hello", flush: true });
    await vi.waitFor(() => expect(edge.engine.aborted).toBe(1), { timeout: 10_000 });
    await vi.waitFor(() => expect(edge.lastHold().end).toEqual({ how: "waits", attempt: 1 }));
    await vi.waitFor(async () => expect(await openSockets(edge)).toBe(0));
  });

  it("is disconnected when it causes errors and does not read them", async () => {
    const edge = await start((deps) => ({ ...deps, socketLimits: { unreadMs: 200, checkMs: 20 } }));
    const client = await connect(edge.edge.url + realtime);
    client.ws.pause();
    const event = JSON.stringify({ type: "x", event_id: "a".repeat(512) });
    for (let i = 0; i < 20_000; i += 1) client.ws.send(event);
    await vi.waitFor(async () => expect(await openSockets(edge)).toBe(0), { timeout: 20_000 });
  });

  it("is disconnected when it does not answer pings", async () => {
    const edge = await start((deps) => ({ ...deps, socketLimits: { pingMs: 20, checkMs: 10 } }));
    const url = edge.edge.url.replace("http", "ws") + realtime;
    const ws = new WebSocket(url, { headers: { authorization: `Bearer ${apiKey}` }, autoPong: false });
    const [code] = await once(ws, "close");
    expect(code).toBe(1006);
    const answering = await connect(edge.edge.url + realtime);
    answering.send({ type: "input_audio_buffer.clear" });
    await answering.type("input_audio_buffer.cleared");
  });

  it("is disconnected soon after its key was refused, and nothing that it sends until then is kept", async () => {
    const { edge } = await start((deps) => ({ ...deps, socketLimits: { closingMs: 2000 } }));
    const { ws } = await connect(edge.url + speaking, { headers: {} });
    // It does not read the closing frame.
    ws.pause();
    ws.send(JSON.stringify({ text: " ", xi_api_key: "stk_wrong" }));
    const before = await heapBytes();
    const message = "a".repeat(60 * 1024);
    for (let i = 0; i < 600 && ws.readyState === ws.OPEN; i += 1)
      await new Promise<unknown>((resolve) => ws.send(message, resolve));
    expect(((await heapBytes()) - before) / 1024 ** 2).toBeLessThan(16);
    await vi.waitFor(
      () => {
        ws.send(message, () => {});
        expect(ws.readyState).toBe(ws.CLOSED);
      },
      { timeout: 10_000 },
    );
  });

  it("counts by address while it has no valid key", async () => {
    const addresses = new AddressLimits({ requestsPerSecond: 0.5, connections: 100 }, () => false);
    const { edge } = await start((deps) => ({ ...deps, addresses, trustedProxies: ["127.0.0.1"] }));
    const from = { "x-forwarded-for": "203.0.113.9" };
    const statuses: number[] = [];
    for (let i = 0; i < 8; i += 1) {
      const { status } = await refusedUpgrade(edge.url + realtime, { headers: { ...from, "x-api-key": "stk_wrong" } });
      statuses.push(status);
    }
    expect(statuses.filter((status) => status === 401)).toHaveLength(5);
    expect(statuses.at(-1)).toBe(429);
    // A key in the first message is no way around it.
    expect((await refusedUpgrade(edge.url + speaking, { headers: from })).status).toBe(429);
    await (await connect(edge.url + realtime, { headers: { ...from, authorization: `Bearer ${apiKey}` } })).type(
      "session.created",
    );
  });

  it.each([
    ["address", new InvalidApiKey()],
    ["use of inference", roleNotAllowed("read", ["inference", "admin"])],
  ])("is disconnected when its key no longer allows its %s", async (_, refusal) => {
    let allowed = "127.0.0.1";
    const checked = new Set<string | undefined>();
    const again = (caller: Caller, _since: number, address?: string) => {
      checked.add(address);
      if (address !== allowed) throw refusal;
      return caller;
    };
    const standing = { now: () => 0, again };
    const { edge } = await start((deps) => ({
      ...deps,
      spine: { ...deps.spine, standing },
      socketLimits: { checkMs: 20 },
    }));
    const client = await connect(edge.url + realtime);
    client.send({ type: "input_audio_buffer.clear" });
    await client.type("input_audio_buffer.cleared");
    await vi.waitFor(() => expect(checked.size).toBe(1));
    allowed = "198.51.100.7";
    expect(await client.closed).toEqual({ code: 1008, reason: refusal.code });
    expect([...checked]).toEqual(["127.0.0.1"]);
  });

  it("cannot hold more unfinished messages than the budget of bodies, which is free again when it leaves", async () => {
    const bodies = new ByteBudget(4 * 1024 * 1024);
    const { edge } = await start((deps) => ({ ...deps, bodies }));
    const others = bodies.heldBytes;
    const clients = await Promise.all(Array.from({ length: 8 }, () => connect(edge.url + realtime)));
    const part = Buffer.alloc(900 * 1024, "a");
    for (const { ws } of clients) ws.send(part, { fin: false, binary: false });
    const closed = await Promise.race(clients.map((client) => client.closed));
    expect(closed).toEqual({ code: 1013, reason: "bodies_full" });
    expect(bodies.heldBytes).toBeLessThanOrEqual(4 * 1024 * 1024);
    for (const { ws } of clients) ws.terminate();
    await vi.waitFor(() => expect(bodies.heldBytes).toBe(others));
  });

  it("holds no bytes of messages that were received", async () => {
    const bodies = new ByteBudget(4 * 1024 * 1024);
    const { edge } = await start((deps) => ({ ...deps, bodies }));
    const client = await connect(edge.url + realtime);
    const others = bodies.heldBytes;
    for (let i = 0; i < 5; i += 1) client.send({ type: "input_audio_buffer.clear" });
    for (let i = 0; i < 5; i += 1) await client.type("input_audio_buffer.cleared");
    expect(bodies.heldBytes).toBe(others);
  });

  it("cannot hold more audio than the budget of bodies, which is free again when it leaves", async () => {
    const bodies = new ByteBudget(2 * 1024 * 1024);
    const { edge } = await start((deps) => ({ ...deps, bodies }));
    const others = bodies.heldBytes;
    const first = await connect(edge.url + realtime);
    const second = await connect(edge.url + realtime);
    for (const client of [first, second]) {
      client.send(manual);
      for (let i = 0; i < 40; i += 1) client.send(append(40_000));
    }
    // By an event for a whole message, or by closing while a message arrives.
    const refusals = [first, second].flatMap((client) => [
      client.type("error").then(
        ({ error }) => error.code,
        () => client.closed.then(({ reason }) => reason),
      ),
      client.closed.then(({ reason }) => reason),
    ]);
    expect(await Promise.race(refusals)).toBe("bodies_full");
    expect(bodies.heldBytes).toBeLessThanOrEqual(2 * 1024 * 1024 + others);
    for (const client of [first, second]) {
      client.ws.terminate();
      await client.closed;
    }
    await vi.waitFor(() => expect(bodies.heldBytes).toBe(others));
  });

  it("cannot buffer more than a file over HTTP may contain", async () => {
    const { edge } = await start((deps) => ({ ...deps, bodies: new ByteBudget(1024 ** 3) }));
    const client = await connect(edge.url + realtime);
    client.send(manual);
    for (let i = 0; i < 90; i += 1) client.send(append(600_000));
    expect((await client.type("error")).error).toMatchObject({
      code: "audio_too_long",
      message: expect.stringContaining("1090 seconds"),
    });
  });
});
