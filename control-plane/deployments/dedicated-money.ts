// Running instances are paid for in advance: this keeps their next minutes held, and stops in time what cannot be paid. The
// money itself is billing's; deployments know who runs.
import type { Logger } from "pino";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import { nano, toUsd } from "../../proto/money.ts";
import type { HostState } from "../fleet/host.ts";
import type { Deployment } from "./deployment.ts";
import { NoFunds } from "./errors.ts";
import { isWanted } from "./lifecycle.ts";
import type { DeploymentStore } from "./store.ts";

export interface RunningInstance {
  readonly instance: InstanceId;
  readonly deployId: DeploymentId;
  readonly account: AccountId;
  /** Type, or the subject of another price by the hour. */
  readonly gpu: string;
  /** A part of one where it shares it. */
  readonly gpus: number;
}

export type HoldRefusal =
  /** What the next minutes cost, nano-USD. */
  { readonly kind: "funds"; readonly needed: bigint } | { readonly kind: "suspended"; readonly reason: string };

/** The money of running instances, as billing keeps it. */
export interface TimeHolds {
  /** Those whose next minutes could not be held, and how long what was held before still lasts. */
  renew(
    running: readonly RunningInstance[],
  ): Promise<
    readonly (Pick<RunningInstance, "deployId" | "account"> & { readonly why: HoldRefusal; readonly leftMs: number })[]
  >;
}

export interface FundsDeps {
  /** Nano-USD that the account may still spend; null: no limit. */
  readonly funds: (account: AccountId) => Promise<bigint | null>;
  /** Nano-USD that `count` instances hold when they start; 0n where the GPU type has no price. */
  readonly firstMinutes: (
    gpu: string,
    gpusPerInstance: number,
    count: number,
    /** Whose discounts apply. */
    of: { readonly account: AccountId; readonly model: string },
  ) => Promise<bigint>;
}

/** Throws NoFunds when the account could not hold the first minutes of what is to run. Nothing is reserved yet. */
export async function requireFunds(
  deps: FundsDeps,
  account: AccountId,
  want: Pick<Deployment, "modelName" | "gpu" | "numGpus" | "minInstances">,
): Promise<void> {
  const funds = await deps.funds(account);
  if (funds === null) return;
  const { gpu, numGpus, minInstances, modelName: model } = want;
  const needed = await deps.firstMinutes(gpu, numGpus, Math.max(1, minInstances), { account, model });
  if (funds <= 0n || funds < needed) throw new NoFunds(needed);
}

/** Two more renewals are tried before this; then there is still time to drain. */
const stopAtMs = 2 * 60_000;

export interface HoldKeeper {
  /** Every minute, and when a deployment changed: an instance that has just become ready is not held yet. */
  pass(): Promise<void>;
}

export function createHoldKeeper(deps: {
  readonly store: Pick<DeploymentStore, "active" | "get" | "change">;
  readonly holds: TimeHolds;
  readonly hostState: (host: HostId) => HostState;
  readonly log: Logger;
}): HoldKeeper {
  const { store, log } = deps;

  /** Ready, and heard of: for a host that is silent nobody promises more time. */
  async function running(): Promise<readonly RunningInstance[]> {
    return (await store.active(undefined)).flatMap(({ deployment, instances }) =>
      instances
        .filter(
          (one) =>
            one.phase === "ready" &&
            !one.isTombstoned &&
            (one.gpuUuids.length > 0 || deployment.priceSubject !== undefined),
        )
        .filter((one) => deps.hostState(one.hostId) === "live")
        .map((one) => ({
          instance: one.id,
          deployId: deployment.id,
          account: deployment.account,
          gpu: deployment.priceSubject ?? deployment.gpu,
          gpus: deployment.priceSubject === undefined ? deployment.numGpus * one.gpuShare : 1,
        })),
    );
  }

  async function stop(id: DeploymentId, account: AccountId, why: HoldRefusal): Promise<void> {
    const now = await store.get(id, account);
    if (!now || !isWanted(now.status)) return;
    const failReason = reasonOf(why);
    // Moved meanwhile: the next pass looks again, and there is time for it.
    if (!(await store.change(id, account, now.revision, { status: "stopping", failReason }))) return;
    log.warn({ deployment: id, account, failReason }, "deployment stopped: its GPU time cannot be held");
  }

  return {
    async pass() {
      const refused = await deps.holds.renew(await running());
      const due = new Map(refused.filter((one) => one.leftMs < stopAtMs).map((one) => [one.deployId, one]));
      for (const { deployId, account, why } of due.values()) await stop(deployId, account, why);
    },
  };
}

function reasonOf(why: HoldRefusal): string {
  if (why.kind === "suspended")
    return `account_suspended: your account is suspended (${why.reason}), so the deployment was stopped. Clear the reason, then start it again.`;
  const usd = toUsd(nano(why.needed));
  return `insufficient_funds: the next five minutes of an instance cost USD ${usd} and your funds do not cover them, so the deployment was stopped. Add funds, then start it again.`;
}
