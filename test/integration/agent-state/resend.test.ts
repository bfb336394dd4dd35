// A resend of many kept records beside the records of requests that end at the same time.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pino } from "pino";
import { expect, it, onTestFinished } from "vitest";
import { type Database, openDatabase } from "../../../agent/state/database.ts";
import { openState } from "../../../agent/state/open-state.ts";

const log = pino({ level: "silent" });
const limits = { maxAgeMs: 48 * 3_600_000, maxBytes: 512 * 1024 * 1024 };

function statePath(): string {
  const folder = mkdtempSync(join(tmpdir(), "stoker-resend-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "state.db");
}

const ends = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, n) => ({
    requestId: `${prefix}${n}`,
    attempt: 1,
    leaseIds: "",
    record: JSON.stringify({ requestId: `${prefix}${n}`, pad: "x".repeat(1_500) }),
    hadStart: false,
  }));

/** Acknowledges `count` records, which are kept from then on. */
function keep(db: Database, count: number, prefix = "old"): void {
  db.write([], ends(prefix, count), false);
  db.write([["acknowledge", db.pending(count).map((row) => row.spoolId)]], [], false);
}

const idsOf = (rows: readonly { json: string }[]) =>
  rows.map((row) => (JSON.parse(row.json) as { requestId: string }).requestId);

it("moves 2,000 records a commit, with other writes between, and goes on after a restart", () => {
  const path = statePath();
  let db = openDatabase(path, Date.now, limits);
  keep(db, 5_000);
  expect(db.resend("first")).toBeUndefined();
  db.moveKept();
  expect(db.depth().records).toBe(2_000);
  db.write([], ends("new", 1), true);
  // What is sent and acknowledged again is kept again, and must not become pending for a second time.
  const again = db.pending(1_000).filter((row) => !row.json.includes("new"));
  db.write([["acknowledge", again.map((row) => row.spoolId)]], [], true);
  db.close();

  db = openDatabase(path, Date.now, limits);
  onTestFinished(() => db.close());
  expect(db.isMoving).toBe(true);
  expect(db.resend("first")).toBeUndefined();
  let commits = 0;
  for (; db.isMoving; commits += 1) db.moveKept();
  expect(commits).toBe(2);
  expect(db.resend("first")).toMatchObject({ id: "first", records: 5_000, dropped: 0 });
  expect(db.depth().records).toBe(5_001 - again.length);
  const left = idsOf(db.pending(10_000));
  expect(new Set(left).size).toBe(5_001 - again.length);
  expect(left).toContain("new0");

  // Another resend covers what the first made pending and what was acknowledged since.
  expect(db.resend("second")).toBeUndefined();
  while (db.isMoving) db.moveKept();
  expect(db.resend("second")).toMatchObject({ records: again.length });
  expect(db.depth().records).toBe(5_001);
});

it("keeps the limits from dropping records that the resend has not reached", () => {
  const path = statePath();
  let nowMs = 1_000_000;
  const db = openDatabase(path, () => nowMs, limits);
  onTestFinished(() => db.close());
  keep(db, 4_500);
  db.resend("first");
  db.moveKept();
  nowMs += 2 * limits.maxAgeMs;
  keep(db, 1, "new");
  while (db.isMoving) db.moveKept();
  expect(db.resend("first")).toMatchObject({ records: 4_500, dropped: 0 });
});

it("mixes newer records with those of the resend", () => {
  const db = openDatabase(statePath(), Date.now, limits);
  onTestFinished(() => db.close());
  keep(db, 3_000);
  db.resend("first");
  while (db.isMoving) db.moveKept();
  db.write([], ends("new", 300), true);
  const batch = idsOf(db.pending(500));
  expect(batch.filter((id) => id.startsWith("new"))).toHaveLength(250);
  expect(batch.slice(0, 4)).toEqual(["old0", "new0", "old1", "new1"]);
  expect(idsOf(db.pending(1))).toEqual(["old0"]);
});

it("writes the records of requests while the state thread moves kept ones", async () => {
  const path = statePath();
  const file = openDatabase(path, Date.now, limits);
  keep(file, 12_000);
  file.close();
  const state = await openState(path, log);
  onTestFinished(() => state.close());
  const resent = state.spool.resend("first");
  const end = (name: string) =>
    state.spool.end({ requestId: name, attempt: 1, leaseIds: [], json: `{"requestId":"${name}"}` });
  const written = Promise.all(Array.from({ length: 100 }, (_, i) => end(`new${i}`)));
  const first = await Promise.race([written.then(() => "requests"), resent.then(() => "resend")]);
  expect(first).toBe("requests");
  expect(await resent).toMatchObject({ records: 12_000 });
  expect(await state.spool.resend("first")).toMatchObject({ records: 12_000 });
  expect(state.spool.depth().records).toBe(12_100);
  const batch = await state.spool.pending(500);
  expect(batch.some(({ json }) => json.includes("new"))).toBe(true);
  const other = new DatabaseSync(path);
  expect(other.prepare("SELECT count(*) AS n FROM kept").get()).toEqual({ n: 0 });
  other.close();
}, 60_000);
