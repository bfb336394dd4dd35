import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import pino from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RecordRow } from "../../agent/ingress/spool.ts";
import { completeDesired } from "../../agent/session/wire.ts";
import { type AgentState, openState } from "../../agent/state/open-state.ts";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import type { UsageRecord } from "../../proto/usage-record.ts";
import { anyRecord, pendingRecords } from "../fakes/usage-record.ts";

let folder: string;
let file: string;
let state: AgentState;
let errors: string[];

const open = async () => {
  const log = pino({ level: "warn" }, { write: (line: string) => errors.push(JSON.parse(line).msg) });
  return openState(file, log);
};
const usage = (requestId: string, change: Partial<UsageRecord> = {}): UsageRecord => ({
  ...anyRecord({ requestId, outputTokens: 5 }),
  ...change,
});
const record = (requestId: string, change: Partial<UsageRecord> = {}, leaseIds = ["lease1"]): RecordRow => {
  const content = usage(requestId, change);
  return { ...content, leaseIds, json: JSON.stringify(content) };
};
const start = (requestId: string, leaseIds = ["lease1"]) =>
  state.spool.start(record(requestId, { endReason: "lost", outputTokens: 0 }, leaseIds));
const reopen = async () => {
  await state.close();
  state = await open();
};

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-state-"));
  file = join(folder, "state.db");
  errors = [];
  state = await open();
});
afterEach(async () => {
  await state.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("usage spool", () => {
  it("keeps records, oldest first, until they are acknowledged, over restarts", async () => {
    for (const id of ["a", "b", "c"]) await state.spool.end(record(id));
    await reopen();
    const rows = await pendingRecords(state.spool, 2);
    expect(rows.map((r) => r.requestId)).toEqual(["a", "b"]);
    expect(rows[0]).toMatchObject({ outputTokens: 5, endReason: "stop" });
    await state.spool.acknowledge(rows.map((r) => String(r.spoolId)));
    expect((await pendingRecords(state.spool, 10)).map((r) => r.requestId)).toEqual(["c"]);
    expect(state.spool.depth()).toMatchObject({ records: 1 });
  });

  it("takes an acknowledgement of what it no longer has", async () => {
    await state.spool.acknowledge(["1", "99999999999"]);
    expect(state.spool.depth().records).toBe(0);
  });

  it("gives every record an id above all earlier ones and never gives one again, not even with a new file", async () => {
    await state.spool.end(record("a"));
    const [a] = await pendingRecords(state.spool, 1);
    await state.spool.acknowledge([String(a?.spoolId)]);
    await reopen();
    await state.spool.end(record("b"));
    const [b] = await pendingRecords(state.spool, 1);
    expect(BigInt(b?.spoolId as string)).toBeGreaterThan(BigInt(a?.spoolId as string));
    await state.close();
    for (const tail of ["", "-wal", "-shm"]) rmSync(file + tail, { force: true });
    state = await open();
    await state.spool.end(record("c"));
    const [c] = await pendingRecords(state.spool, 1);
    expect(BigInt(c?.spoolId as string)).toBeGreaterThan(BigInt(b?.spoolId as string));
  });

  it("commits what waited together: a thousand records take far fewer commits than records", async () => {
    const reader = new DatabaseSync(file, { readOnly: true });
    const version = () => Number(reader.prepare("PRAGMA data_version").get()?.["data_version"]);
    let commits = 0;
    let last = version();
    await Promise.all(
      Array.from({ length: 1_000 }, async (_, i) => {
        await state.spool.end(record(`r${i}`));
        if (version() !== last) commits += 1;
        last = version();
      }),
    );
    reader.close();
    expect(state.spool.depth().records).toBe(1_000);
    expect(commits).toBeLessThan(100);
  });

  it("shows another connection the record by the time `end` resolves", async () => {
    start("a");
    await state.spool.end(record("a"));
    const reader = new DatabaseSync(file, { readOnly: true });
    expect(reader.prepare("SELECT count(*) AS n FROM records").get()).toEqual({ n: 1 });
    expect(reader.prepare("SELECT count(*) AS n FROM starts").get()).toEqual({ n: 0 });
    reader.close();
  });

  it("makes a lost record of every start row without an end, once, and of nothing else", async () => {
    start("ended");
    await state.spool.openLeaseIds();
    await state.spool.end(record("ended"));
    start("cut", ["lease2"]);
    await state.spool.openLeaseIds();
    for (let life = 0; life < 2; life++) {
      await reopen();
      const rows = await pendingRecords(state.spool, 10);
      expect(rows.map((r) => [r.requestId, r.endReason, r.outputTokens])).toEqual([
        ["ended", "stop", 5],
        ["cut", "lost", 0],
      ]);
    }
  });

  it("names the leases of requests in flight and of unacknowledged records", async () => {
    start("running", ["lease1", "lease2"]);
    await state.spool.end(record("ended", {}, ["lease3"]));
    expect([...(await state.spool.openLeaseIds())].sort()).toEqual(["lease1", "lease2", "lease3"]);
    const [row] = await pendingRecords(state.spool, 1);
    await state.spool.acknowledge([String(row?.spoolId)]);
    expect([...(await state.spool.openLeaseIds())].sort()).toEqual(["lease1", "lease2"]);
  });

  it("wakes its listeners for a new record and for those it opened with", async () => {
    let woken = 0;
    state.spool.onPending(() => {
      woken += 1;
    });
    await state.spool.end(record("a"));
    expect(woken).toBe(1);
    // One commit takes two acknowledged records away and brings one: the depth falls, and still there is news.
    await state.spool.end(record("b"));
    await state.spool.acknowledge((await pendingRecords(state.spool, 2)).map((row) => String(row.spoolId)));
    await state.spool.end(record("c"));
    expect(state.spool.depth().records).toBe(1);
    expect(woken).toBe(3);
    await reopen();
    await new Promise<void>((done) => state.spool.onPending(done));
  });
});

describe("a file that cannot be written", () => {
  it("admits nothing, loses nothing, and recovers by itself", async () => {
    const other = new DatabaseSync(file);
    other.exec("BEGIN EXCLUSIVE");
    const ended = state.spool.end(record("a"));
    await expect.poll(() => state.spool.isWritable, { timeout: 10_000 }).toBe(false);
    other.exec("ROLLBACK");
    other.close();
    await ended;
    expect(state.spool.isWritable).toBe(true);
    expect((await pendingRecords(state.spool, 10)).map((r) => r.requestId)).toEqual(["a"]);
    expect(errors.join()).toContain("cannot write usage records");
  });
});

describe("a corrupt file", () => {
  it("is moved aside with an error that says what it costs; the host keeps its name and starts afresh", async () => {
    const host = state.session.hostId();
    await state.spool.end(record("a"));
    await state.close();
    for (const tail of ["-wal", "-shm"]) rmSync(file + tail, { force: true });
    writeFileSync(file, Buffer.alloc(8192, 0x5a));
    state = await open();
    expect(state.session.hostId()).toBe(host);
    expect(state.session.desired()).toBeUndefined();
    expect(await pendingRecords(state.spool, 10)).toEqual([]);
    expect(errors.join()).toContain("will not be billed");
    expect(readdirSync(folder).some((name) => name.includes("state.db.corrupt-"))).toBe(true);
    await state.spool.end(record("b"));
    expect(state.spool.depth().records).toBe(1);
  });
});

describe("session store", () => {
  const desired: DesiredState__Output = {
    nodeEpoch: "7",
    generation: "3",
    instances: [],
    tombstones: ["gone"],
    prefetch: [],
    emptiedByMs: "0",
    moved: [],
  };

  it("is empty on a fresh host, and keeps name, set and highest epoch over restarts", async () => {
    expect(state.session.desired()).toBeUndefined();
    expect(state.session.highestEpoch()).toBe(0n);
    const host = state.session.hostId();
    await state.session.save(desired);
    await reopen();
    expect(state.session.hostId()).toBe(host);
    expect(state.session.desired()).toEqual(desired);
    expect(state.session.highestEpoch()).toBe(7n);
    await state.session.sawEpoch(5n);
    await state.session.sawEpoch(9n);
    await reopen();
    expect(state.session.highestEpoch()).toBe(9n);
  });

  it("keeps its file and its key from other users of the machine", () => {
    for (const path of [file, `${file}.key`]) expect(statSync(path).mode & 0o077).toBe(0);
  });

  it("shows no secret of the set to who has a copy of the file, and is empty without the key or with another", async () => {
    const token = "hf_canary_of_a_hub_token";
    const whole = completeDesired({ ...desired, prefetch: [{ id: "p", weights: { token } }] });
    await state.session.save(whole);
    await state.close();
    for (const name of readdirSync(folder)) expect(readFileSync(join(folder, name), "latin1")).not.toContain(token);
    state = await open();
    expect(state.session.desired()?.prefetch[0]?.weights?.token).toBe(token);
    await state.close();
    rmSync(`${file}.key`);
    state = await open();
    expect(state.session.desired()).toBeUndefined();
    expect(errors.join()).toContain("could not read the stored desired state");
    expect(state.session.highestEpoch()).toBe(7n);
    await state.session.save(whole);
    await reopen();
    expect(state.session.desired()).toEqual(whole);
  });
});

it("says what to do when its folder cannot be used", async () => {
  const log = pino({ level: "silent" });
  await expect(openState(join(folder, "missing", "state.db"), log)).rejects.toThrow(/cannot open the agent's state/);
});

describe("GPU minutes", () => {
  const tally = {
    instanceId: "one" as InstanceId,
    deployId: "deploy" as DeploymentId,
    startMs: 60_000,
    readyMs: 1_500,
    throughMs: 61_500,
  };

  it("survive a restart while open, and become usage records once they end", async () => {
    expect(state.meter.kept()).toEqual([]);
    await state.meter.save([tally], [usage("gpu:one:0", { readyMs: 60_000 })]);
    await reopen();
    expect(state.meter.kept()).toEqual([tally]);
    expect(await pendingRecords(state.spool, 10)).toMatchObject([{ requestId: "gpu:one:0", readyMs: 60_000 }]);
    await state.meter.save([], []);
    await reopen();
    expect(state.meter.kept()).toEqual([]);
  });
});
