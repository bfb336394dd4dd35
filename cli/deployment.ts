import type { Responses } from "../proto/gen/responses.ts";
import { CliError, exitCode } from "./cli-error.ts";
import { poll } from "./poll.ts";
import type { Terminal } from "./terminal.ts";

type Shown = Responses["GET /deploy/{deploy_id}"];

/** The deployment record as the API sends it. Older servers omit the fields that were added later. */
export type Deployment = Partial<Shown> &
  Pick<Shown, "deploy_id" | "model_name" | "status" | "fail_reason" | "created_at">;

/** `deployed 1/2`: running and desired instances. */
export function statusText({ status, instances }: Deployment): string {
  if (!instances) return status;
  if (instances.running + instances.pending === 0) return status === "deployed" ? "deployed (asleep)" : status;
  return `${status} ${instances.running}/${instances.running + instances.pending}`;
}

/** Progress of a start, such as `downloading 0/1, 35 % of 4.5 GiB`, and the reasons if no host accepts it. */
function phaseText(one: Deployment): string {
  const { progress, pending_reasons: reasons = [], instances } = one;
  const parts = [statusText(one)];
  if (progress?.phase === "downloading" && progress.total_bytes > 0) {
    // In steps of 5 %, to limit the number of lines.
    const percent = Math.floor((20 * progress.done_bytes) / progress.total_bytes) * 5;
    parts.push(`${percent} % of ${(progress.total_bytes / 1024 ** 3).toFixed(1)} GiB`);
  } else if (progress && isStarting(one) && progress.phase !== one.status && progress.phase !== "ready") {
    parts.push(progress.phase);
  }
  const trouble = isStarting(one) && progress?.trouble ? `; ${progress.trouble}` : "";
  const text = `${parts.join(", ")}${trouble}`;
  if (reasons.length === 0 || !isStarting(one) || (instances?.running ?? 0) > 0) return text;
  return [`${text}; waiting for a host:`, ...reasons.map(({ host, why }) => `  ${host ? `${host}: ` : ""}${why}`)].join(
    "\n",
  );
}

const isStarting = ({ status }: Deployment) =>
  ["initializing", "downloading", "deploying", "updating"].includes(status);

/** Prints each status change on stderr and returns the deployed record. Throws on failure and after the limit. */
export async function waitUntilDeployed(
  terminal: Terminal,
  created: Deployment,
  limitSeconds: number,
  pauseMs = 500,
): Promise<Deployment> {
  const id = created.deploy_id;
  const last = await poll(terminal, {
    first: created,
    read: () => terminal.api.call<Deployment>("GET", `/deploy/${id}`),
    isDone: ({ status }) => ["deployed", "failed", "stopped", "deleted"].includes(status),
    text: phaseText,
    pauseMs,
    limitSeconds,
    timeoutText: ({ status }) =>
      `${id} is still ${status} after ${limitSeconds} s. It continues in the background: stoker deploy info ${id}`,
  });
  if (last.status === "deployed") return last;
  throw new CliError(`${id} ${last.status}: ${last.fail_reason || "no reason given"}`, exitCode.failed);
}
