// P1: control planes, agent, PostgreSQL and Redis are killed in an order that a seed chooses, under a steady load of known
// token counts. What was answered is billed once and exactly; what was cut is billed for no less than came and no more than
// the engine sent; what was refused costs nothing. One kill of each here; in the nightly run 40.
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query, type UsageRow, usageRows } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import { longer } from "../fakes/nightly.ts";
import type { ControlPlane } from "../fakes/processes.ts";
import { hasRedis, startRedis, type TestRedis, withoutRedis } from "../fakes/redis.ts";
import { seeded } from "../fakes/seed.ts";

const patient = { timeout: 90_000, interval: 100 };
/** Nano-USD of one output token. */
const price = 20_000;
/** One order on every change, so that a failure stays; another one each night. */
const random = seeded(longer<number | undefined>(2_026, undefined));
/** Apart: how often callers ask must not change what is killed. */
const lengths = seeded(random.seed + 1);
let redis: TestRedis | undefined;
let world: ExternalStack;

withoutRedis("usage of every request while Redis is killed beside everything else");
beforeAll(async () => {
  redis = hasRedis ? await startRedis() : undefined;
  world = await startExternalStack({
    isDatabaseOnDisk: true,
    replicas: 2,
    controlPlaneEnv: {
      STOKER_SLICE_CLOCKS: "0.2",
      STOKER_HOST_CLOCKS: "0.2",
      ...(redis ? { REDIS_URL: redis.url } : {}),
    },
    engine: { tokens: 1_000, tokenMs: 2 },
  });
});
afterAll(async () => {
  await world?.stop();
  await redis?.stop();
});

interface Outcome {
  /** Ours; empty where the connection was lost before the headers. */
  readonly id: string;
  readonly kind: "whole" | "cut" | "refused" | "away";
  /** Output tokens that came. */
  readonly tokens: number;
  readonly sentMs: number;
  /** The answer's own words, of one that is not whole. */
  readonly why: string;
}

/** Output tokens that came, in whole frames: a frame that was cut in its middle is not billed. */
function tokensIn(text: string): number {
  const whole = text.slice(0, text.lastIndexOf("\n\n") + 1 || text.length);
  const texts = whole.matchAll(/"text":"((?: tok)*)/g);
  return texts.reduce((sum, [, tokens = ""]) => sum + tokens.length / " tok".length, 0);
}

async function ask(at: ControlPlane, maxTokens: number, stream: boolean): Promise<Outcome> {
  let id = "";
  let text = "";
  const sentMs = Math.round(performance.now());
  const told = (kind: Outcome["kind"], tokens: number, why: string): Outcome => ({ id, kind, tokens, sentMs, why });
  try {
    const answer = await fetch(`${at.url}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${world.stack.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: world.model, prompt: "hello", max_tokens: maxTokens, stream }),
      signal: AbortSignal.timeout(60_000),
    });
    id = answer.headers.get("x-stoker-request-id") ?? "";
    if (answer.status !== 200) {
      return told("refused", 0, `${answer.status} ${await answer.text()}`);
    }
    for await (const bytes of answer.body as ReadableStream<Uint8Array>) text += Buffer.from(bytes).toString("latin1");
  } catch (error) {
    return told(id === "" ? "away" : "cut", tokensIn(text), String(error));
  }
  const isWhole = !stream || text.trimEnd().endsWith("data: [DONE]");
  return told(isWhole ? "whole" : "cut", tokensIn(text), isWhole ? "" : text.slice(-300));
}

/** Callers at each control plane. */
const callersEach = longer(3, 6);

/** Callers at both control planes: streams and whole answers of 1 to 60 tokens, until stopped. */
function load() {
  const outcomes: Outcome[] = [];
  let isOver = false;
  const call = async (at: ControlPlane, caller: number) => {
    for (let n = 0; !isOver; n++) {
      const outcome = await ask(at, lengths.between(1, 60), (n + caller) % 2 === 0);
      outcomes.push(outcome);
      // What is away refuses at once: its callers wait as clients do.
      if (outcome.kind !== "whole") await pause(100);
    }
  };
  const callers = world.stack.controlPlanes.flatMap((at) => Array.from({ length: callersEach }, (_, i) => call(at, i)));
  const answered = async (more: number, after: string) => {
    const whole = () => outcomes.filter(({ kind }) => kind === "whole").length;
    const from = whole();
    const last = () => JSON.stringify(outcomes.slice(-6));
    await vi.waitFor(() => expect(whole(), `${after}: ${last()}`).toBeGreaterThan(from + more), patient);
  };
  const stop = async () => {
    isOver = true;
    await Promise.all(callers);
    return outcomes;
  };
  return { answered, stop };
}

/** Each is killed, and is back when this resolves. */
function victims(): readonly {
  readonly name: string;
  readonly kill: () => Promise<void>;
  readonly start: () => unknown;
}[] {
  const { stack } = world;
  const [agent] = stack.agents;
  return [
    ...stack.controlPlanes.map((one, i) => ({
      name: `control plane ${i + 1}`,
      kill: one.kill9,
      start: () => one.start(),
    })),
    { name: "agent", kill: async () => agent?.kill9(), start: () => agent?.start() },
    { name: "PostgreSQL", kill: stack.postgres.kill9, start: () => stack.postgres.restart() },
    ...(redis ? [{ name: "Redis", kill: redis.kill9, start: () => redis?.start() }] : []),
  ];
}

it(
  `loses no billed token and bills none twice, whatever is killed (seed ${random.seed})`,
  async () => {
    const { stack, engine } = world;
    const { answered, stop } = load();
    await answered(30, "at first");
    const waiting = [...victims()];
    const kills: string[] = [];
    const wanted = longer(waiting.length, 40);
    while (kills.length < wanted) {
      // Each of them once before any of them again.
      const at = random.between(0, waiting.length - 1);
      const [victim] = waiting.splice(at, 1);
      if (waiting.length === 0) waiting.push(...victims());
      if (!victim) continue;
      await pause(random.between(0, 300));
      await victim.kill();
      kills.push(victim.name);
      await pause(random.between(0, longer(800, 4_000)));
      await victim.start();
      await answered(longer(40, 60), kills.join(", "));
    }
    const outcomes = await stop();

    const sent = new Map(engine.log.map((entry) => [entry.id, entry.sentTokens]));
    const billed = async () => {
      const rows = new Map<string, UsageRow>();
      for (const row of await usageRows(stack.databaseUrl)) if (!row.voided) rows.set(row.request_id, row);
      return rows;
    };
    const isWrong = ({ kind, tokens }: Outcome, row: UsageRow | undefined): boolean => {
      if (kind === "whole") return row?.output_tokens !== tokens || row.charge !== tokens * price;
      if (tokens > 0) return row === undefined || row.output_tokens < tokens;
      return false;
    };
    await vi.waitFor(async () => {
      const rows = await billed();
      const wrong = outcomes.filter((outcome) => outcome.id !== "" && isWrong(outcome, rows.get(outcome.id)));
      const facts = wrong.map((outcome) => JSON.stringify({ outcome, row: rows.get(outcome.id) ?? null }));
      expect(facts, kills.join(", ")).toEqual([]);
    }, patient);

    const rows = [...(await billed()).values()];
    const above = rows.filter((row) => row.output_tokens > (sent.get(`${row.request_id}.${row.attempt}`) ?? 0));
    expect(above, kills.join(", ")).toEqual([]);
    const refused = new Set(outcomes.flatMap(({ kind, id }) => (kind === "refused" && id !== "" ? [id] : [])));
    expect(rows.filter((row) => refused.has(row.request_id) && row.charge > 0)).toEqual([]);
    expect(await ledgerFacts(stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
    // I5: what dead replicas had leased is given back, and what is leased is what open leases hold.
    await vi.waitFor(async () => {
      const [held] = await query<{ budgets: string; leases: string; stale: number }>(
        stack.databaseUrl,
        `select (select coalesce(sum(leased), 0) from budget)::text as budgets,
              (select coalesce(sum(granted - settled), 0) from lease where closed_at is null)::text as leases,
              (select count(*)::int from lease where closed_at is null and expires_at < now()) as stale`,
      );
      expect(held).toEqual({ budgets: held?.leases, leases: held?.leases, stale: 0 });
    }, patient);
    const count = (of: Outcome["kind"]) => outcomes.filter(({ kind }) => kind === of).length;
    process.stdout.write(
      `seed ${random.seed}: ${outcomes.length} requests, ${count("cut")} cut, ${count("refused")} refused; killed: ${kills.join(", ")}\n`,
    );
  },
  longer(240_000, 1_800_000),
);
