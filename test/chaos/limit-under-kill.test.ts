// P2: who may spend one cent (an account; a scoped token in its four spellings) asks for five cents' worth at once, over two
// control planes, one of which is killed in the middle. Clocks of hosts and slices run five times faster, so that a dead replica's share comes back here.
import pg from "pg";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import type { ControlPlane } from "../fakes/processes.ts";
import { hasRedis, startRedis, type TestRedis, withoutRedis } from "../fakes/redis.ts";

const limit = 10_000_000;
const tokens = 64;
/** 64 of them cost USD 0.0001. */
const tokenPrice = 1_562.5;
const requests = 500;
const clocks = { STOKER_HOST_CLOCKS: "0.2", STOKER_SLICE_CLOCKS: "0.2" };
const patient = { timeout: 120_000, interval: 100 };

withoutRedis("a limit under kill with control planes that share counts over Redis");
let world: ExternalStack;
let redis: TestRedis | undefined;
beforeAll(async () => {
  redis = hasRedis ? await startRedis() : undefined;
  world = await startExternalStack({
    isDatabaseOnDisk: true,
    replicas: 2,
    controlPlaneEnv: { ...clocks, STOKER_RATE_LIMIT: "1000", ...(redis ? { REDIS_URL: redis.url } : {}) },
    engine: { tokens, tokenMs: 4 },
    pricing: { input: 0, cached_input: 0, output: 1.5625 },
  });
});
afterAll(async () => {
  await world?.stop();
  await redis?.stop();
});

/** Another status comes with the answer that explains it. */
type Outcome = 200 | 402 | "cut" | string;

async function ask(at: ControlPlane, credential: string): Promise<Outcome> {
  try {
    const answer = await fetch(`${at.url}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${credential}`, "content-type": "application/json" },
      body: JSON.stringify({ model: world.model, prompt: "hello", max_tokens: tokens }),
      signal: AbortSignal.timeout(60_000),
    });
    const text = await answer.text();
    return answer.status === 200 || answer.status === 402 ? answer.status : `${answer.status} ${text}`;
  } catch {
    return "cut";
  }
}

/** Every budget, every 10 ms, until told to stop: samples taken, and the worst of `spent + leased - limit`. */
function watchBudgets() {
  const client = new pg.Client({ connectionString: world.stack.databaseUrl });
  // Where the test fails first, its database goes before this client does.
  client.on("error", () => {});
  const seen = { samples: 0, worst: Number.NEGATIVE_INFINITY, maxLeased: 0 };
  let isOver = false;
  const run = (async () => {
    await client.connect();
    while (!isOver) {
      const { rows } = await client.query<{ over: number; leased: number }>(
        "select max(spent + leased - lim)::float8 as over, max(leased)::float8 as leased from budget where lim is not null",
      );
      seen.samples += 1;
      seen.worst = Math.max(seen.worst, rows[0]?.over ?? Number.NEGATIVE_INFINITY);
      seen.maxLeased = Math.max(seen.maxLeased, rows[0]?.leased ?? 0);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await client.end();
  })();
  run.catch(() => {});
  return async () => {
    isOver = true;
    await run;
    return seen;
  };
}

interface Spender {
  /** Of one limit: whoever asks with any of them spends the same cent. */
  readonly credentials: readonly string[];
  readonly budgetId: string;
}

/** All at once, each over both control planes, of which one is killed in the middle. */
async function spend(spenders: readonly Spender[]): Promise<void> {
  const { stack, engine } = world;
  const [staying, dying] = stack.controlPlanes as [ControlPlane, ControlPlane];
  const stopWatching = watchBudgets();
  const before = engine.log.length;
  const asked: Promise<Outcome>[][] = spenders.map(() => []);
  for (let i = 0; i < requests; i++)
    for (const [n, { credentials }] of spenders.entries())
      asked[n]?.push(ask(i % 2 === 0 ? staying : dying, credentials[i % credentials.length] as string));
  // In the middle: some requests are with the engine, others wait for money, others are on their way.
  await vi.waitFor(() => expect(engine.log.length).toBeGreaterThan(before), { timeout: 60_000, interval: 1 });
  await dying.kill9();
  for (const outcomes of await Promise.all(asked.map((ofOne) => Promise.all(ofOne)))) {
    const count = (outcome: Outcome) => outcomes.filter((one) => one === outcome).length;
    expect(outcomes.filter((one) => ![200, 402, "cut"].includes(one as never))).toEqual([]);
    expect(count(200)).toBeGreaterThan(0);
    if (count("cut") === 0)
      console.warn(
        "NOT PROVEN in this run: the killed control plane had answered everything it was asked before it died.",
      );
    expect(count(402)).toBeGreaterThan(requests / 4);
  }

  // What the dead one had leased is sold in the end: less than one token's price is left.
  const budget = async ({ budgetId }: Spender) => {
    const [row] = await query<{ spent: number; leased: number }>(
      stack.databaseUrl,
      "select spent::float8 as spent, leased::float8 as leased from budget where budget_id = $1",
      [budgetId],
    );
    return row ?? { spent: Number.NaN, leased: Number.NaN };
  };
  await vi.waitFor(async () => {
    // Several at once: one after another, what is left is dozens of turns of a slow machine.
    await Promise.all(
      spenders.flatMap(({ credentials }) => Array.from({ length: 8 }, () => ask(staying, credentials[0] as string))),
    );
    for (const spender of spenders) {
      const { spent, leased } = await budget(spender);
      expect(limit - spent, spender.budgetId).toBeLessThanOrEqual(tokenPrice);
      expect(leased, spender.budgetId).toBe(0);
    }
  }, patient);
  const seen = await stopWatching();
  expect(seen.samples).toBeGreaterThan(10);
  expect(seen.maxLeased).toBeGreaterThan(0);
  expect(seen.worst).toBeLessThanOrEqual(0);
  for (const spender of spenders) {
    expect((await budget(spender)).spent).toBeLessThanOrEqual(limit);
    expect(await ask(staying, spender.credentials[0] as string)).toBe(402);
  }
  expect(await ledgerFacts(stack.databaseUrl)).toMatchObject({ sum: 0, overspent: 0, capturesPerRequest: 1 });
}

async function accountWithOneCent(): Promise<Spender> {
  const made = await world.stack.call("POST", "/v1/admin/accounts", {
    email: "cent@example.com",
    display_name: "cent",
    credit_usd: 0.01,
  });
  expect(made.status, JSON.stringify(made.body)).toBeLessThan(300);
  return { credentials: [made.body.api_key], budgetId: `account/${made.body.uid}` };
}

/** A signature of 32 bytes leaves two bits of its last character unused: four texts verify as one token. */
function spellings(jwt: string): string[] {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const last = alphabet.indexOf(jwt.at(-1) ?? "");
  return [0, 1, 2, 3].map((spare) => jwt.slice(0, -1) + alphabet[(last & ~3) | spare]);
}

async function fourSpellingsOfOneToken(): Promise<Spender> {
  const { stack } = world;
  const minted = await stack.call("POST", "/v1/scoped-jwt", {
    api_key_name: "auto",
    expires_delta: 3_600,
    spending_limit: 0.01,
  });
  expect(minted.status, JSON.stringify(minted.body)).toBe(200);
  const forms = spellings(minted.body.token);
  expect(new Set(forms).size).toBe(4);
  // The budget is made at the token's first use.
  await vi.waitFor(async () => expect(await ask(stack.controlPlane, forms[0] as string)).toBe(200), patient);
  const [budget] = await query<{ budget_id: string; lim: number }>(
    stack.databaseUrl,
    "select budget_id, lim::float8 as lim from budget where scope = 'jwt'",
  );
  expect(budget?.lim).toBe(limit);
  return { credentials: forms, budgetId: budget?.budget_id ?? "" };
}

it("never lets an account or a token with one cent spend more over two control planes, and strands none of it", async () => {
  await spend([await accountWithOneCent(), await fourSpellingsOfOneToken()]);
});
