// P18, scaled: ten times what the engine can take is shed, and those who are let in notice nothing.
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, expect, it } from "vitest";
import { call } from "../../fakes/data-path.ts";

const batch = 8;
const calmMs = 3_000;
const stormMs = 6_000;
/** 8 answers of half a second at a time are 16 a second. */
const [tokens, tokenMs] = [10, 50];
/** 40 of them run or wait; the other 36, each asking four times a second, make it ten times as many as can be served. */
const stormers = 5 * batch + 36;
const comeBackMs = 250;
const fakes = join(import.meta.dirname, "../../fakes");

interface Figures {
  readonly lagP99Ms: number;
  readonly rssMiB: number;
  readonly runs: readonly number[];
}

// Neither shares the event loop of the callers: what is measured must be theirs.
let engine: ChildProcess;
let engineUrl: string;
let child: ChildProcess;
let port: number;

beforeEach(async () => {
  const script = [
    join(fakes, "engine-process.ts"),
    "--tokens",
    String(tokens),
    "--token-ms",
    String(tokenMs),
    "--stdin",
  ];
  engine = spawn(process.execPath, script, { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = (await once(createInterface({ input: engine.stdout as NodeJS.ReadableStream }), "line")) as [string];
  engineUrl = /http:\/\/\S+/.exec(line)?.[0] ?? "";
  child = fork(join(fakes, "ingress-process.ts"), [engineUrl, String(batch)]);
  [{ port }] = (await once(child, "message")) as [{ port: number }];
});
afterEach(async () => {
  child.disconnect();
  await once(child, "exit");
  const gone = once(engine, "exit");
  engine.stdin?.end();
  await gone;
});

const figures = async (): Promise<Figures> => {
  child.send("measure");
  return ((await once(child, "message")) as [Figures])[0];
};

/** So many callers, each asking again at once after an answer. */
async function offer(callers: number, forMs: number): Promise<{ served: number; busy: number; other: number }> {
  const seen = { served: 0, busy: 0, other: 0 };
  const until = performance.now() + forMs;
  const one = async () => {
    while (performance.now() < until) {
      const { status, refusal, headers } = await call(port);
      if (status === 200) seen.served += 1;
      else if (status === 429 && refusal === "busy" && Number(headers["retry-after"]) >= 1) seen.busy += 1;
      else seen.other += 1;
      // A client that comes back sooner than it was told.
      if (status === 429) await new Promise((resolve) => setTimeout(resolve, comeBackMs));
    }
  };
  await Promise.all(Array.from({ length: callers }, one));
  return seen;
}

const p95 = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.95)] as number;

it("sheds ten times its capacity with 429 and Retry-After, and serves whom it lets in as it does in calm", async () => {
  await offer(batch, 1_000);
  await figures();
  const calmSeen = await offer(batch, calmMs);
  const calm = await figures();
  const stormSeen = await offer(stormers, stormMs);
  const storm = await figures();
  process.stdout.write(
    `calm ${JSON.stringify(calmSeen)}, storm ${JSON.stringify(stormSeen)}; p95 ${p95(calm.runs)} -> ${p95(storm.runs)} ms, ` +
      `memory +${(storm.rssMiB - calm.rssMiB).toFixed(0)} MiB, event loop lag p99 ${storm.lagP99Ms.toFixed(0)} ms\n`,
  );
  expect(stormSeen.other).toBe(0);
  expect(stormSeen.busy).toBeGreaterThan(5 * stormSeen.served);
  // The engine is kept as busy as before.
  expect(storm.runs.length / stormMs).toBeGreaterThan((0.8 * calm.runs.length) / calmMs);
  const { maxRunning } = (await (await fetch(`${engineUrl}/requests`)).json()) as { maxRunning: number };
  expect(maxRunning).toBe(batch);
  expect(p95(storm.runs) / p95(calm.runs)).toBeLessThanOrEqual(1.5);
  expect(storm.rssMiB - calm.rssMiB).toBeLessThan(50);
  expect(storm.lagP99Ms).toBeLessThan(100);
});
