import { Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import { nano, toUsd } from "../../../proto/money.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { DeployRequest } from "../../deployments/create.ts";
import { type DeploymentStatus, deploymentStatuses } from "../../deployments/deployment.ts";
import { AdapterNotFound, DeploymentNotFound, deploymentRefused } from "../../deployments/errors.ts";
import { joinArgs } from "../../deployments/extra-args.ts";
import { readStandardArgs, writeStandardArgs } from "../../deployments/standard-args.ts";
import { badRequest } from "../../service-error.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { renderLoraDeployment } from "./adapters-routes.ts";
import { GpuConfiguration } from "./containers-routes.ts";
import {
  DeployId,
  DeployLlmRequest,
  DeploymentRecord,
  DeploymentVersions,
  NewPlacementReport,
  OtherDevices,
  PlacementReport,
  RollbackRequest,
  UpdateRequest,
} from "./deployment-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";
import { renderDeployment, renderDryRun } from "./render-deployment.ts";
import { newScaling, readScaling, type ScalingSettings } from "./scaling-settings.ts";

const refusals = [404, 409];

interface Settings extends ScalingSettings {
  readonly min_instances?: number;
  readonly max_instances?: number;
  readonly inactive_shutdown?: number | null;
  readonly sleep_after_seconds?: number;
}

export function addDeployRoutes(endpoints: Endpoints, features: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "deployments", access: "key" });
  const { deployments, adapters, placement } = features;

  own.post("/deploy/llm", {
    summary: "Deploy a language model",
    idempotent: true,
    bodyLimitBytes: mediumBodyBytes,
    body: DeployLlmRequest,
    answer: DeploymentRecord,
    refusals: [400, 402, 404, 409, 423],
    async handler({ caller, body }) {
      return renderDeployment(await deployments.createLlm(caller, readDeployLlm(body)));
    },
  });

  own.post("/deploy/llm/placement", {
    summary: "Check whether a deployment would fit, and its cost, without creating it",
    right: "read",
    bodyLimitBytes: mediumBodyBytes,
    body: DeployLlmRequest,
    answer: NewPlacementReport,
    refusals: [400, 402, 404, 409, 423],
    async handler({ caller, body }) {
      return renderDryRun(await placement.dryRunNew(caller, readDeployLlm(body)));
    },
  });

  own.get("/deploy/list", {
    isOpenToOperators: true,
    summary: "List deployments of the account, including failed ones and the last 1,000 deleted ones",
    query: Type.Object({
      status: Type.Optional(Type.String({ maxLength: 500, description: "Comma list of statuses" })),
    }),
    answer: Type.Array(DeploymentRecord),
    refusals: [400],
    async handler({ caller, query }) {
      const statuses = readStatuses(query.status);
      const own = (await adapters.list(caller.account, undefined)).filter(
        ({ status }) => statuses === undefined || statuses.includes(status),
      );
      return [...(await deployments.list(caller, statuses)).map(renderDeployment), ...own.map(renderLoraDeployment)];
    },
  });

  own.get("/deploy/:deploy_id", {
    isOpenToOperators: true,
    summary: "Get a deployment",
    answer: DeploymentRecord,
    refusals,
    handler: ({ caller, params }) =>
      orAdapter(
        async () => {
          const found = await deployments.get(caller, params.deploy_id as DeploymentId);
          const { hourRate, asleepHourRate } = await placement.priceOf(found);
          const price = { usd_per_hour: toUsd(nano(hourRate)), usd_per_hour_asleep: toUsd(nano(asleepHourRate)) };
          const devices = found.gpu === "other" ? { devices: [...(await placement.devicesOf(found))] } : {};
          return { ...renderDeployment(found), price, ...devices };
        },
        async () => renderLoraDeployment(await adapters.get(caller, params.deploy_id)),
      ),
  });

  own.put("/deploy/:deploy_id", {
    summary: "Change scale or arguments",
    bodyLimitBytes: mediumBodyBytes,
    body: UpdateRequest,
    answer: DeployId,
    refusals: [400, 402, 423, ...refusals],
    async handler({ caller, params, body }) {
      const settings = body.settings as Settings | null | undefined;
      await deployments.update(caller, params.deploy_id as DeploymentId, {
        ...(settings?.min_instances === undefined ? {} : { minInstances: settings.min_instances }),
        ...(settings?.max_instances === undefined ? {} : { maxInstances: settings.max_instances }),
        ...(settings?.inactive_shutdown === undefined ? {} : { inactiveShutdown: settings.inactive_shutdown }),
        ...(settings?.sleep_after_seconds === undefined ? {} : { sleepAfterSeconds: settings.sleep_after_seconds }),
        ...readScaling(settings),
        ...(body.extra_args ? { extraArgs: joinArgs(body.extra_args as string[]) } : {}),
        ...(body.standard_args ? { standardArgs: readStandardArgs(body.standard_args) } : {}),
      });
      return { deploy_id: params.deploy_id };
    },
  });

  addDeployVerbs(endpoints, features);
  addVersions(endpoints, features);
}

function addVersions(endpoints: Endpoints, { deployments }: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "deployments", access: "key" });

  own.get("/deploy/:deploy_id/versions", {
    isOpenToOperators: true,
    summary: "List the arguments that a deployment has run with",
    answer: DeploymentVersions,
    refusals: [404],
    handler: async ({ caller, params }) => ({
      versions: (await deployments.versions(caller, params.deploy_id as DeploymentId)).map((one) => ({
        version: one.version,
        created_at: unixSeconds(one.createdAtMs),
        extra_args: [...one.extraArgs],
        standard_args: writeStandardArgs(one.standardArgs),
        is_desired: one.isDesired,
        is_serving: one.isServing,
      })),
    }),
  });

  own.post("/deploy/:deploy_id/rollback", {
    summary: "Return to the arguments of an earlier version; instances are replaced one at a time",
    body: RollbackRequest,
    answer: Type.Object({ deploy_id: Type.String(), version: Type.Integer() }),
    refusals: [400, 402, 423, ...refusals],
    handler: async ({ caller, params, body }) => ({
      deploy_id: params.deploy_id,
      version: await deployments.rollBack(caller, params.deploy_id as DeploymentId, body.version),
    }),
  });
}

function addDeployVerbs(endpoints: Endpoints, { deployments, adapters }: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "deployments", access: "key" });

  const verbs = [
    { method: "delete", path: "/deploy/:deploy_id", summary: "Delete a deployment", verb: deployments.remove },
    { method: "post", path: "/deploy/:deploy_id/stop", summary: "Stop a deployment", verb: deployments.stop },
    {
      method: "post",
      path: "/deploy/:deploy_id/start",
      summary: "Start a stopped or failed deployment",
      verb: deployments.start,
      more: [402, 423],
    },
  ] as const;
  for (const { method, path, summary, verb, ...rest } of verbs) {
    own[method](path, {
      summary,
      answer: DeployId,
      refusals: [400, ...refusals, ...("more" in rest ? rest.more : [])],
      async handler({ caller, params, reply }) {
        const act = actOf(caller, reply);
        const change = () => verb.call(deployments, caller, params.deploy_id as DeploymentId, act);
        if (method === "delete") await orAdapter(change, () => adapters.remove(caller, params.deploy_id));
        else await change();
        return { deploy_id: params.deploy_id };
      },
    });
  }
}

/** Ids of adapters and deployments share one name space. */
async function orAdapter<A, B>(ofDeployment: () => Promise<A>, ofAdapter: () => Promise<B>): Promise<A | B> {
  try {
    return await ofDeployment();
  } catch (error) {
    if (!(error instanceof DeploymentNotFound)) throw error;
    return ofAdapter().catch((other) => {
      throw other instanceof AdapterNotFound ? error : other;
    });
  }
}

/** Reads a comma list; undefined: none was sent. Throws badRequest. */
export function readStatuses(list: string | undefined): readonly DeploymentStatus[] | undefined {
  if (!list) return undefined;
  return list.split(",").map((word) => {
    const status = word.trim() === "running" ? "deployed" : word.trim();
    if (!(deploymentStatuses as readonly string[]).includes(status)) {
      throw badRequest(
        "bad_request",
        `Unknown status ${status.slice(0, 40)}. Supported: ${deploymentStatuses.join(", ")}.`,
        {
          param: "status",
        },
      );
    }
    return status as DeploymentStatus;
  });
}

interface Hf {
  readonly repo: string;
  readonly revision?: string | null;
  readonly token?: string | null;
}
interface Settings {
  readonly min_instances?: number;
  readonly max_instances?: number;
  readonly inactive_shutdown?: number | null;
  readonly sleep_after_seconds?: number;
}

/** Returns the body of POST /deploy/llm with its defaults. Throws deploymentRefused. */
function readDeployLlm(body: DeployLlmRequest): DeployRequest {
  if (body.preset_id) throw deploymentRefused("preset_id: presets are not supported. Omit it.", { param: "preset_id" });
  const hf = body.hf as Hf | null | undefined;
  const settings = body.settings as Settings | null | undefined;
  return {
    modelName: body.model_name,
    gpu: body.gpu,
    numGpus: body.num_gpus ?? 1,
    maxBatchSize: body.max_batch_size ?? 96,
    hf: hf
      ? {
          repo: hf.repo,
          ...(hf.revision ? { revision: hf.revision } : {}),
          ...(hf.token ? { token: hf.token } : {}),
        }
      : undefined,
    baseModel: body.base_model ?? undefined,
    minInstances: settings?.min_instances ?? 1,
    maxInstances: settings?.max_instances ?? Math.max(1, settings?.min_instances ?? 1),
    ...newScaling(settings),
    ...(settings?.inactive_shutdown ? { inactiveShutdown: settings.inactive_shutdown } : {}),
    ...(settings?.sleep_after_seconds === undefined ? {} : { sleepAfterSeconds: settings.sleep_after_seconds }),
    extraArgs: joinArgs((body.extra_args ?? []) as string[]),
    standardArgs: readStandardArgs(body.standard_args),
    engine: body.engine,
    image: (body.container_image as string | null | undefined) ?? undefined,
  };
}

const ModelGpus = Type.Object({
  gpus: Type.Array(Type.Object({ ...GpuConfiguration.properties, devices: OtherDevices })),
});

export function addPlacementRoutes(endpoints: Endpoints, { placement }: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "deployments", access: "key" });

  own.get("/deploy/llm/gpu_availability", {
    isOpenToOperators: true,
    summary: "List GPU configurations for models with their availability and price",
    query: Type.Object({
      source: Type.Optional(Type.String({ maxLength: 256, description: "Weights repository for which to recommend" })),
      base_model: Type.Optional(Type.String({ maxLength: 256, description: "Public model for which to recommend" })),
    }),
    answer: ModelGpus,
    refusals: [404],
    async handler({ caller, query }) {
      const gpus = await placement.gpus(caller, { source: query.source ?? "", baseModel: query.base_model ?? "" });
      return {
        gpus: gpus.map(({ gpu, count, hourRate, isAvailable, isRecommended, devices }) => ({
          gpu_config: `${count}x${gpu}`,
          usd_per_hour: toUsd(nano(hourRate)),
          available: isAvailable,
          recommended: isRecommended,
          devices: [...devices],
        })),
      };
    },
  });

  own.get("/deploy/:deploy_id/placement", {
    isOpenToOperators: true,
    summary: "Check whether one more instance would fit, and why hosts refuse it",
    answer: PlacementReport,
    refusals: [404],
    async handler({ caller, params }) {
      const { host, refused } = await placement.dryRun(caller, params.deploy_id as DeploymentId);
      return { fits: host !== undefined, refused: refused.map(({ host, why }) => ({ host, why })) };
    },
  });
}
