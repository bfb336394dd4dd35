// Commands run once and report their outcome, also when they are repeated, late, or sent by an older control plane. A command
// is stored before it starts; one that the end of the agent cut is `interrupted` and never started again.
import type { Logger } from "pino";
import type { Command__Output } from "../../proto/gen/stoker/fleet/v1/Command.ts";
import type { CommandResult } from "../../proto/gen/stoker/fleet/v1/CommandResult.ts";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { CommandLog, KnownOutcome } from "./store.ts";

interface CommandOrder {
  readonly id: string;
  /** Target instance; empty: the host. */
  readonly instanceId: string;
  /** Arguments as the control plane sent them; the executor checks them. */
  readonly arguments: unknown;
}

/** Runs one kind of command. The resolved value is the result, as JSON. */
export type CommandExecutor = (order: CommandOrder, signal: AbortSignal) => Promise<unknown>;

export class CommandFailed extends Error {
  override readonly name = "CommandFailed";
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export type Commands = ReturnType<typeof createCommands>;

const maxResultLetters = 16_384;
const defaultLimitMs = 3_600_000;

export function createCommands(deps: {
  readonly log: CommandLog;
  readonly executors: Readonly<Record<string, CommandExecutor>>;
  readonly controlTimeMs: () => number;
  readonly desired: () => DesiredState__Output | undefined;
  /** Called for every answer; an unknown kind is `_unknown`. */
  readonly answered?: (kind: string, result: "ok" | "rejected_epoch" | "duplicate" | "failed") => void;
  readonly logger: Logger;
}) {
  const running = new Map<string, ((result: CommandResult) => void)[]>();

  async function carryOut(command: Command__Output, execute: CommandExecutor): Promise<KnownOutcome> {
    const startedMs = performance.now();
    const ended = await attempt(command, execute, deps.controlTimeMs());
    await deps.log.end(command.commandId, ended).catch((error) =>
      // A repeat is then reported as interrupted, which is better than running it twice.
      deps.logger.error({ err: error, command: command.commandId }, "could not store the outcome of a command"),
    );
    const facts = { command: command.commandId, kind: command.kind, ms: Math.round(performance.now() - startedMs) };
    deps.logger.info({ ...facts, outcome: ended.outcome, errorCode: ended.errorCode }, "command");
    return ended;
  }

  return {
    /** `epochs`: of its session, and the highest that this host has accepted. `answer` may be called twice: running, then the end. */
    async take(
      command: Command__Output,
      epochs: { readonly session: bigint; readonly highest: bigint },
      send: (result: CommandResult) => void,
    ) {
      const id = command.commandId;
      const kind = Object.hasOwn(deps.executors, command.kind) ? command.kind : "_unknown";
      const answer = (result: CommandResult) => {
        deps.answered?.(kind, endOf(result));
        send(result);
      };
      const report = (outcome: KnownOutcome, duplicate = false) =>
        answer({ commandId: id, nodeEpoch: command.nodeEpoch, duplicate, ...outcome });
      const epoch = BigInt(command.nodeEpoch);
      if (epoch !== epochs.session || epoch < epochs.highest) return report(without("rejected_epoch"));
      const known = deps.log.find(id);
      if (known?.ended) return report(known.ended, true);
      const waiting = running.get(id);
      if (waiting) {
        // Sent again over a newer session: report the end there.
        waiting.push((result) => answer({ ...result, nodeEpoch: command.nodeEpoch, duplicate: true }));
        return report(without("running"), true);
      }
      if (known) return report(interrupted, true);
      const execute = Object.hasOwn(deps.executors, command.kind) ? deps.executors[command.kind] : undefined;
      if (!execute) return report(without("unknown_kind"));
      if (Number(command.deadlineMs) <= deps.controlTimeMs()) return report(without("expired"));
      if (isOlder(command, deps.desired())) return report(without("rejected_generation"));

      const answers = [answer];
      running.set(id, answers);
      try {
        await deps.log.begin(id);
      } catch (error) {
        running.delete(id);
        deps.logger.error({ err: error, command: id }, "could not store a command, so it was not started");
        for (const each of answers)
          each({ commandId: id, nodeEpoch: command.nodeEpoch, duplicate: false, ...without("not_begun") });
        return;
      }
      const ended = await carryOut(command, execute);
      running.delete(id);
      for (const each of answers) each({ commandId: id, nodeEpoch: command.nodeEpoch, duplicate: false, ...ended });
    },
  };
}

async function attempt(command: Command__Output, execute: CommandExecutor, nowMs: number): Promise<KnownOutcome> {
  const leftMs = Math.min(defaultLimitMs, Number(command.deadlineMs) - nowMs);
  try {
    const order = {
      id: command.commandId,
      instanceId: command.instanceId,
      arguments: JSON.parse(command.arguments || "null") as unknown,
    };
    const result = JSON.stringify((await execute(order, AbortSignal.timeout(leftMs))) ?? null);
    if (result.length > maxResultLetters)
      throw new CommandFailed("result_too_large", "the result is too large to send");
    return { ...without("done"), result };
  } catch (error) {
    const code = error instanceof CommandFailed ? error.code : "command_failed";
    return {
      ...without("failed"),
      errorCode: code,
      errorMessage: error instanceof Error ? error.message : String(error),
    };
  }
}

/** The deployment has changed since: a command for its old form must not run on the new one. */
function isOlder(command: Command__Output, desired: DesiredState__Output | undefined): boolean {
  if (command.generation === "0" || command.instanceId === "") return false;
  const instance = desired?.instances.find((one) => one.instanceId === command.instanceId);
  return instance !== undefined && BigInt(instance.generation) > BigInt(command.generation);
}

function endOf({ outcome, duplicate }: CommandResult): "ok" | "rejected_epoch" | "duplicate" | "failed" {
  if (duplicate) return "duplicate";
  return outcome === "done" ? "ok" : outcome === "rejected_epoch" ? "rejected_epoch" : "failed";
}

const without = (outcome: string): KnownOutcome => ({ outcome, errorCode: "", errorMessage: "", result: "" });

const interrupted: KnownOutcome = {
  outcome: "interrupted",
  errorCode: "interrupted",
  errorMessage: "the agent ended while this command ran; its work was undone. Send the command again",
  result: "",
};
