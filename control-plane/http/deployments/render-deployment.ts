import { Type } from "typebox";
import { nano, toUsd } from "../../../proto/money.ts";
import type { Deployment } from "../../deployments/deployment.ts";
import { pendingOf, targetOf } from "../../deployments/lifecycle.ts";
import type { NewDryRun } from "../../deployments/placement-preview.ts";
import { ownArgs, writeStandardArgs } from "../../deployments/standard-args.ts";
import { wireRecord } from "../core/wire-record.ts";
import { DeploymentRecord } from "./deployment-schemas.ts";
import { writeScaling } from "./scaling-settings.ts";

/** Deployment without the fields that only `GET /deploy/ID` returns. */
const Listed = Type.Omit(DeploymentRecord, ["price", "devices"]);

/** Renders a deployment. The hub token is masked. */
export function renderDeployment(one: Deployment): DeploymentRecord {
  const { config } = DeploymentRecord.properties;
  const { weights } = one;
  return wireRecord(Listed, one, {
    deploy_id: one.id,
    created_at: isoTime(one.createdAtMs),
    updated_at: isoTime(one.updatedAtMs),
    instances: {
      running: one.running,
      pending: pendingOf({ status: one.status, target: targetOf(one) }, one.running),
      warming: one.rollout.booting,
    },
    config: wireRecord(config, one, {
      weights: { repo: weights.repo, revision: weights.revision, token: one.hasWeightsToken ? "********" : null },
    }),
    settings: {
      min_instances: one.minInstances,
      max_instances: one.maxInstances,
      inactive_shutdown: one.inactiveShutdown,
      sleep_after_seconds: one.sleepAfterSeconds ?? 0,
      ...writeScaling(one.scaling),
    },
    extra_args: [...ownArgs(one)],
    standard_args: writeStandardArgs(one.standardArgs ?? {}),
  });
}

/** Returns a time such as `2026-01-02T03:04:05+00:00`. */
export function isoTime(unixMs: number): string {
  return `${new Date(unixMs).toISOString().slice(0, 19)}+00:00`;
}

export const renderDryRun = (found: NewDryRun) => ({
  fits: found.host !== undefined,
  refused: found.refused.map(({ host, why }) => ({ host, why })),
  repository: found.repository,
  engine: found.engine,
  memory_bytes: found.memoryBytes,
  usd_per_hour: toUsd(nano(found.hourRate)),
});
