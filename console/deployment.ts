import { bytes } from "./format.ts";

export interface Deployment {
  readonly type: string;
  readonly deploy_id: string;
  readonly model_name: string;
  readonly task: string;
  readonly status: string;
  readonly fail_reason: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly instances: { readonly running: number; readonly pending: number; readonly warming: number };
  readonly config: {
    readonly gpu: string;
    readonly num_gpus: number;
    readonly max_batch_size: number;
    readonly weights: { readonly repo: string; readonly revision: string };
  } | null;
  readonly settings: {
    readonly min_instances: number;
    readonly max_instances: number;
    readonly inactive_shutdown: number | null;
  };
  readonly update_error: string;
  readonly rollout: { readonly up_to_date: number; readonly outdated: number; readonly booting: number };
  readonly progress: {
    readonly phase: string;
    readonly done_bytes: number;
    readonly total_bytes: number;
    /** Empty: nothing. */
    readonly trouble: string;
  } | null;
  readonly pending_reasons: readonly { readonly host: string; readonly why: string }[];
}

export function gpusInWords({ config }: Deployment): string {
  return config && config.num_gpus > 0 ? `${config.num_gpus} × ${config.gpu}` : "none";
}

/** `2 of 3 running`, and what is on its way. */
export function instancesInWords({ instances: { running, pending } }: Deployment): string {
  return pending === 0 ? `${running} running` : `${running} of ${running + pending} running`;
}

/** Empty once it is done. */
export function progressInWords({ progress, status }: Deployment): string {
  if (!progress || status === "deployed") return "";
  const { phase, done_bytes: done, total_bytes: total } = progress;
  return total > 0 ? `${phase}: ${bytes(done)} of ${bytes(total)}` : phase;
}
