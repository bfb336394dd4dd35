import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { UsageSpool } from "../../../agent/ingress/spool.ts";
import type { InstanceId } from "../../../proto/ids.ts";
import { signTicket } from "../../../proto/ticket.ts";
import {
  call,
  carriers,
  type DataPath,
  instanceId,
  startDataPath,
  ticketFor,
  ticketKey,
} from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";

let engine: FakeEngine;
let path: DataPath;
const previousKey = Buffer.alloc(32, 6);

beforeEach(async () => {
  engine = await startFakeEngine({ tokens: 2 });
  path = await startDataPath(engine.origin, { keys: () => [ticketKey, previousKey] });
});
afterEach(async () => {
  await path.close();
  await engine.close();
});

it.each(carriers)("refuses several choices at an engine that counts one only (%s)", async (carrier) => {
  path.target({ countsOneChoice: true });
  const reply = await call(path.port, { carrier, ticket: { permits: 2 } });
  expect(reply.status).toBe(400);
  expect(JSON.parse(reply.text)).toMatchObject({ error: { code: "unsupported_value", param: "n" } });
  expect(engine.log).toHaveLength(0);
  expect((await call(path.port, { carrier })).status).toBe(200);
});

describe("tickets", () => {
  const another = "instance00000002" as InstanceId;
  const cases: readonly [string, () => string][] = [
    ["none", () => ""],
    ["malformed", () => "nonsense"],
    ["signed with another key", () => signTicket(ticketFor(), Buffer.alloc(32, 1))],
    ["expired in control-plane time", () => signTicket(ticketFor({ expiresAtMs: Date.now() - 1 }), ticketKey)],
    ["for another instance", () => signTicket(ticketFor({ instanceId: another }), ticketKey)],
    [
      "changed after signing",
      () => signTicket(ticketFor({ hold: "1" }), ticketKey).replace('"hold":"1"', '"hold":"9"'),
    ],
  ];
  it.each(cases)("%s: 401, and the engine hears nothing", async (_, header) => {
    const reply = await call(path.port, { header: header() });
    expect([reply.status, reply.refusal]).toEqual([401, "ticket"]);
    expect(engine.log).toHaveLength(0);
    expect(await pendingRecords(path.spool, 10)).toEqual([]);
  });

  it("signed with the previous key of the session is served", async () => {
    const reply = await call(path.port, { header: signTicket(ticketFor(), previousKey) });
    expect(reply.status).toBe(200);
  });
});

describe("instances", () => {
  it("that nobody knows: 404", async () => {
    const reply = await call(path.port, { ticket: { instanceId: "instance00000009" } });
    expect([reply.status, reply.refusal]).toEqual([404, "unknown_instance"]);
  });

  it("that are not ready or drain: 503 with Retry-After", async () => {
    path.target({ ready: false });
    const unready = await call(path.port);
    expect([unready.status, unready.refusal, unready.headers["retry-after"]]).toEqual([503, "not_ready", "1"]);
    path.target({ ready: true, draining: true });
    const draining = await call(path.port);
    expect([draining.status, draining.refusal, draining.headers["retry-after"]]).toEqual([503, "draining", "1"]);
  });

  it("whose engine is away: 503 not_ready, and a record of nothing", async () => {
    await engine.close();
    const reply = await call(path.port);
    expect([reply.status, reply.refusal]).toEqual([503, "not_ready"]);
    const [record] = await pendingRecords(path.spool, 10);
    expect([record?.outputTokens, record?.inputTokens, record?.endReason]).toEqual([0, 0, "refused"]);
  });

  it("serve only inference paths", async () => {
    const reply = await call(path.port, { path: "/i/instance00000001/v1/load_lora_adapter" });
    expect(reply.status).toBe(404);
    expect(engine.log).toHaveLength(0);
  });
});

it("refuses with `spool` while usage cannot be recorded", async () => {
  const broken: UsageSpool = { ...path.spool, isWritable: false };
  const other = await startDataPath(engine.origin, { spool: broken });
  const reply = await call(other.port);
  expect([reply.status, reply.refusal]).toEqual([503, "spool"]);
  expect(engine.log).toHaveLength(0);
  await other.close();
});

it.each(carriers)(
  "holds no more of bodies than it may, over a connection %s, and gives back what it held",
  async (carrier) => {
    const narrow = await startDataPath(engine.origin, { limits: { maxHeldBodyBytes: 100_000 } });
    const ask = async (bytes: number) => {
      const reply = await call(narrow.port, { carrier, body: { padding: "x".repeat(bytes) } });
      return reply.refusal ?? reply.status;
    };
    expect(await ask(150_000)).toBe("busy");
    // Each more than half of it: what stayed counted would turn the second away.
    for (let i = 0; i < 5; i += 1) expect(await ask(60_000)).toBe(200);
    expect(await ask(150_000)).toBe("busy");
    expect(await ask(10)).toBe(200);
    await narrow.close();
  },
);

it.each(carriers)(
  "gives back the body of a request that it refuses as `stops_server`, over a connection %s",
  async (carrier) => {
    const narrow = await startDataPath(engine.origin, { limits: { maxHeldBodyBytes: 1_000_000 } });
    const ask = async (body: Buffer) => {
      const reply = await call(narrow.port, { carrier, raw: { contentType: "application/json", body } });
      return reply.refusal ?? reply.status;
    };
    const bomb = Buffer.from(JSON.stringify({ prompt: "x".repeat(100_000), stream: false }));
    engine.behave({ breakAfter: 0 });
    for (const _ of [1, 2]) {
      expect(await ask(bomb)).toBe(502);
      narrow.ingress.serverEnded(instanceId);
    }
    engine.behave({ breakAfter: -1 });
    for (let i = 0; i < 12; i += 1) expect(await ask(bomb)).toBe("stops_server");
    // A body of all the bytes that may be held: a single byte that stayed counted would turn it away.
    const text = JSON.stringify({ prompt: "", stream: false });
    const largest = Buffer.from(text.replace('""', `"${"y".repeat(1_000_000 - text.length)}"`));
    expect([largest.length, await ask(largest)]).toEqual([1_000_000, 200]);
    await narrow.close();
  },
);

it("refuses a request as `stops_server` only to the account that stopped the server with it", async () => {
  const ask = async (account: string) => {
    const reply = await call(path.port, {
      ticket: { account, stream: false },
      body: { prompt: "bomb", stream: false },
    });
    return reply.refusal ?? reply.status;
  };
  engine.behave({ breakAfter: 0 });
  for (const _ of [1, 2]) {
    expect(await ask("alice")).toBe(502);
    path.ingress.serverEnded(instanceId);
  }
  engine.behave({ breakAfter: -1 });
  expect([await ask("alice"), await ask("bob"), await ask("alice")]).toEqual(["stops_server", 200, "stops_server"]);
});

it.each([
  ["while the instance may still be reported dead", false, 422],
  ["until the instance is removed", true, 200],
] as const)("keeps the requests of an instance that left the set %s", async (_, isRemoved, status) => {
  const ask = async () => (await call(path.port, { ticket: { stream: false }, body: { stream: false } })).status;
  for (const _ of [1, 2]) {
    engine.behave({ breakAfter: 0 });
    expect(await ask()).toBe(502);
    path.ingress.setTargets([]);
    if (isRemoved) path.ingress.forget(instanceId);
    path.ingress.serverEnded(instanceId);
    path.target();
  }
  engine.behave({ breakAfter: -1 });
  expect(await ask()).toBe(status);
});

it("refuses a body above its bound with 413, announced or not", async () => {
  const small = await startDataPath(engine.origin, { limits: { maxBodyBytes: 1000 } });
  const reply = await call(small.port, { body: { filler: "x".repeat(2000) } });
  expect(reply.status).toBe(413);
  expect(engine.log).toHaveLength(0);
  await small.close();
});

it("passes an engine's own refusal with its body and bills nothing", async () => {
  engine.behave({ status: 400 });
  const reply = await call(path.port);
  expect(reply.status).toBe(400);
  expect(JSON.parse(reply.text).error.message).toBe("scripted failure 400");
  expect(reply.usage).toEqual({
    input: 0,
    cachedInput: 0,
    output: 0,
    reasoning: 0,
    source: "counted",
    endReason: "refused",
  });
  engine.behave({ status: 500 });
  const broken = await call(path.port);
  expect([broken.status, broken.usage?.endReason, broken.usage?.output]).toEqual([500, "engine_error", 0]);
});

it("passes no status that HTTP does not have: at a gateway it would end the connection of everybody", async () => {
  engine.behave({ status: 777 });
  const reply = await call(path.port);
  expect([reply.status, reply.usage?.endReason]).toEqual([502, "engine_error"]);
});

it("proves its address to who can sign, and lists an instance's logs", async () => {
  const proof = await call(path.port, { path: "/prove" });
  expect(JSON.parse(proof.text)).toEqual({ host_id: "host000000000001", node_epoch: "3" });
  expect((await call(path.port, { path: "/prove", header: "x" })).status).toBe(401);
  const asked: unknown[] = [];
  const other = await startDataPath(engine.origin, {
    logs: async (id, query) => {
      asked.push([id, query]);
      return [{ at: "1682343934.123456789", line: "hello" }];
    },
  });
  const logs = await call(other.port, { method: "GET", path: "/i/instance00000001/logs?from=5&limit=7" });
  expect(JSON.parse(logs.text)).toEqual({ lines: [["1682343934.123456789", "hello"]] });
  expect(asked).toEqual([["instance00000001", { fromMs: 5, limit: 7 }]]);
  const bad = await call(other.port, { method: "GET", path: "/i/instance00000001/logs?limit=0" });
  expect(bad.status).toBe(400);
  await other.close();
});

it("survives strangers who ask for an upgrade and break off", async () => {
  for (const url of ["/nothing", "/frames"]) {
    const socket = connect(path.port, "127.0.0.1");
    await once(socket, "connect");
    socket.write(`GET ${url} HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: y\r\n\r\n`);
    socket.resetAndDestroy();
    await once(socket, "close");
  }
  expect((await call(path.port)).status).toBe(200);
});
