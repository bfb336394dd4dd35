// Two accounts at one engine through the whole data path: what each gets, and how long the lighter one waits.

import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type RequestId, randomId } from "../../../proto/ids.ts";
import type { Ticket } from "../../../proto/ticket.ts";
import { call, type DataPath, startDataPath } from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { promptTokensOf } from "../../fakes/engine-answer.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";

const batch = 8;
const words = { heavy: 400, light: 20 } as const;
type Account = keyof typeof words;

let engine: FakeEngine;
let path: DataPath;
let isOver: boolean;
let served: number;

beforeEach(async () => {
  isOver = false;
  served = 0;
  engine = await startFakeEngine({
    usage: "finish",
    // Lengths that differ, as answers do: otherwise every place would become free at the same moment.
    script: ({ body }) => ({
      firstByteMs: promptTokensOf(body) / 20,
      tokens: 14 + ((served++ * 5) % 13),
      tokenMs: 8,
    }),
  });
  path = await startDataPath(engine.origin, { limits: { queueLimit: 300 } });
});
afterEach(async () => {
  isOver = true;
  await path.close();
  await engine.close();
});

const ask = (account: Account, requestId = randomId(24)) =>
  call(path.port, {
    ticket: {
      requestId,
      account,
      inputTokensEstimate: words[account],
      inputTokensBound: 5 * words[account],
      maxTokens: 30,
    },
    body: { max_tokens: 30, messages: [{ role: "user", content: "word ".repeat(words[account]) }] },
  });

/** Keeps `outstanding` requests of an account running or waiting until the test is over. */
const offer = (account: Account, outstanding: number) =>
  Array.from({ length: outstanding }, async () => {
    while (!isOver) expect((await ask(account)).status).toBe(200);
  });

/** The records since `after`, of requests that were admitted in that time. */
async function recordsOf(account: Account, after = 0) {
  const records = await pendingRecords(path.spool, 100_000);
  return records.filter((record) => {
    const ticket = JSON.parse(record.ticket ?? "") as Ticket;
    return ticket.account === account && ticket.admittedAtMs >= after;
  });
}

const p95 = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.95)] as number;

it("gives each 50 +- 10 % of the tokens while both wait, though one offers ten times the load with long prompts", async () => {
  // 40 x 420 tokens against 40 x 40: ten times the tokens, and both always have somebody waiting.
  const loads = [...offer("heavy", 40), ...offer("light", 40)];
  await expect.poll(() => engine.log.length, { timeout: 20_000 }).toBeGreaterThan(40);
  const tokensSoFar = async (account: Account) =>
    (await recordsOf(account)).reduce((sum, r) => sum + Number(r.inputTokens) + Number(r.outputTokens), 0);
  const before = { heavy: await tokensSoFar("heavy"), light: await tokensSoFar("light") };
  // Requests that run at both ends are counted whole or not at all: few of many.
  const goal = engine.log.length + 440;
  await expect.poll(() => engine.log.length, { timeout: 90_000, interval: 20 }).toBeGreaterThan(goal);
  const heavy = (await tokensSoFar("heavy")) - before.heavy;
  const light = (await tokensSoFar("light")) - before.light;
  const share = light / (heavy + light);
  expect(share).toBeGreaterThan(0.4);
  expect(share).toBeLessThan(0.6);
  expect(engine.maxRunning).toBe(batch);
  isOver = true;
  await Promise.all(loads);
});

/**
 * The light account's own load: bursts of more than the batch, each after the one before has ended. Returns the 95th percentile of
 * a request's wait, counted in requests that the engine started in the meantime: a busy machine does not change it.
 */
async function bursts(): Promise<number> {
  const waits: number[] = [];
  for (let burst = 0; burst < 6; burst++) {
    const before = engine.log.length;
    const requests = Array.from({ length: batch + 4 }, () => randomId<RequestId>(24));
    await Promise.all(requests.map((request) => ask("light", request)));
    for (const request of requests) {
      const start = engine.log.findIndex(({ id }) => id.startsWith(request));
      expect(start).toBeGreaterThanOrEqual(before);
      waits.push(start - before);
    }
  }
  return p95(waits);
}

it("keeps the light one's p95 wait within twice its wait alone", async () => {
  const alone = await bursts();
  const load = offer("heavy", 60);
  // One place is kept for the light one, which asked within the last minute.
  await expect.poll(() => engine.running, { timeout: 20_000 }).toBe(batch - 1);
  const beside = await bursts();
  isOver = true;
  await Promise.all(load);
  process.stdout.write(`light's p95 wait: ${alone} starts alone, ${beside} beside the heavy one\n`);
  expect(alone).toBe(batch + 3);
  expect(beside).toBeLessThanOrEqual(2 * alone);
});

it("gives one account alone the whole engine, and the rest of it to whoever wants more than a light one takes", async () => {
  const load = offer("heavy", 40);
  await expect.poll(() => engine.running, { timeout: 20_000 }).toBe(batch);
  const light = (async () => {
    while (!isOver) await ask("light");
  })();
  let idle = 0;
  for (let looks = 0; looks < 100; looks++) {
    await sleep(10);
    // Between the end of one and the start of the next the engine itself is a place short for a moment.
    if (engine.running < batch - 2) idle += 1;
  }
  expect(idle).toBeLessThan(10);
  isOver = true;
  await Promise.all([...load, light]);
});

it("does not shut the light one out of a queue that the heavy one keeps full", async () => {
  await path.close();
  path = await startDataPath(engine.origin, { limits: { queueLimit: 32 } });
  const asked = Array.from({ length: 60 }, () => ask("heavy"));
  await expect.poll(() => path.ingress.stats("instance00000001" as never).waiting, { timeout: 20_000 }).toBe(32);
  const replies = await Promise.all(Array.from({ length: 10 }, () => ask("light")));
  expect(replies.map((reply) => reply.status)).toEqual(replies.map(() => 200));
  const turnedAway = (await Promise.all(asked)).filter((reply) => reply.status === 429);
  expect(turnedAway.length).toBeGreaterThanOrEqual(30);
  expect(turnedAway.every((reply) => Number(reply.headers["retry-after"]) >= 1)).toBe(true);
});
