import { setTimeout as sleep } from "node:timers/promises";
import { CliError, exitCode } from "./cli-error.ts";
import type { Terminal } from "./terminal.ts";

/** The deployment record as the API sends it. */
export interface Deployment {
  readonly deploy_id: string;
  readonly model_name: string;
  readonly status: string;
  readonly fail_reason: string;
  readonly created_at: string;
  readonly instances?: { readonly running: number; readonly pending: number };
  readonly config?: {
    readonly gpu: string;
    readonly num_gpus: number;
    readonly max_batch_size: number;
    readonly weights?: { readonly repo: string } | null;
  };
  /** Why it waits, host by host. */
  readonly pending_reasons?: readonly { readonly host: string; readonly why: string }[];
  /** As they were asked for, by their names. */
  readonly standard_args?: Readonly<Record<string, unknown>>;
  readonly extra_args?: readonly string[];
  /** Why the last update was taken back; empty otherwise. */
  readonly update_error?: string;
  /** Of the first instance. */
  readonly progress?: {
    readonly phase: string;
    readonly done_bytes: number;
    readonly total_bytes: number;
    /** Empty or absent: nothing. */
    readonly trouble?: string;
  } | null;
  readonly rollout?: { readonly up_to_date: number; readonly outdated: number; readonly booting: number };
  readonly settings?: {
    readonly min_instances: number;
    readonly max_instances: number;
    readonly inactive_shutdown?: number | null;
  };
}

/** `deployed 1/2`: instances that run of those wanted now. */
export function statusText({ status, instances }: Deployment): string {
  if (!instances) return status;
  if (instances.running + instances.pending === 0) return status === "deployed" ? "deployed (asleep)" : status;
  return `${status} ${instances.running}/${instances.running + instances.pending}`;
}

/** How far a start is: `downloading 0/1, 35 % of 4.5 GiB`, and why it waits where nothing takes it. */
function phaseText(one: Deployment): string {
  const { progress, pending_reasons: reasons = [], instances } = one;
  const parts = [statusText(one)];
  if (progress?.phase === "downloading" && progress.total_bytes > 0) {
    // In steps: a line for every look would bury the rest.
    const percent = Math.floor((20 * progress.done_bytes) / progress.total_bytes) * 5;
    parts.push(`${percent} % of ${(progress.total_bytes / 1024 ** 3).toFixed(1)} GiB`);
  } else if (progress && isComing(one) && progress.phase !== one.status && progress.phase !== "ready") {
    parts.push(progress.phase);
  }
  const trouble = isComing(one) && progress?.trouble ? `; ${progress.trouble}` : "";
  const text = `${parts.join(", ")}${trouble}`;
  if (reasons.length === 0 || !isComing(one) || (instances?.running ?? 0) > 0) return text;
  return [
    `${text}; it waits for a place:`,
    ...reasons.map(({ host, why }) => `  ${host ? `${host}: ` : ""}${why}`),
  ].join("\n");
}

const isComing = ({ status }: Deployment) => ["initializing", "downloading", "deploying", "updating"].includes(status);

/**
 * Prints each change on stderr; returns the deployed record, or throws on `failed` and when the time is up. A server that is
 * away for a moment ends nothing: the deployment goes on without it.
 */
export async function waitUntilDeployed(
  terminal: Terminal,
  created: Deployment,
  limitSeconds: number,
  pauseMs = 500,
): Promise<Deployment> {
  const deadline = performance.now() + limitSeconds * 1000;
  let now = created;
  let said = "";
  let isAwaySaid = false;
  while (now.status !== "deployed") {
    if (["failed", "stopped", "deleted"].includes(now.status)) {
      throw new CliError(`${now.deploy_id} ${now.status}: ${now.fail_reason || "no reason given"}`, exitCode.failed);
    }
    const text = phaseText(now);
    if (text !== said) terminal.progress(text);
    said = text;
    if (performance.now() > deadline) {
      throw new CliError(
        `${now.deploy_id} is still ${now.status} after ${limitSeconds} s; it goes on: stoker deploy info ${now.deploy_id}`,
        exitCode.timedOut,
      );
    }
    await sleep(pauseMs);
    try {
      now = await terminal.api.call<Deployment>("GET", `/deploy/${now.deploy_id}`);
      isAwaySaid = false;
    } catch (error) {
      if (!isAway(error)) throw error;
      if (!isAwaySaid) terminal.progress(`${error.message} Still waiting.`);
      isAwaySaid = true;
    }
  }
  return now;
}

/** The server, or what it needs, is away: it may be back in a moment. */
export const isAway = (error: unknown): error is CliError =>
  error instanceof CliError && error.exitCode === exitCode.unavailable;
