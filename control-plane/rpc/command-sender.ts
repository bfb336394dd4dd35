// Commands of one session: each pending one is sent once over it, again over the next, until an outcome is known.
import type { Logger } from "pino";
import type { CommandResult__Output } from "../../proto/gen/stoker/fleet/v1/CommandResult.ts";
import type { ControlMessage } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import type { CommandStore, HostSession } from "../fleet/store.ts";

export interface CommandSender {
  /** Throws when the database is away. */
  sendPending(): Promise<void>;
  take(result: CommandResult__Output): Promise<void>;
}

/** Not the end of it: the agent still works on it, or a newer session will be told, or it is sent again at the next look. */
const passing = new Set(["running", "rejected_epoch", "not_begun"]);

export function createCommandSender(deps: {
  readonly store: CommandStore;
  readonly session: HostSession;
  readonly send: (message: ControlMessage) => void;
  readonly log: Logger;
}): CommandSender {
  const { session, log } = deps;
  const sent = new Set<string>();
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
      log.info({ command: id, outcome, isDuplicate: result.duplicate }, "command");
      if (outcome === "not_begun") sent.delete(id);
      if (passing.has(outcome)) return;
      try {
        await deps.store.finish(session.hostId, {
          id,
          outcome,
          errorCode: result.errorCode.slice(0, 64),
          errorMessage: result.errorMessage.slice(0, 4_096),
          result: parsed(result.result),
        });
      } catch (error) {
        // The agent says it again when it is asked again.
        sent.delete(id);
        log.warn({ err: error, command: id }, "the outcome of a command was not written");
      }
    },
  };
}

function parsed(text: string): unknown {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
