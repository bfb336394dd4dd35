// PostgreSQL on a file system of its own that is filled to the last byte under requests.
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import { mountSmallDisk, type SmallDisk } from "../fakes/small-disk.ts";

const patient = { timeout: 60_000, interval: 200 };
const minFullMs = 15_000;
const disk = mountSmallDisk(400, "a full disk under PostgreSQL (run the tests as root on Linux)") as SmallDisk;
let world: ExternalStack;
beforeAll(async () => {
  if (disk) world = await startExternalStack({ databaseParent: disk.folder, engine: { tokens: 3 } });
}, 120_000);
afterAll(async () => {
  await world?.stop();
  disk?.unmount();
});

/**
 * Sends requests and management writes, one after the other, while the disk is full. A full disk refuses nothing before the
 * database's log needs its next file, which a slow machine reaches later.
 */
async function callWhileFull() {
  const { stack, model } = world;
  const [inference, management] = [new Set<number>(), new Set<number>()];
  const reasons = new Set<string>();
  const startedMs = performance.now();
  for (let n = 0; performance.now() - startedMs < minFullMs || reasons.size === 0; n += 1) {
    const asked = await stack.call("POST", "/v1/completions", { model, prompt: "hello", max_tokens: 3 });
    inference.add(asked.status);
    const made = await stack.call("POST", "/v1/api-tokens", { name: `${n} ${"x".repeat(100)}` });
    management.add(made.status);
    if (made.status === 503) reasons.add(`${made.body.code}: ${made.body.error}`);
    await wait(20);
  }
  return { inference, management, reasons, fullMs: performance.now() - startedMs };
}

it.runIf(disk)(
  "answers 503 with the reason, bounds its log lines, and settles every record once afterwards",
  async () => {
    const { stack, engine } = world;
    const settled = async () =>
      (await query<{ n: number }>(stack.databaseUrl, "select count(*)::int as n from usage"))[0]?.n;
    await vi.waitFor(async () => expect(await settled()).toBe(engine.log.length), patient);
    const before = stack.controlPlane.log().length;

    disk.fill();
    const { inference, management, reasons, fullMs } = await callWhileFull();
    expect(inference).toContain(200);
    for (const status of inference) expect([200, 503]).toContain(status);
    expect(management).toContain(503);
    for (const status of management) expect([200, 503]).toContain(status);
    expect([...reasons].join()).toContain("store_away: The records cannot be written: the database's disk is full.");
    expect(await settled()).toBeLessThan(engine.log.length);

    const linesOf = new Map<string, number>();
    const since = stack.controlPlane.log().slice(before).split("\n").filter(Boolean);
    for (const { level, msg } of since.map((line) => JSON.parse(line)))
      if (level >= 40) linesOf.set(msg, (linesOf.get(msg) ?? 0) + 1);
    expect([...linesOf.keys()]).toContain("could not settle usage; agents will send it again");
    for (const [kind, lines] of linesOf) expect(lines, kind).toBeLessThanOrEqual(fullMs / 1_000 + 2);

    disk.free();
    // A server that could not write its log has ended; a supervisor starts it again.
    await settled().catch(() => stack.postgres.restart());
    await vi.waitFor(async () => expect(await settled()).toBe(engine.log.length), patient);
    expect(await ledgerFacts(stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
    expect(await query(stack.databaseUrl, "select * from usage_quarantine")).toEqual([]);
  },
  180_000,
);
