// Sends each pending command once per session, until its outcome is known.
import type { Logger } from "pino";
import type { CommandResult__Output } from "../../proto/gen/stoker/fleet/v1/CommandResult.ts";
import type { ControlMessage } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import { scanJson } from "../../proto/json-scan.ts";
import type { CommandStore, HostSession } from "../fleet/store.ts";

export interface CommandSender {
  /** Throws when the database is unavailable. */
  sendPending(): Promise<void>;
  take(result: CommandResult__Output): Promise<void>;
}

/** Maximum outcomes of one session that are written concurrently. */
const maxInProgress = 16;
/** An agent's result has at most 16,384 characters. */
const maxResultBytes = 64 * 1024;

/** Not final: the agent still works on it, a newer session receives it, or it is sent again. */
const passing = new Set(["running", "rejected_epoch", "not_begun"]);

export function createCommandSender(deps: {
  readonly store: CommandStore;
  readonly session: HostSession;
  readonly send: (message: ControlMessage) => void;
  readonly log: Logger;
}): CommandSender {
  const { session, log } = deps;
  const sent = new Set<string>();
  let inProgress = 0;
  return {
    async sendPending() {
      for (const command of await deps.store.pending(session.hostId)) {
        if (sent.has(command.id)) continue;
        sent.add(command.id);
        deps.send({
          body: "command",
          command: {
            commandId: command.id,
            nodeEpoch: session.nodeEpoch.toString(),
            generation: command.generation.toString(),
            deadlineMs: command.deadlineMs,
            instanceId: command.instanceId,
            kind: command.kind,
            arguments: JSON.stringify(command.arguments),
          },
        });
      }
    },
    async take(result) {
      const { commandId: id, outcome } = result;
      if (inProgress >= maxInProgress) return void sent.delete(id);
      log.info({ command: id.slice(0, 64), outcome: outcome.slice(0, 64), isDuplicate: result.duplicate }, "command");
      if (outcome === "not_begun") sent.delete(id);
      if (passing.has(outcome)) return;
      inProgress += 1;
      try {
        await deps.store.finish(session.hostId, {
          id,
          outcome,
          errorCode: result.errorCode.slice(0, 64),
          errorMessage: result.errorMessage.slice(0, 4_096),
          result: parsed(result.result),
        });
      } catch (error) {
        // The agent repeats its outcome when the command is sent again.
        sent.delete(id);
        log.warn({ err: error, command: id.slice(0, 64) }, "could not write the outcome of a command");
      } finally {
        inProgress -= 1;
      }
    },
  };
}

/** Null for invalid input. */
function parsed(text: string): unknown {
  if (text.length > maxResultBytes || typeof scanJson(Buffer.from(text)) === "string") return null;
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
