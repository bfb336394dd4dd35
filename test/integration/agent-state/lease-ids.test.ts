// The lease ids that the database keeps count of, against a scan of its tables by another connection.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it, onTestFinished } from "vitest";
import { openDatabase } from "../../../agent/state/database.ts";
import type { End, Write } from "../../../agent/state/state-messages.ts";

const limits = { maxAgeMs: 48 * 3_600_000, maxBytes: 20_000 };

/** Numerical Recipes' generator: the same history for each seed. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function scan(path: string): string[] {
  const db = new DatabaseSync(path, { readOnly: true });
  const rows = db.prepare("SELECT lease_ids FROM starts UNION SELECT lease_ids FROM records").all();
  db.close();
  return [...new Set(rows.flatMap((row) => String(row["lease_ids"]).split(",").filter(Boolean)))].sort();
}

it.each(Array.from({ length: 6 }, (_, seed) => seed))("are those of a scan after every step of history %i", (seed) => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-leases-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "state.db");
  const random = randomFrom(seed);
  let nowMs = 1_000_000;
  let db = openDatabase(path, () => nowMs, limits);
  onTestFinished(() => db.close());
  /** In flight, with their lease ids. */
  const running = new Map<string, string>();
  let requests = 0;
  const leases = () => Array.from({ length: random(3) }, () => `lease${random(6)}`).join(",");
  const start = (): Write => {
    const requestId = `r${++requests}`;
    running.set(requestId, leases());
    return ["start", requestId, 1, running.get(requestId) as string, "{}"];
  };
  const end = (requestId: string | undefined): End => {
    const leaseIds = (requestId && running.get(requestId)) ?? leases();
    if (requestId) running.delete(requestId);
    const hadStart = requestId !== undefined;
    return { requestId: requestId ?? `r${++requests}`, attempt: 1, leaseIds, record: '{"pad":"x"}', hadStart };
  };
  const someRunning = () => [...running.keys()][random(running.size + 1)];
  const steps: (() => void)[] = [
    () => db.write([start(), start()], [], false),
    () => db.write([], [end(someRunning()), end(undefined)], true),
    () => db.write([start()], [end(someRunning())], true),
    () => {
      const rows = db.pending(20).filter(() => random(2) === 0);
      db.write([["acknowledge", rows.map((row) => row.spoolId)]], [], false);
    },
    () => void db.resend(`resend ${random(4)}`),
    () => db.moveKept(),
    () => {
      nowMs += random(2) * 49 * 3_600_000;
    },
    () => {
      const before = new Map(running);
      const broken = function* () {
        yield end(someRunning());
        throw new Error("broken batch");
      };
      const acknowledged = db.pending(5).map((row) => row.spoolId);
      expect(() => db.write([start(), ["acknowledge", acknowledged]], broken(), true)).toThrow("broken batch");
      running.clear();
      for (const [id, leaseIds] of before) running.set(id, leaseIds);
    },
    () => {
      db.close();
      db = openDatabase(path, () => nowMs, limits);
      if (random(2) === 0) return;
      db.loseStarts();
      running.clear();
    },
  ];
  let maxLeases = 0;
  for (let step = 0; step < 300; step++) {
    steps[random(steps.length)]?.();
    const ids = scan(path);
    expect([...db.leaseIds()].sort()).toEqual(ids);
    maxLeases = Math.max(maxLeases, ids.length);
  }
  expect(maxLeases).toBeGreaterThan(2);
});
