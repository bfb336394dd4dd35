// Paid requests with an `Idempotency-Key` at two control planes over one PostgreSQL, and after a crash in the middle.
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { createIdempotency, type Idempotency } from "../../../control-plane/accounts/idempotency.ts";
import { createIdempotencyStore } from "../../../control-plane/store/accounts/idempotency-store.ts";
import { wholeChat } from "../../fakes/agent-data-plane.ts";
import { chat, type Edge, startEdge } from "../../fakes/edge.ts";
import { ada, apiKey } from "../../fakes/ports.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld, patience } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

/** `change`: what is between an edge and the database. */
async function start(options: { lockMs?: number; maxHourlyBytes?: number } = {}, change = (all: Idempotency) => all) {
  const world = await openWorld(postgres);
  const account = await world.account(0n);
  const dataKeys = createDataKeys({ store: world.accountStore, secrets: world.secrets });
  const edges = await Promise.all(
    [0, 1].map(async () => {
      const kept = createIdempotency({ store: createIdempotencyStore(world.db), dataKeys, ...options });
      const edge = await startEdge({ change: (deps) => ({ ...deps, idempotency: change(kept) }) });
      edge.authenticator.callers.set(apiKey, { ...ada, account });
      return edge;
    }),
  );
  const [one, two] = edges as [Edge, Edge];
  const ask = (edge: Edge, key: string, body: unknown = chat()) =>
    edge.post("/v1/chat/completions", body, { headers: { "idempotency-key": key } });
  const asked = () => edges.reduce((sum, edge) => sum + edge.agent.asked.length, 0);
  return { world, one, two, ask, asked, close: () => Promise.all(edges.map((edge) => edge.close())) };
}

it("of many concurrent ones at two control planes one runs and is paid, and the others get its response", async () => {
  const { one, two, ask, asked, close } = await start();
  const all = await Promise.all(Array.from({ length: 16 }, (_, i) => ask(i % 2 === 0 ? one : two, "k1")));
  const statuses = all.map(({ status }) => status);
  expect(statuses).toContain(200);
  expect(statuses.every((status) => status === 200 || status === 409)).toBe(true);
  for (const edge of [one, two]) {
    const again = await ask(edge, "k1");
    expect([again.status, await again.text()]).toEqual([200, wholeChat]);
  }
  expect(asked()).toBe(1);
  await close();
});

it("in progress reserves its key for as long as it runs, at both", async () => {
  const { world, one, two, ask, close } = await start({ lockMs: 20_000 });
  one.agent.script({ kind: "hang" });
  const running = ask(one, "k1").catch(() => undefined);
  await vi.waitFor(() => expect(one.agent.asked).toHaveLength(1), patience);
  const lock = async () =>
    (await world.pool.query("select locked_until from idempotency")).rows[0].locked_until as Date;
  const first = await lock();
  await vi.waitFor(async () => expect((await lock()).getTime()).toBeGreaterThan(first.getTime()), patience);
  const second = await ask(two, "k1");
  expect([second.status, (await second.json()).error.code]).toEqual([409, "idempotency_key_in_use"]);
  await close();
  await running;
});

it("of a dead control plane is never run again: 409, with an unknown outcome", async () => {
  // Neither an end nor a sign of life comes through any more.
  const dead = new Promise<never>(() => {});
  let isDead = true;
  const { world, one, two, ask, asked, close } = await start({ lockMs: 100_000 }, (kept) => ({
    async begin(request) {
      const begun = await kept.begin(request);
      const end = () => dead;
      return isDead && "claim" in begun ? { claim: { finish: end, spend: end, abandon: end } } : begun;
    },
  }));
  const first = ask(one, "k1").catch(() => undefined);
  await vi.waitFor(() => expect(asked()).toBe(1), patience);
  isDead = false;
  await world.pool.query("update idempotency set locked_until = now() - interval '1 second'");
  const again = await ask(two, "k1");
  expect([again.status, again.headers.get("x-should-retry")]).toEqual([409, "false"]);
  expect(await again.json()).toMatchObject({ error: { code: "answer_lost" } });
  expect((await ask(two, "k1", chat({ n: 2 }))).status).toBe(422);
  expect(asked()).toBe(1);
  // After a day the key is as good as new.
  await world.pool.query("update idempotency set expires_at = now() - interval '1 second'");
  expect((await ask(two, "k1")).status).toBe(200);
  await close();
  await first;
});

it("above the hourly limit of an account is served as usual, but not replayed", async () => {
  const { one, ask, asked, close } = await start({ maxHourlyBytes: wholeChat.length });
  expect((await ask(one, "k1")).status).toBe(200);
  expect(await (await ask(one, "k2")).text()).toBe(wholeChat);
  const again = await ask(one, "k2");
  expect([again.status, (await again.json()).error.code]).toEqual([409, "already_completed"]);
  expect(await (await ask(one, "k1")).text()).toBe(wholeChat);
  expect(asked()).toBe(2);
  await close();
});

it("stores binary bytes unchanged, sealed", async () => {
  const { world } = await start().then(async (all) => {
    await all.close();
    return all;
  });
  const dataKeys = createDataKeys({ store: world.accountStore, secrets: world.secrets });
  const kept = createIdempotency({ store: createIdempotencyStore(world.db), dataKeys });
  const account = await world.account(0n);
  const request = { account, route: "POST /v1/x", key: "k", bodyHash: Buffer.from("h"), isPaid: true };
  const answer = { status: 200, headers: ["content-type", "audio/wav"], body: Buffer.from([0, 255, 128, 10]) };
  const begun = await kept.begin(request);
  if ("kept" in begun) throw new Error("it was answered before");
  await begun.claim.finish(answer);
  expect(await kept.begin(request)).toEqual({ kept: answer });
});
