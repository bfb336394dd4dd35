import pino from "pino";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { createUsageSender } from "../../../../agent/session/usage-sender.ts";
import type { PendingRecord } from "../../../../proto/usage-record.ts";
import { spooled } from "../../../fakes/usage-record.ts";

const silent = pino({ level: "silent" });

function spoolOf(ids: string[]) {
  return {
    pending: async (limit: number): Promise<readonly PendingRecord[]> => ids.slice(0, limit).map((id) => spooled(id)),
    acknowledge: async (gone: readonly string[]) => {
      for (const id of gone) ids.splice(ids.indexOf(id), 1);
    },
    onPending: () => {},
    openLeaseIds: async () => [],
    depth: () => ({ records: ids.length, oldestAgeSeconds: 0, bytes: 0 }),
  };
}

describe("usage records", () => {
  it("are sent in batches of at most 500, the next only after the last was acknowledged", async () => {
    const ids = Array.from({ length: 1_201 }, (_, i) => String(i));
    const batches: string[][] = [];
    const ending = new AbortController();
    const sender = createUsageSender(
      spoolOf(ids),
      (records) => void batches.push(records.map((record) => String(record.spoolId))),
      silent,
    );
    const run = sender.run(ending.signal);
    for (let batch = 0; batch < 3; batch++) {
      await vi.waitFor(() => expect(batches).toHaveLength(batch + 1), { timeout: 20_000 });
      sender.acknowledged(batches[batch] ?? []);
    }
    await vi.waitFor(() => expect(ids).toEqual([]), { timeout: 20_000 });
    expect(batches.map((batch) => batch.length)).toEqual([500, 500, 201]);
    ending.abort();
    await run;
  });

  it("are sent again with the next session if they were not acknowledged", async () => {
    const ids = ["1", "2"];
    for (const life of [1, 2]) {
      const sent: unknown[] = [];
      const ending = new AbortController();
      const sender = createUsageSender(spoolOf(ids), (records) => void sent.push(...records), silent);
      const run = sender.run(ending.signal);
      await vi.waitFor(() => expect(sent, `session ${life}`).toHaveLength(2), { timeout: 20_000 });
      ending.abort();
      await run;
    }
    expect(ids).toEqual(["1", "2"]);
  });

  it.each([["1"], []])(
    "delay no others and are sent again when a reply leaves them out (durable: %s)",
    async (...durable) => {
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
      onTestFinished(() => void vi.useRealTimers());
      const ids = ["1", "2"];
      const sent: string[][] = [];
      const ending = new AbortController();
      const sender = createUsageSender(
        spoolOf(ids),
        (records) => void sent.push(records.map((record) => String(record.spoolId))),
        silent,
      );
      const run = sender.run(ending.signal);
      await vi.advanceTimersByTimeAsync(0);
      sender.acknowledged(durable);
      await vi.advanceTimersByTimeAsync(0);
      ids.push("3");
      sender.wake();
      await vi.advanceTimersByTimeAsync(0);
      expect(sent).toEqual([["1", "2"], ["3"]]);
      sender.acknowledged(["3"]);
      await vi.advanceTimersByTimeAsync(4_000);
      expect(sent).toHaveLength(2);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(sent[2]).toEqual(durable.length > 0 ? ["2"] : ["1", "2"]);
      ending.abort();
      await run;
    },
  );
});
