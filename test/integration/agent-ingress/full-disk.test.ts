// The agent's state on a small disk of its own: its log does not fill it, and a full disk stops admission without losing a record.
import { statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import pino from "pino";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type AgentState, openState } from "../../../agent/state/open-state.ts";
import { call, type DataPath, openCall, startDataPath } from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { mountSmallDisk, type SmallDisk } from "../../fakes/small-disk.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";

const patient = { timeout: 20_000, interval: 20 };
const log = pino({ level: "silent" });
const here = mountSmallDisk(1, "a full disk under the agent's state (run the tests as root on Linux)");
here?.unmount();

describe.skipIf(!here)("an agent's state on a disk of 6 MiB", () => {
  let disk: SmallDisk;
  let file: string;
  let state: AgentState;
  beforeEach(async () => {
    disk = mountSmallDisk(6, "") as SmallDisk;
    file = join(disk.folder, "state.db");
    state = await openState(file, log);
  });
  afterEach(async () => {
    await state.close();
    disk.unmount();
  });

  const row = (requestId: string) => ({
    requestId,
    attempt: 1,
    leaseIds: ["lease"],
    json: JSON.stringify({ requestId, pad: "x".repeat(900) }),
  });
  /** Until not a byte is left, neither in the reserve nor in pages that the files have already. */
  async function useUp(): Promise<void> {
    for (let n = 0, isWritten = true; isWritten; n++) {
      disk.fill();
      const end = state.spool.end(row(`filler${n}`));
      isWritten = await Promise.race([end.then(() => true), wait(200, false)]);
    }
    expect(state.spool.isWritable).toBe(false);
  }
  const logBytes = () => statSync(`${file}-wal`).size;

  it("writes ten times the disk's size of records that are acknowledged, with a log below an eighth of it", async () => {
    for (let n = 0; n < 1_000; n++) {
      await Promise.all(Array.from({ length: 50 }, (_, i) => state.spool.end(row(`r${n}.${i}`))));
      await state.spool.acknowledge((await state.spool.pending(100)).map((one) => one.spoolId));
      expect(state.spool.isWritable).toBe(true);
      expect(logBytes()).toBeLessThan((6 * 1024 * 1024) / 8);
    }
  });

  it("keeps space for the records of requests in flight when something else fills the disk", async () => {
    for (let n = 0; n < 20; n++) state.spool.start(row(`r${n}`));
    await state.spool.openLeaseIds();
    disk.fill();
    // More than the files have left themselves.
    await Promise.all(Array.from({ length: 100 }, (_, n) => state.spool.end(row(`r${n}`))));
    expect(state.spool.isWritable).toBe(false);
    disk.free();
    await vi.waitFor(() => expect(state.spool.isWritable).toBe(true), patient);
    await state.close();
    state = await openState(file, log);
    expect(state.spool.depth().records).toBe(100);
  });

  it("starts with its records on a full disk, admits nothing, and recovers", async () => {
    await state.spool.end(row("r1"));
    await state.close();
    disk.fill();
    state = await openState(file, log);
    expect(state.spool.isWritable).toBe(false);
    expect(state.spool.depth().records).toBe(1);
    disk.free();
    await vi.waitFor(() => expect(state.spool.isWritable).toBe(true), patient);
  });

  describe("under an ingress", () => {
    let engine: FakeEngine;
    let path: DataPath;
    beforeEach(async () => {
      engine = await startFakeEngine({ tokens: 5 });
      path = await startDataPath(engine.origin, { spool: state.spool, limits: { recordMs: 300 } });
    });
    afterEach(async () => {
      await path.close();
      await engine.close();
    });

    const recordsOf = async ({ ticket }: ReturnType<typeof openCall>) =>
      (await pendingRecords(state.spool, 5_000)).filter((record) => record.requestId === ticket.requestId);

    it("refuses with 503 and the reason while full, and serves again without a restart", async () => {
      disk.fill();
      // Streams that run use up the reserve and are recorded all the same.
      const refused = await vi.waitFor(async () => {
        const reply = await call(path.port, { ticket: { model: "m".repeat(3_000) } });
        expect(reply.status).toBe(503);
        return reply;
      }, patient);
      expect(refused.refusal).toBe("spool");
      expect(JSON.parse(refused.text).error.message).toMatch(/cannot record usage/);
      disk.free();
      await vi.waitFor(async () => expect((await call(path.port)).usage?.output).toBe(5), patient);
    });

    it("ends a stream whose record finds no space without figures, and keeps the record until there is some", async () => {
      engine.behave({ tokens: 1_000, tokenMs: 5 });
      const client = openCall(path.port, { ticket: { maxTokens: 60 } });
      await vi.waitFor(() => expect(engine.log[0]?.sentTokens).toBeGreaterThan(5), patient);
      await useUp();
      const reply = await client.reply;
      expect(reply.text).not.toContain("[DONE]");
      expect(reply.text).toContain("usage_not_recorded");
      expect(reply.usage).toBeUndefined();
      disk.free();
      await vi.waitFor(
        async () => expect(await recordsOf(client)).toMatchObject([{ outputTokens: 60, endReason: "stop" }]),
        patient,
      );
    });

    it("refuses a complete reply whose record finds no space, without figures, and keeps the record until there is some", async () => {
      engine.behave({ tokens: 60, tokenMs: 20 });
      const client = openCall(path.port, { ticket: { maxTokens: 60, stream: false }, body: { stream: false } });
      await vi.waitFor(() => expect(engine.running).toBe(1), patient);
      await useUp();
      const reply = await client.reply;
      expect([reply.status, JSON.parse(reply.text).error.code]).toEqual([503, "usage_not_recorded"]);
      expect(reply.usage).toBeUndefined();
      disk.free();
      await vi.waitFor(
        async () => expect(await recordsOf(client)).toMatchObject([{ outputTokens: 60, endReason: "stop" }]),
        patient,
      );
    });
  });
});
