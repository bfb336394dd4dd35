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
  /** Why the last update was taken back; empty otherwise. */
  readonly update_error?: string;
  readonly rollout?: { readonly up_to_date: number; readonly outdated: number; readonly booting: number };
  readonly settings?: { readonly min_instances: number; readonly max_instances: number };
}

/** `deployed 1/2`: instances that run of those wanted now. */
export function statusText({ status, instances }: Deployment): string {
  if (!instances) return status;
  if (instances.running + instances.pending === 0) return status === "deployed" ? "deployed (asleep)" : status;
  return `${status} ${instances.running}/${instances.running + instances.pending}`;
}

/** Prints each change on stderr; returns the deployed record, or throws on `failed` and when the time is up. */
export async function waitUntilDeployed(
  terminal: Terminal,
  created: Deployment,
  limitSeconds: number,
): Promise<Deployment> {
  const deadline = performance.now() + limitSeconds * 1000;
  let now = created;
  let said = "";
  while (now.status !== "deployed") {
    if (statusText(now) !== said) terminal.progress(statusText(now));
    said = statusText(now);
    if (["failed", "stopped", "deleted"].includes(now.status)) {
      throw new CliError(`${now.deploy_id} ${now.status}: ${now.fail_reason || "no reason given"}`, exitCode.failed);
    }
    if (performance.now() > deadline) {
      throw new CliError(
        `${now.deploy_id} is still ${now.status} after ${limitSeconds} s; it goes on: stoker deploy info ${now.deploy_id}`,
        exitCode.timedOut,
      );
    }
    await sleep(500);
    now = await terminal.api.call<Deployment>("GET", `/deploy/${now.deploy_id}`);
  }
  return now;
}
