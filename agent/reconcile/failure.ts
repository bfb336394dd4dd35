// Reason for which an instance ended, for its owner: what happened, why, and what to do.
import { isDiskFull } from "../../proto/disk-space.ts";
import type { RestartReason } from "../../proto/instance-phase.ts";
import type { LogLine, Observed } from "./driver.ts";
import type { GpuFault } from "./ports.ts";

export interface Failure {
  /** Stable; `oom_killed`, `exit_1`, `bad_model`, ... */
  readonly code: string;
  readonly message: string;
}

interface ExitReason {
  readonly failure: Failure;
  readonly isTerminal: boolean;
  readonly reason: RestartReason;
}

export type Exited = Extract<Observed, { state: "exited" }>;

/** Exit code of the runtime for an unusable model or settings. */
const badModelCode = 2;
/** Exit code of the first process of a rented container (docker/rental-init.ts): its image lacks what every rental needs. */
const badImageCode = 64;
const tailLines = 40;
const tailChars = 6_000;

export function reasonOfExit(
  exit: Exited,
  limitBytes: number,
  lines: readonly LogLine[],
  { isRental = false } = {},
): ExitReason {
  const said = reasonLine(lines);
  const because = said === undefined ? "it left no line in its log that says why" : `its log says: ${said}`;
  if (exit.oomKilled) {
    const limit = limitBytes > 0 ? `limit ${mebibytes(limitBytes)}` : "the host ran out of memory";
    const message = `${limit}; the model server needed more. Deploy it with more or larger GPUs, a smaller max_batch_size or a shorter context.`;
    return { failure: { code: "oom_killed", message }, isTerminal: false, reason: "oom" };
  }
  if (exit.endedBy) return { failure: exit.endedBy, isTerminal: false, reason: "exit" };
  if (exit.exitCode === badModelCode) {
    const message = `${said ?? "the model server refused the model without saying why"}. Choose a model or settings that it supports and deploy again.`;
    return { failure: { code: "bad_model", message }, isTerminal: true, reason: "exit" };
  }
  if (isRental && exit.exitCode === badImageCode) {
    const why = said?.replace(/^stoker: error: /, "") ?? "its first process did not say why";
    const message = `the container's image cannot be used: ${why}. Delete the container and create one of another image, or contact your operator.`;
    return { failure: { code: "image_unusable", message }, isTerminal: true, reason: "exit" };
  }
  if (exit.exitCode !== undefined) {
    const what = exit.exitCode === 0 ? "the model server ended by itself" : "the model server ended";
    return {
      failure: { code: `exit_${exit.exitCode}`, message: `${what}; ${because}` },
      isTerminal: false,
      reason: "exit",
    };
  }
  if (exit.signal !== undefined) {
    const hint = exit.signal === "SIGKILL" ? " (the host may have run out of memory)" : "";
    const message = `the model server was ended by ${exit.signal}${hint}; ${because}`;
    return { failure: { code: `signal_${exit.signal.toLowerCase()}`, message }, isTerminal: false, reason: "exit" };
  }
  const message = `the model server ended for an unknown reason; ${because}`;
  return { failure: { code: "exit_unknown", message }, isTerminal: false, reason: "exit" };
}

/** Replaces the reason when a GPU failed: the model server's last lines only show the consequence. */
export function withLostGpu(why: ExitReason, fault: GpuFault | undefined): ExitReason {
  if (!fault || why.reason === "oom") return why;
  return { failure: lostGpu(fault), isTerminal: false, reason: "gpu_lost" };
}

export function lostGpu({ uuid, reason }: GpuFault): Failure {
  const message = `the model server lost its GPU ${uuid}: ${reason}. It is started again on the same GPU; deploy it anew to have it placed on another.`;
  return { code: "gpu_lost", message };
}

/** Returns the reason of the last crash with the last lines of the log, which is removed with the instance. */
export function gaveUp(last: Failure, crashes: number, lines: readonly LogLine[]): Failure {
  const tail = lines
    .slice(-tailLines)
    .map(({ line }) => line.slice(0, 400))
    .join("\n")
    .slice(-tailChars);
  const log = tail === "" ? "" : `\nLast lines of its log:\n${tail}`;
  return { code: last.code, message: `${last.message} (ended ${crashes} times within 30 minutes)${log}` };
}

/** Converts an error of weights/ or a driver; its message is for the customer if it has a code. */
export function failureOf(error: unknown, fallback: string): Failure & { readonly isTerminal: boolean } {
  const { code, message, retryable } = error as { code?: unknown; message?: unknown; retryable?: unknown };
  const isTyped = typeof code === "string" && typeof retryable === "boolean";
  if (!isTyped && isDiskFull(error)) {
    const text = "the disk of the host is full; free some space in the agent's data folder";
    return { code: "no_space", message: text, isTerminal: false };
  }
  if (!isTyped)
    return { code: fallback, message: `an unexpected failure: ${String(message ?? error)}`, isTerminal: false };
  return { code, message: String(message), isTerminal: !retryable };
}

/** True when the engine does not reply, so that the state of its containers is unknown. */
export function isEngineUnavailable(error: unknown): boolean {
  return (error as { code?: unknown }).code === "engine_away";
}

/** Returns the last line that looks like an error, otherwise the last one; for a structured line its message. */
function reasonLine(lines: readonly LogLine[]): string | undefined {
  const read = lines.map(({ line }) => readLine(line)).filter(({ text }) => text !== "");
  const found =
    read.findLast(({ level }) => level !== undefined && level >= 50) ??
    read.findLast(({ level, text }) => level === undefined && /error|fatal|panic|abort|cannot|failed/i.test(text)) ??
    read.at(-1);
  return found?.text.slice(0, 600);
}

const levels: Readonly<Record<string, number>> = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, fatal: 60 };

function readLine(line: string): { readonly level: number | undefined; readonly text: string } {
  try {
    const { level, msg, err } = JSON.parse(line) as { level?: unknown; msg?: unknown; err?: { message?: unknown } };
    const number = typeof level === "string" ? levels[level] : level;
    if (typeof number === "number") {
      const parts = [msg, err?.message].filter((part) => typeof part === "string" && part !== "");
      return { level: number, text: [...new Set(parts)].join(": ") };
    }
  } catch {
    // Not a structured line.
  }
  return { level: undefined, text: line.trim() };
}

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / 1024 / 1024)}MiB`;
}
