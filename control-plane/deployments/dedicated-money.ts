// Running instances are prepaid: this keeps their next minutes held, and stops in time those that cannot be paid. Billing
// owns the money; deployments know which instances run.

import type { Logger } from "pino";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import { isServing } from "../../proto/instance-phase.ts";
import { nano, toUsd } from "../../proto/money.ts";
import type { HostState } from "../fleet/host.ts";
import type { Deployment } from "./deployment.ts";
import { noFunds } from "./errors.ts";
import { isWanted } from "./lifecycle.ts";
import type { DeploymentStore } from "./store.ts";

export interface RunningInstance {
  readonly instance: InstanceId;
  readonly deployId: DeploymentId;
  readonly account: AccountId;
  /** GPU type, or the subject of another hourly price. */
  readonly gpu: string;
  /** A fraction for a shared GPU. */
  readonly gpus: number;
}

export type HoldRefusal =
  /** Cost of the next minutes, in nano-USD. */
  { readonly kind: "funds"; readonly needed: bigint } | { readonly kind: "suspended"; readonly reason: string };

/** Holds for running instances, implemented by billing. */
export interface TimeHolds {
  /** Returns those whose next minutes could not be held, and how long their current hold lasts. */
  renew(
    running: readonly RunningInstance[],
  ): Promise<
    readonly (Pick<RunningInstance, "deployId" | "account"> & { readonly why: HoldRefusal; readonly leftMs: number })[]
  >;
}

export interface FundsDeps {
  /** Nano-USD that the account may still spend; null: unlimited. */
  readonly funds: (account: AccountId) => Promise<bigint | null>;
  /** Nano-USD that `count` instances hold at start; 0n where the GPU type has no price. */
  readonly firstMinutes: (
    gpu: string,
    gpusPerInstance: number,
    count: number,
    /** Owner whose discounts apply. */
    of: { readonly account: AccountId; readonly model: string },
  ) => Promise<bigint>;
}

/** Throws noFunds when the account cannot hold the first minutes. Reserves nothing yet. */
export async function requireFunds(
  deps: FundsDeps,
  account: AccountId,
  want: Pick<Deployment, "modelName" | "gpu" | "numGpus" | "minInstances">,
): Promise<void> {
  const funds = await deps.funds(account);
  if (funds === null) return;
  const { gpu, numGpus, minInstances, modelName: model } = want;
  const needed = await deps.firstMinutes(gpu, numGpus, Math.max(1, minInstances), { account, model });
  if (funds <= 0n || funds < needed) throw noFunds(needed);
}

/** Returns whether the account can pay for the first minutes of `count` more instances. Reserves nothing yet. */
export async function affords(
  { funds, firstMinutes }: FundsDeps,
  deployment: Pick<Deployment, "account" | "modelName" | "gpu" | "numGpus" | "priceSubject">,
  count: number,
): Promise<boolean> {
  const { account, modelName: model, gpu, numGpus, priceSubject } = deployment;
  const left = await funds(account);
  if (left === null) return true;
  const needed = await firstMinutes(priceSubject ?? gpu, numGpus, count, { account, model });
  return needed === 0n || left >= needed;
}

/** Two more renewals are tried before this; enough time is left to drain. */
const stopAtMs = 2 * 60_000;

export interface HoldKeeper {
  /** Called every minute and when a deployment changed: a newly ready instance has no hold yet. */
  pass(): Promise<void>;
}

export function createHoldKeeper(deps: {
  readonly store: Pick<DeploymentStore, "active" | "get" | "change">;
  readonly holds: TimeHolds;
  readonly hostState: (host: HostId) => HostState;
  readonly log: Logger;
}): HoldKeeper {
  const { store, log } = deps;

  /** Ready instances of responsive hosts: a silent host gets no further holds. */
  async function running(): Promise<readonly RunningInstance[]> {
    return (await store.active(undefined)).flatMap(({ deployment, instances }) =>
      instances
        .filter(
          (one) =>
            isServing(one.phase) &&
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
    // The row changed: the next pass retries in time.
    if (!(await store.change(id, account, now.revision, { status: "stopping", failReason }))) return;
    log.warn({ deployment: id, account, failReason }, "deployment stopped: could not hold its GPU time");
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
