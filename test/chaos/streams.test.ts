// Resumable streams outlive a control plane, an agent and a model server that are killed at a random token: the client gets the text of
// an unbroken run, and pays once. 1,000 broken streams at night.
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import { longer } from "../fakes/nightly.ts";
import { readResumed, textOf } from "../fakes/resuming-client.ts";

const tokens = 60;
const rounds = longer(3, 21);
const streams = longer(12, 50);
/** USD per million tokens. */
const pricing = { input: 10, cached_input: 10, output: 20 };
const prompt = "tell me more";
/** JSON in pieces that end within escapes, strings and numbers; `#` is the number of the token. */
const token = '"k#\\"é\\u00fc": [#, ';

/** By request: the token after which the engine breaks its first attempt. */
const breaks = new Map<string, number>();
let breakNext: (() => number) | undefined;

let world: ExternalStack;
beforeAll(async () => {
  world = await startExternalStack({
    replicas: 2,
    maxBatchSize: 256,
    pricing,
    engine: {
      tokens,
      token,
      tokenMs: 25,
      script: ({ id }) => {
        const [request = "", attempt] = id.split(".");
        if (breakNext && attempt === "1") breaks.set(request, breakNext());
        const breakAfter = attempt === "1" ? breaks.get(request) : undefined;
        return breakAfter === undefined ? {} : { breakAfter };
      },
    },
  });
});
afterAll(() => world?.stop());

const formats = [
  (model: string) => ["/v1/chat/completions", { model, messages: [{ role: "user", content: prompt }] }] as const,
  (model: string) =>
    [
      "/v1/chat/completions",
      { model, messages: [{ role: "user", content: prompt }], response_format: { type: "json_object" } },
    ] as const,
  (model: string) => ["/v1/responses", { model, input: prompt }] as const,
  (model: string) =>
    ["/v1/messages", { model, messages: [{ role: "user", content: prompt }], max_tokens: tokens }] as const,
  (model: string) => ["/v1/completions", { model, prompt }] as const,
];

const expected = Array.from({ length: tokens }, (_, i) => token.replaceAll("#", String(i))).join("");

/** A small generator, so that a failure can be repeated. Source: mulberry32. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Begins the streams of a round; resolves the second promise when each has sent some events. */
function begin(random: () => number) {
  const { stack, model } = world;
  let waiting = streams;
  const underWay = Promise.withResolvers<void>();
  const all = Array.from({ length: streams }, async (_, i) => {
    const [path, body] = (formats[i % formats.length] as (typeof formats)[number])(model);
    const urls = stack.controlPlanes.map(({ url }) => url);
    const from = Math.floor(2 + random() * (tokens / 2));
    let seen = 0;
    const ended = await readResumed({
      urls: i % 2 === 0 ? urls : urls.toReversed(),
      path,
      headers: { authorization: `Bearer ${stack.apiKey}` },
      body: { ...body, stream: true, temperature: 0 },
      onEvent: () => {
        seen += 1;
        if (seen === from && --waiting === 0) underWay.resolve();
      },
    });
    return { ...ended, path };
  });
  return { all: Promise.all(all), underWay: underWay.promise };
}

const kinds = ["control plane", "agent", "model server"] as const;

/** Model servers break by themselves: see `breaks`. */
async function kill(kind: (typeof kinds)[number], round: number): Promise<void> {
  const { stack } = world;
  const killed = kind === "agent" ? stack.agents[0] : stack.controlPlanes[round % 2];
  if (kind === "model server" || !killed) return;
  await killed.kill9();
  killed.start();
}

it("gives each client the text of an unbroken run, and bills it once", async () => {
  const { stack, model } = world;
  const random = randomOf(22);
  const requests = new Set<string>();
  let reconnects = 0;
  for (let round = 0; round < rounds; round++) {
    const kind = kinds[round % kinds.length] as (typeof kinds)[number];
    breakNext = kind === "model server" ? () => 1 + Math.floor(random() * (tokens - 2)) : undefined;
    const { all, underWay } = begin(random);
    await underWay;
    await kill(kind, round);
    const ended = await all;
    for (const { events, path, requestId } of ended) {
      expect(textOf(events), `${path} after the end of a ${kind}`).toBe(expected);
      requests.add(requestId);
    }
    reconnects += ended.filter((one) => one.reconnects > 0).length;
    // The next round needs both control planes and the instance.
    for (const at of stack.controlPlanes)
      await vi.waitFor(
        async () => {
          const { status } = await stack.call("POST", "/v1/completions", { model, prompt, max_tokens: 1 }, {}, at);
          expect(status).toBe(200);
        },
        { timeout: 60_000, interval: 200 },
      );
  }
  expect(requests.size).toBe(rounds * streams);

  const words = prompt.split(" ").length;
  const price = words * pricing.input * 1_000 + tokens * pricing.output * 1_000;
  await vi.waitFor(
    async () => {
      const rows = await query<{ request_id: string; paid: string }>(
        stack.databaseUrl,
        `select request_id, sum(amount)::text as paid from ledger_entry
          where book = 'customer_spent' and request_id = any($1) group by request_id`,
        [[...requests]],
      );
      const paid = new Map(rows.map((row) => [row.request_id, Number(row.paid)]));
      for (const id of requests) expect([id, paid.get(id)]).toEqual([id, price]);
    },
    { timeout: 90_000, interval: 500 },
  );
  expect(await ledgerFacts(stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
  const [repeated] = await query<{ n: number }>(
    stack.databaseUrl,
    "select count(distinct request_id)::int as n from usage where request_id = any($1) and attempt > 1",
    [[...requests]],
  );
  process.stdout.write(`${requests.size} streams, ${repeated?.n} run again, ${reconnects} continued by their client\n`);
  expect(repeated?.n).toBeGreaterThan(requests.size / 2);
});
