// P26: what an account or a key may do ends within two seconds on every control plane, while requests pour in at all of them.
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import type { ControlPlane } from "../fakes/processes.ts";

const limitMs = 2_000;
const workersEach = 8;

let world: ExternalStack;
beforeAll(async () => {
  world = await startExternalStack({ isDatabaseOnDisk: true, replicas: 2, engine: { tokens: 4 } });
});
afterAll(() => world?.stop());

interface Sent {
  readonly at: ControlPlane;
  readonly sentMs: number;
  readonly status: number;
}

/** Requests without a pause at every control plane, until told to stop. */
function pour(credential: string) {
  const sent: Sent[] = [];
  let isOver = false;
  const work = async (at: ControlPlane) => {
    while (!isOver) {
      const sentMs = performance.now();
      const answer = await fetch(`${at.url}/v1/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${credential}`, "content-type": "application/json" },
        body: JSON.stringify({ model: world.model, prompt: "hello", max_tokens: 2 }),
        signal: AbortSignal.timeout(30_000),
      });
      await answer.arrayBuffer();
      sent.push({ at, sentMs, status: answer.status });
      // A refusal costs nothing to make: without a pause it would crowd out what it is measured against.
      if (answer.status !== 200) await wait(20);
    }
  };
  const done = Promise.all(
    world.stack.controlPlanes.flatMap((at) => Array.from({ length: workersEach }, () => work(at))),
  );
  return {
    async stop(): Promise<readonly Sent[]> {
      isOver = true;
      await done;
      return sent;
    },
  };
}

async function newAccount(name: string): Promise<{ uid: string; api_key: string }> {
  const body = { email: `${name}@example.com`, display_name: name, credit_usd: 10 };
  const made = await world.stack.call("POST", "/v1/admin/accounts", body);
  expect(made.status, JSON.stringify(made.body)).toBeLessThan(300);
  return made.body;
}

/** `end` is asked of the first control plane while both are under load. */
async function expectEndOf(credential: string, end: () => Promise<{ status: number; body: unknown }>): Promise<void> {
  const load = pour(credential);
  await wait(1_500);
  const ended = await end();
  const endedMs = performance.now();
  expect(ended.status, JSON.stringify(ended.body)).toBeLessThan(300);
  await wait(limitMs + 1_500);
  const sent = await load.stop();
  for (const at of world.stack.controlPlanes) {
    const here = sent.filter((one) => one.at === at);
    expect(here.filter((one) => one.sentMs < endedMs - 100 && one.status === 200).length).toBeGreaterThan(10);
    const later = here.filter((one) => one.sentMs > endedMs + limitMs);
    expect(later.length).toBeGreaterThan(10);
    expect(later.filter((one) => one.status === 200)).toEqual([]);
    expect([...new Set(later.map((one) => one.status))].every((status) => [401, 402, 403].includes(status))).toBe(true);
  }
}

it("applies a suspension and its end at every control plane within two seconds", async () => {
  const { uid, api_key } = await newAccount("suspended");
  const body = { reason: "admin", note: "test" };
  await expectEndOf(api_key, () => world.stack.call("POST", `/v1/admin/accounts/${uid}/suspend`, body));
  const lifted = await world.stack.call("POST", `/v1/admin/accounts/${uid}/lift`, body);
  expect(lifted.status, JSON.stringify(lifted.body)).toBeLessThan(300);
  await wait(limitMs);
  for (const at of world.stack.controlPlanes) {
    const answer = await fetch(`${at.url}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${api_key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: world.model, prompt: "hello", max_tokens: 2 }),
    });
    expect(answer.status).toBe(200);
  }
});

it("revokes a token with the key that signed it", async () => {
  const { api_key } = await newAccount("signer");
  const own = { authorization: `Bearer ${api_key}` };
  const key = await world.stack.call("POST", "/v1/api-tokens", { name: "signs" }, own);
  expect(key.status, JSON.stringify(key.body)).toBe(200);
  const request = { api_key_name: "signs", expires_delta: 600 };
  const minted = await world.stack.call("POST", "/v1/scoped-jwt", request, own);
  expect(minted.status, JSON.stringify(minted.body)).toBe(200);
  const end = () => world.stack.call("DELETE", `/v1/api-tokens/${key.body.token_id}`, undefined, own);
  await expectEndOf(minted.body.token, end);
});
