// Limits that a form changes.
import type { Responses } from "../../proto/gen/responses.ts";

type Limits = Responses["GET /v1/admin/accounts/{uid}/limits"];
type Counts = Readonly<Record<string, number | null>>;

export interface LimitChange {
  readonly rate_limit?: number | null;
  readonly tpm_rate_limit?: number | null;
  readonly weight?: number | null;
  readonly gpu_max?: Counts;
  readonly gpu_min?: Counts;
}

/** Only what differs from `now`; an empty field: null, the installation's default. Fields: `requests`, `tokens`, `weight`, `max GPU`, `min GPU`. */
export function changedLimits(
  fields: Readonly<Record<string, string>>,
  now: Limits,
  gpus: readonly string[],
): LimitChange {
  const changeOf = (name: string, before: number): number | null | undefined => {
    const typed = fields[name];
    if (typed === undefined) return undefined;
    if (typed === "") return null;
    return Number(typed) === before ? undefined : Number(typed);
  };
  const countsOf = (bound: "max" | "min"): Counts | undefined => {
    const changes = gpus.flatMap((gpu) => {
      const change = changeOf(`${bound} ${gpu}`, now[`gpu_${bound}`][gpu] ?? 0);
      return change === undefined ? [] : [[gpu, change] as const];
    });
    return changes.length === 0 ? undefined : Object.fromEntries(changes);
  };
  const change = {
    rate_limit: changeOf("requests", now.rate_limit),
    tpm_rate_limit: changeOf("tokens", now.tpm_rate_limit),
    weight: changeOf("weight", now.weight),
    gpu_max: countsOf("max"),
    gpu_min: countsOf("min"),
  };
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
}
