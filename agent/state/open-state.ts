// The agent's durable state: one SQLite file in a thread of its own.
import type { Logger } from "pino";
import type { UsageSpool } from "../ingress/spool.ts";
import type { MeterStore } from "../metering/store.ts";
import type { CommandLog, SessionStore } from "../session/store.ts";
import { chooseHostId } from "./host-id.ts";
import { sqliteCommandLog } from "./sqlite-command-log.ts";
import { sqliteMeterStore } from "./sqlite-meter-store.ts";
import { sqliteSessionStore } from "./sqlite-session-store.ts";
import { sqliteSpool } from "./sqlite-spool.ts";
import { startStateThread } from "./state-thread.ts";
import { openTextSeal } from "./text-seal.ts";

export interface AgentState {
  readonly spool: UsageSpool;
  readonly session: SessionStore;
  readonly meter: MeterStore;
  readonly commands: CommandLog;
  close(): Promise<void>;
}

/**
 * Opens or makes `path`; its folder must exist. A corrupt file is moved aside and a fresh one made.
 * Requests that an earlier life of the agent left unfinished are pending records of reason `lost` when this resolves.
 * Rejects with a sentence for the operator when the file cannot be opened at all.
 */
export async function openState(path: string, log: Logger, nowMs: () => number = Date.now): Promise<AgentState> {
  const thread = await startStateThread(path, log);
  const host = chooseHostId(thread.meta.host_id, `${path}.host-id`, log);
  // Not waited for: on a full disk the agent starts all the same and admits nothing.
  if (thread.meta.host_id !== host) thread.write(["set", "host_id", host]).catch((err) => log.warn({ err }, "host id"));
  return {
    spool: sqliteSpool(thread, nowMs),
    session: sqliteSessionStore(thread, host, openTextSeal(`${path}.key`, log), log),
    meter: sqliteMeterStore(thread, log),
    commands: sqliteCommandLog(thread, log),
    close: () => thread.close(),
  };
}
