import type { Responses } from "../proto/gen/responses.ts";
import { bytes } from "./format.ts";

export type Deployment = Responses["GET /deploy/{deploy_id}"];

export function gpusText({ config }: Deployment): string {
  return config && config.num_gpus > 0 ? `${config.num_gpus} × ${config.gpu}` : "none";
}

/** `2 of 3 running`. */
export function instancesText({ instances: { running, pending } }: Deployment): string {
  return pending === 0 ? `${running} running` : `${running} of ${running + pending} running`;
}

/** Empty once deployed and awake. */
export function progressText({ progress, status }: Deployment): string {
  if (progress?.phase === "asleep" || progress?.phase === "waking") return progress.phase;
  if (!progress || status === "deployed") return "";
  const { phase, done_bytes: done, total_bytes: total } = progress;
  return total > 0 ? `${phase}: ${bytes(done)} of ${bytes(total)}` : phase;
}
