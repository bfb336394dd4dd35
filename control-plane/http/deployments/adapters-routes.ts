// LoRA adapters. Names contain a slash: each path accepts it unencoded, and is described with it encoded.

import { type Static, Type } from "typebox";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { Adapter, AdapterOrigin } from "../../deployments/adapter.ts";
import { adapterRefused } from "../../deployments/errors.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import { ModelSummaries } from "../models/models-schemas.ts";
import { renderModelSummaries } from "../models/render-models.ts";
import { DeploymentRecord } from "./deployment-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";
import { isoTime } from "./render-deployment.ts";

const LoraModelRequest = Type.Object({
  hf_model_name: Type.String({ minLength: 1, description: "Hub repository of the adapter, in PEFT format" }),
  lora_model_name: Type.String({ minLength: 1, description: "<owner>/<name>; model name in requests" }),
  hf_token: Type.Optional(nullable.string({ description: "Stored encrypted, never shown" })),
  base_model_name: Type.Optional(
    nullable.string({ description: "A served model; default: the base model that the hub names" }),
  ),
});

const LoraCreateRequest = Type.Object({
  base_model: Type.String({ minLength: 1 }),
  lora_name: Type.String({ minLength: 1, description: "<owner>/<name>" }),
  source: Type.Object({
    type: Type.String({
      description:
        "huggingface with `repo`; civitai with `civit_url`, or url with `url`: one .safetensors file of an image model's adapter",
    }),
    repo: Type.Optional(nullable.string()),
    revision: Type.Optional(nullable.string()),
    file: Type.Optional(
      nullable.string({ description: "File of the repository; default: adapter_model or pytorch_lora_weights" }),
    ),
    civit_url: Type.Optional(nullable.string({ maxLength: 4_096 })),
    url: Type.Optional(nullable.string({ maxLength: 4_096, description: "https:// with a public address" })),
    token: Type.Optional(
      nullable.string({ description: "Token of the hub, or for the URL's host only. Stored encrypted, never shown" }),
    ),
  }),
  private: Type.Optional(nullable.boolean({ default: true })),
  description: Type.Optional(nullable.string({ maxLength: 2_000 })),
});

const LoraChange = Type.Object({
  private: Type.Optional(nullable.boolean()),
  description: Type.Optional(nullable.string({ maxLength: 2_000 })),
});

export const LoraStatus = Type.Object({
  lora_name: Type.String(),
  base_model: Type.String(),
  deploy_id: Type.String(),
  status: Type.String({ description: "initializing, downloading, deploying, deployed, failed" }),
  fail_reason: Type.String({ description: "Also the cause of a retry while it is not deployed" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
  updated_at: Type.Integer({ description: "Unix seconds" }),
});

export const Lora = Type.Object({
  ...LoraStatus.properties,
  source: Type.Object({
    type: Type.String(),
    repo: Type.Optional(Type.String()),
    revision: Type.Optional(Type.String()),
    file: Type.Optional(Type.String()),
    civit_url: Type.Optional(Type.String({ description: "Without query and fragment" })),
    url: Type.Optional(Type.String({ description: "Without query and fragment" })),
  }),
  commit: Type.String({
    description: "Commit of the repository, or sha256 of the file; empty until it is known",
  }),
  private: Type.Boolean({ description: "Stored only: an adapter serves only its own account" }),
  description: Type.String(),
  instances: Type.Object({ running: Type.Integer({ description: "Instances of the base model that have it loaded" }) }),
});
const Loras = Type.Array(Lora);

const creating = { idempotent: true, answer: DeploymentRecord, refusals: [400, 402, 404, 409, 423] };
const one = { refusals: [404] };

const named = (name: string) =>
  [
    { at: `:${name}`, params: Type.Object({ [name]: Type.String() }), isHidden: false },
    { at: ":owner/:name", params: Type.Object({ owner: Type.String(), name: Type.String() }), isHidden: true },
  ] as const;
const nameIn = (params: unknown) => Object.values(params as Record<string, string>).join("/");

/** Throws adapterRefused. */
function originOf(source: Static<typeof LoraCreateRequest>["source"]): AdapterOrigin {
  const { type, repo, url, civit_url: civitUrl } = source;
  if (type === "huggingface" && repo)
    return { kind: type, repo, revision: source.revision || undefined, file: source.file || undefined };
  if (type === "civitai" && civitUrl) return { kind: type, url: civitUrl };
  if (type === "url" && url) return { kind: type, url };
  throw adapterRefused(
    "source",
    "give type huggingface and `repo`; or, for an image model's adapter in one .safetensors file, civitai and `civit_url`, or url and `url`.",
  );
}

export function addAdapterRoutes(endpoints: Endpoints, features: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "lora", access: "key" });
  const { adapters } = features;

  own.post("/lora-model", {
    ...creating,
    summary: "Deploy a LoRA adapter of the hub on a served model",
    bodyLimitBytes: mediumBodyBytes,
    body: LoraModelRequest,
    handler: async ({ caller, body }) =>
      renderLoraDeployment(
        await adapters.create(caller, {
          name: body.lora_model_name,
          origin: { kind: "huggingface", repo: body.hf_model_name, revision: undefined, file: undefined },
          token: body.hf_token || undefined,
          baseModel: body.base_model_name || undefined,
          isPrivate: true,
          description: "",
          fields: { name: "lora_model_name", repo: "hf_model_name", base: "base_model_name" },
        }),
      ),
  });

  own.post("/v1/lora/create", {
    ...creating,
    summary: "Deploy a LoRA adapter of the hub or a URL, with a description",
    bodyLimitBytes: mediumBodyBytes,
    body: LoraCreateRequest,
    async handler({ caller, body }) {
      const { source } = body;
      return renderLoraDeployment(
        await adapters.create(caller, {
          name: body.lora_name,
          origin: originOf(source),
          token: source.token || undefined,
          baseModel: body.base_model,
          isPrivate: body.private ?? true,
          description: body.description ?? "",
          fields: { name: "lora_name", repo: "source", base: "base_model" },
        }),
      );
    },
  });

  addOwnAdapterRoutes(endpoints, features);
}

function addOwnAdapterRoutes(endpoints: Endpoints, { adapters, spine }: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "lora", access: "key" });
  const open = endpoints.with({ tag: "models", access: "public" });

  for (const { at, params, isHidden } of named("lora_name")) {
    own.get(`/v1/lora/${at}/status`, {
      ...one,
      summary: "Get the status of an adapter",
      isHidden,
      params,
      answer: LoraStatus,
      handler: async ({ caller, params }) => renderLoraStatus(await adapters.get(caller, nameIn(params))),
    });
    own.get(`/v1/lora/${at}`, {
      ...one,
      summary: "Get an adapter",
      isHidden,
      params,
      answer: Lora,
      handler: async ({ caller, params }) => renderLora(await adapters.get(caller, nameIn(params))),
    });
    own.patch(`/v1/lora/${at}`, {
      ...one,
      summary: "Change the description or visibility of an adapter",
      isHidden,
      params,
      bodyLimitBytes: mediumBodyBytes,
      body: LoraChange,
      refusals: [400, ...one.refusals],
      answer: Lora,
      handler: async ({ caller, params, body }) =>
        renderLora(
          await adapters.change(caller, nameIn(params), {
            ...(body.private == null ? {} : { isPrivate: body.private }),
            ...(body.description == null ? {} : { description: body.description }),
          }),
        ),
    });
  }

  for (const prefix of ["/v1/lora", "/lora-model"])
    for (const { at, params, isHidden } of named(prefix === "/v1/lora" ? "lora_name" : "lora_model_name"))
      own.delete(`${prefix}/${at}`, {
        ...one,
        summary: "Delete an adapter; its name is free at once",
        isHidden,
        params,
        answer: DeploymentRecord,
        handler: async ({ caller, params }) => renderLoraDeployment(await adapters.remove(caller, nameIn(params))),
      });

  for (const { at, params, isHidden } of named("model_name"))
    own.get(`/v1/model/${at}/loras`, {
      summary: "List your adapters of one base model",
      isHidden,
      params,
      answer: Loras,
      handler: async ({ caller, params }) => (await adapters.list(caller.account, nameIn(params))).map(renderLora),
    });

  own.get("/v1/user/loras", {
    isOpenToOperators: true,
    summary: "List your adapters",
    answer: Loras,
    handler: async ({ caller }) => (await adapters.list(caller.account, undefined)).map(renderLora),
  });

  open.get("/models/lora/list", {
    summary: "List public models that accept LoRA adapters",
    isFromMemory: true,
    answer: ModelSummaries,
    handler: ({ caller }) =>
      renderModelSummaries(
        spine.models.list(caller.account).filter((one) => one.takesAdapters),
        new Map(),
      ),
  });
}

function renderLoraStatus(one: Adapter): Static<typeof LoraStatus> {
  return {
    lora_name: one.name,
    base_model: one.baseModel,
    deploy_id: one.id,
    status: one.status,
    fail_reason: one.failReason,
    created_at: unixSeconds(one.createdAtMs),
    updated_at: unixSeconds(one.updatedAtMs),
  };
}

function renderLora(one: Adapter): Static<typeof Lora> {
  return {
    ...renderLoraStatus(one),
    source: renderSource(one),
    commit: one.commit,
    private: one.isPrivate,
    description: one.description,
    instances: { running: one.held },
  };
}

/** Query and fragment of a URL are omitted, because they may be secret. */
const renderSource = ({ source, repo, revision, file }: Adapter) =>
  source === "huggingface"
    ? { type: source, repo, revision, ...(file === "" ? {} : { file }) }
    : { type: source, [source === "civitai" ? "civit_url" : "url"]: repo };

/** Renders the deployment record of type `lora`: it runs on the instances of its base model. */
export function renderLoraDeployment(one: Adapter): DeploymentRecord {
  const isComing = ["initializing", "downloading", "deploying"].includes(one.status);
  return {
    type: "lora",
    deploy_id: one.id,
    model_name: one.name,
    version: one.revision || one.commit,
    task: one.base.task,
    status: one.status,
    fail_reason: one.status === "failed" ? one.failReason : "",
    created_at: isoTime(one.createdAtMs),
    updated_at: isoTime(one.updatedAtMs),
    instances: { running: one.held, pending: isComing ? 1 : 0, warming: 0 },
    config: {
      gpu: one.base.gpu,
      num_gpus: one.base.numGpus,
      max_batch_size: one.base.maxBatchSize,
      weights: { repo: one.repo, revision: one.revision, token: one.hasToken ? "********" : null },
    },
    settings: { min_instances: 1, max_instances: 1, inactive_shutdown: null, sleep_after_seconds: 0 },
    update_error: "",
    rollout: { up_to_date: one.held, outdated: 0, booting: 0 },
    extra_args: [],
    standard_args: {},
    progress: null,
    pending_reasons: [],
  };
}
