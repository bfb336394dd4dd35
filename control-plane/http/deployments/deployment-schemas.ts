import { type Static, Type } from "typebox";
import { maxBatchSize } from "../../../proto/batch-size.ts";
import { gpuTypes } from "../../../proto/gpu.ts";
import { type ModelEngine, modelEngines } from "../../deployments/choose-engine.ts";
import { interfaceTasks } from "../../deployments/tasks.ts";
import { nullable } from "../inference/sampling-schemas.ts";

const Gpu = Type.Unsafe<(typeof gpuTypes)[number]>({ type: "string", enum: [...gpuTypes] });

const inactiveShutdown = {
  type: ["integer", "null"],
  minimum: 60,
  maximum: 2_592_000,
  description: "Seconds without a request until no instance runs; with min_instances 0. Null: 900",
};

const standardArgs = nullable.object({
  description:
    "Settings by names that hold for every engine; what an engine has no such setting of is refused, as are other names",
  // A set replaces the one before: a misspelt name would end what it was to change.
  additionalProperties: false,
  properties: {
    max_context_size: { type: ["integer", "null"], minimum: 128, maximum: 10_000_000 },
    max_concurrent_requests: {
      type: ["integer", "null"],
      minimum: 1,
      maximum: 1024,
      description:
        "In place of max_batch_size. An update to fewer is followed at once, one to more by instances that start anew",
    },
    max_images_per_prompt: { type: ["integer", "null"], minimum: 0, maximum: 1024 },
    gpu_memory_fraction: { type: ["number", "null"], minimum: 0.5, maximum: 0.97 },
    max_prefill_tokens: { type: ["integer", "null"], minimum: 512, maximum: 131_072 },
    kv_cache_dtype: { type: ["string", "null"], enum: ["auto", "fp8", null] },
    enable_prefix_caching: { type: ["boolean", "null"] },
    quantization: { type: ["string", "null"], maxLength: 64 },
  },
});

export const DeployLlmRequest = Type.Object({
  model_name: Type.String({ minLength: 1, description: "<owner>/<model-name>" }),
  gpu: Gpu,
  num_gpus: Type.Optional(Type.Integer({ minimum: 1, maximum: 8, default: 1, description: "GPUs per instance" })),
  max_batch_size: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: maxBatchSize,
      default: 96,
      description: "Most concurrent requests of an instance",
    }),
  ),
  hf: Type.Optional(
    nullable.object({
      required: ["repo"],
      properties: {
        repo: { type: "string" },
        revision: { type: ["string", "null"] },
        token: { type: ["string", "null"], description: "Kept sealed, never shown" },
      },
    }),
  ),
  base_model: Type.Optional(nullable.string()),
  engine: Type.Optional(
    Type.Unsafe<ModelEngine>({
      type: "string",
      enum: [...modelEngines],
      description: "Which engine serves it; by default the format of the weights and the GPU decide",
    }),
  ),
  container_image: Type.Optional(nullable.string({ description: "Where the operator of the host allows it" })),
  settings: Type.Optional(
    nullable.object({
      properties: {
        min_instances: { type: "integer", minimum: 0, maximum: 1000, default: 1 },
        max_instances: { type: "integer", minimum: 1, maximum: 1000, default: 1 },
        inactive_shutdown: inactiveShutdown,
      },
    }),
  ),
  extra_args: Type.Optional(nullable.array(Type.String())),
  standard_args: Type.Optional(standardArgs),
  preset_id: Type.Optional(nullable.string({ description: "There are no presets yet: only null is taken" })),
});
export type DeployLlmRequest = Static<typeof DeployLlmRequest>;

/** What every other way of deploying may say of where it runs; without it the least GPU that is free. */
const place = {
  gpu: Type.Optional(Gpu),
  num_gpus: Type.Optional(Type.Integer({ minimum: 1, maximum: 8, default: 1, description: "GPUs per instance" })),
  max_batch_size: Type.Optional(Type.Integer({ minimum: 1, maximum: maxBatchSize, default: 96 })),
};

export const DeployHfRequest = Type.Object({
  model_name: Type.String({ minLength: 1, description: "Repository on the model hub" }),
  task: Type.Optional(nullable.string({ enum: [...interfaceTasks, null], description: "Default: as the hub says" })),
  revision: Type.Optional(nullable.string({ description: "Branch, tag or commit" })),
  token: Type.Optional(nullable.string({ description: "Of the hub; kept sealed, never shown" })),
  ...place,
  settings: DeployLlmRequest.properties.settings,
});

export const DeployRequestV1 = Type.Object({
  provider: Type.Optional(
    Type.Unsafe<"huggingface" | "stoker" | "cnt">({
      type: "string",
      enum: ["huggingface", "stoker", "cnt"],
      default: "cnt",
      description: "cnt: a container image that speaks the OpenAI paths",
    }),
  ),
  model_name: Type.String({ minLength: 1 }),
  version: Type.Optional(nullable.string({ description: "null: the latest" })),
  ...place,
});

export const UpdateRequest = Type.Object({
  settings: Type.Optional(
    nullable.object({
      properties: {
        min_instances: { type: "integer", minimum: 0, maximum: 1000 },
        max_instances: { type: "integer", minimum: 1, maximum: 1000 },
        inactive_shutdown: inactiveShutdown,
      },
    }),
  ),
  extra_args: Type.Optional(nullable.array(Type.String())),
  standard_args: Type.Optional(standardArgs),
});

export const DeployId = Type.Object({ deploy_id: Type.String() });

export const DeploymentRecord = Type.Object({
  type: Type.Unsafe<string>({ type: "string", enum: ["legacy", "llm", "lora", "tts"], default: "legacy" }),
  deploy_id: Type.String(),
  model_name: Type.String(),
  version: Type.String(),
  task: Type.String(),
  status: Type.String(),
  fail_reason: Type.String({ description: "Empty unless failed" }),
  created_at: Type.String({ description: "ISO 8601 with offset" }),
  updated_at: Type.String(),
  instances: Type.Object({ running: Type.Integer(), pending: Type.Integer(), warming: Type.Integer() }),
  config: Type.Object({
    gpu: Gpu,
    num_gpus: Type.Integer(),
    max_batch_size: Type.Integer(),
    weights: Type.Object({ repo: Type.String(), revision: Type.String(), token: nullable.string() }),
  }),
  settings: Type.Object({
    min_instances: Type.Integer(),
    max_instances: Type.Integer(),
    inactive_shutdown: Type.Union([Type.Integer(), Type.Null()]),
  }),
  update_error: Type.String({ description: "Why the last update was taken back; empty otherwise" }),
  rollout: Type.Object({ up_to_date: Type.Integer(), outdated: Type.Integer(), booting: Type.Integer() }),
  extra_args: Type.Array(Type.String()),
  standard_args: Type.Record(Type.String(), Type.Unknown(), { description: "Those that were given" }),
  progress: Type.Union([
    Type.Object({
      phase: Type.String(),
      done_bytes: Type.Integer(),
      total_bytes: Type.Integer(),
      trouble: Type.String({
        description: "What it waits for, or why its last try failed, which is repeated; empty: nothing",
      }),
    }),
    Type.Null(),
  ]),
  pending_reasons: Type.Array(Type.Object({ host: Type.String(), why: Type.String() })),
});
export type DeploymentRecord = Static<typeof DeploymentRecord>;

export const PodLogEntries = Type.Object({
  entries: Type.Record(Type.String(), Type.Array(Type.Array(Type.String(), { minItems: 2, maxItems: 2 }))),
});

export const PlacementReport = Type.Object({
  fits: Type.Boolean({ description: "One more instance would find a host now" }),
  refused: Type.Array(Type.Object({ host: Type.String(), why: Type.String() }), {
    description: "Every host that cannot take one",
  }),
});

export const NewPlacementReport = Type.Object({
  ...PlacementReport.properties,
  engine: Type.String({ description: "Which would serve it" }),
  memory_bytes: Type.Integer({ description: "Expected of one instance over all its GPUs; 0: unknown" }),
  usd_per_hour: Type.Number({ description: "Of min_instances; 0 without a price" }),
});

export const LogEntries = Type.Object({
  entries: Type.Array(Type.Array(Type.String(), { minItems: 2, maxItems: 2 }), {
    description: "[unix seconds with nanoseconds, line], ascending",
  }),
});

export const PrefixCacheRequest = Type.Object({
  shared: Type.Boolean({ description: "true: accounts reuse each other's evaluated prompts; default: false" }),
  note: Type.Optional(nullable.string({ maxLength: 2_000, description: "Kept in the audit log" })),
});

export const PrefixCacheAnswer = Type.Object({ deploy_id: Type.String(), shared: Type.Boolean() });
