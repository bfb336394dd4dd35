// The agent's durable state: one SQLite file in its own thread.
import type { Logger } from "pino";
import { acknowledgedKeptMs } from "../../proto/usage-record.ts";
import type { KeepLimits } from "./database.ts";
import { chooseHostId } from "./host-id.ts";
import { sqliteCommandLog, sqliteMeterStore, sqliteSessionStore } from "./sqlite-stores.ts";
import { startStateThread } from "./state-thread.ts";
import { openTextSeals } from "./text-seal.ts";

const defaultKeep: KeepLimits = { maxAgeMs: acknowledgedKeptMs, maxBytes: 512 * 2 ** 20 };

export type AgentState = Awaited<ReturnType<typeof openState>>;

/**
 * Opens or creates `path`; its folder must exist. A corrupt file is moved aside and replaced by a new one.
 * Unfinished requests of an earlier run of the agent are pending records of reason `lost` when this resolves.
 * Rejects with a sentence for the operator when the file cannot be opened.
 */
export async function openState(
  path: string,
  log: Logger,
  nowMs: () => number = Date.now,
  keep: KeepLimits = defaultKeep,
) {
  const thread = await startStateThread(path, log, keep, nowMs);
  const host = chooseHostId(thread.meta.host_id, `${path}.host-id`, log);
  // Do not wait: on a full disk the agent still starts, and admits nothing.
  if (thread.meta.host_id !== host) thread.write(["set", "host_id", host]).catch((err) => log.warn({ err }, "host id"));
  const seals = openTextSeals(`${path}.key`, log);
  return {
    podSeal: seals("pod"),
    spool: thread,
    session: sqliteSessionStore(thread, host, seals("desired state"), log),
    meter: sqliteMeterStore(thread, log),
    commands: sqliteCommandLog(thread, log),
    close: () => thread.close(),
  };
}
