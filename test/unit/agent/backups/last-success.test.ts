import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { expect, it } from "vitest";
import { lastSuccess } from "../../../../agent/backups/backups.ts";
import { createAgentMetrics } from "../../../../agent/metrics/agent-metrics.ts";

const log = pino({ level: "silent" });

it("is read by the next agent, which reports it before its own first backup", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-last-backup-"));
  const told = async () => {
    const page = await createAgentMetrics(lastSuccess(folder, log).read()).registry.metrics();
    return /^stoker_backup_last_success_timestamp_seconds (\S+)$/m.exec(page)?.[1];
  };
  try {
    expect(lastSuccess(folder, log).read()).toBeUndefined();
    expect(await told()).toBeUndefined();
    const before = Date.now() / 1000;
    lastSuccess(folder, log).note();
    // A file system may keep whole seconds.
    expect(Number(await told())).toBeGreaterThan(before - 2);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

it("does not make a backup fail if it cannot be stored", () => {
  const note = () => lastSuccess(join(tmpdir(), "stoker-no-such-folder"), log).note();
  expect(note).not.toThrow();
});
