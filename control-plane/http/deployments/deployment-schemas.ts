import { type Static, Type } from "typebox";
import { maxBatchSize } from "../../../proto/batch-size.ts";
import { gpuTypes } from "../../../proto/gpu.ts";
import { type ModelEngine, modelEngines } from "../../../proto/model-engines.ts";
import { maxSchedules, type Weekday, weekdays } from "../../deployments/schedules.ts";
import { interfaceTasks } from "../../deployments/tasks.ts";
import { nullable } from "../inference/sampling-schemas.ts";

// Not a copy: the operator's types are added before the schema is compiled.
const Gpu = Type.Unsafe<string>({ type: "string", enum: gpuTypes });

const inactiveShutdown = {
  type: ["integer", "null"],
  minimum: 60,
  maximum: 2_592_000,
  description: "Seconds without a request until no instance runs; with min_instances 0. Null: 900",
};

const sleepAfterSeconds = {
  type: "integer",
  minimum: 0,
  maximum: 2_592_000,
  description:
    "Seconds without a request until an instance gives its memory up; the next request wakes it. 0: never. Default: the operator's, usually 0",
};

const maxTargetMs = 600_000;
const target = (description: string) => ({ type: ["integer", "null"], minimum: 1, maximum: maxTargetMs, description });
const clock = "^([01][0-9]|2[0-3]):[0-5][0-9]$";

const Schedule = Type.Object(
  {
    days: Type.Array(Type.Unsafe<Weekday>({ type: "string", enum: [...weekdays] }), {
      minItems: 1,
      maxItems: 7,
      description: "Days on which it begins",
    }),
    from: Type.String({ pattern: clock, description: "Local time, HH:MM" }),
    to: Type.String({
      pattern: `${clock}|^24:00$`,
      description: "Exclusive, HH:MM; before `from`: on the next day. 24:00: the end of the day",
    }),
    time_zone: Type.String({ minLength: 1, maxLength: 64, description: "IANA name, such as Europe/Berlin" }),
    min_instances: Type.Integer({ minimum: 1, maximum: 1000 }),
  },
  { additionalProperties: false },
);
export type Schedule = Static<typeof Schedule>;

/** Targets for waiting times, and schedules. Null removes a setting. */
const scaling = {
  target_ttft_ms: target("Adds instances while the p95 time to the first token of streams is above this"),
  target_queue_ms: target("Adds instances while the p95 time in the queue is above this"),
  schedules: {
    anyOf: [Type.Array(Schedule, { maxItems: maxSchedules }), { type: "null" }],
    description: "Higher minimums at local times; replaces the whole list",
  },
};

const standardArgs = nullable.object({
  description: "Engine-independent settings. Settings that the engine does not support, and other names, are refused",
  // An update replaces all settings: a misspelt name would reset the one that it meant to change.
  additionalProperties: false,
  properties: {
    max_context_size: { type: ["integer", "null"], minimum: 128, maximum: 10_000_000 },
    max_concurrent_requests: {
      type: ["integer", "null"],
      minimum: 1,
      maximum: 1024,
      description: "Replaces max_batch_size. A lower value applies at once, a higher one when instances restart",
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
      description: "Maximum concurrent requests of an instance",
    }),
  ),
  hf: Type.Optional(
    nullable.object({
      required: ["repo"],
      properties: {
        repo: {
          type: "string",
          description:
            "Hub repository (owner/name), s3://bucket/prefix, oci://registry/repository:tag or modelscope://owner/name",
        },
        revision: { type: ["string", "null"], description: "Branch, tag or commit; none for s3:// and oci://" },
        token: {
          type: ["string", "null"],
          description:
            "Hub token; for s3:// ACCESS_KEY_ID:SECRET_ACCESS_KEY; for oci:// user:password. Stored encrypted, never shown",
        },
      },
    }),
  ),
  base_model: Type.Optional(nullable.string()),
  engine: Type.Optional(
    Type.Unsafe<ModelEngine>({
      type: "string",
      enum: [...modelEngines],
      description: "Engine; default: chosen by the format of the weights and the GPU",
    }),
  ),
  container_image: Type.Optional(nullable.string({ description: "Only images that the operator of the host allows" })),
  settings: Type.Optional(
    nullable.object({
      properties: {
        min_instances: { type: "integer", minimum: 0, maximum: 1000, default: 1 },
        max_instances: { type: "integer", minimum: 1, maximum: 1000, default: 1 },
        inactive_shutdown: inactiveShutdown,
        sleep_after_seconds: sleepAfterSeconds,
        ...scaling,
      },
    }),
  ),
  extra_args: Type.Optional(nullable.array(Type.String())),
  standard_args: Type.Optional(standardArgs),
  preset_id: Type.Optional(nullable.string({ description: "Must be null: presets are not supported" })),
});
export type DeployLlmRequest = Static<typeof DeployLlmRequest>;

/** GPU settings of the other ways to deploy; default: the smallest free GPU. */
const place = {
  gpu: Type.Optional(Gpu),
  num_gpus: Type.Optional(Type.Integer({ minimum: 1, maximum: 8, default: 1, description: "GPUs per instance" })),
  max_batch_size: Type.Optional(Type.Integer({ minimum: 1, maximum: maxBatchSize, default: 96 })),
};

export const DeployHfRequest = Type.Object({
  model_name: Type.String({ minLength: 1, description: "Repository on the model hub" }),
  task: Type.Optional(
    nullable.string({ enum: [...interfaceTasks, null], description: "Default: the task that the hub names" }),
  ),
  repo: Type.Optional(
    nullable.string({
      description:
        "Weights, if not the repository that model_name names: owner/name, s3://, oci:// or modelscope://. With an address, set task",
    }),
  ),
  revision: Type.Optional(nullable.string({ description: "Branch, tag or commit" })),
  token: Type.Optional(nullable.string({ description: "Token of the source; stored encrypted, never shown" })),
  ...place,
  settings: DeployLlmRequest.properties.settings,
});

export const DeployRequestV1 = Type.Object({
  provider: Type.Optional(
    Type.Unsafe<"huggingface" | "stoker" | "cnt">({
      type: "string",
      enum: ["huggingface", "stoker", "cnt"],
      default: "cnt",
      description: "cnt: a container image with an OpenAI-compatible server",
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
        sleep_after_seconds: sleepAfterSeconds,
        ...scaling,
      },
    }),
  ),
  extra_args: Type.Optional(nullable.array(Type.String())),
  standard_args: Type.Optional(standardArgs),
});

export const DeployId = Type.Object({ deploy_id: Type.String() });

export const OtherDevices = Type.Array(Type.String(), {
  description:
    "Devices of the GPU type `other`: `processor slot` is a share of processor and memory of a host without GPUs; others are names of GPUs, at most 8 and then `other GPUs`",
});

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
    gpu: Type.String(),
    num_gpus: Type.Integer(),
    max_batch_size: Type.Integer(),
    weights: Type.Object({ repo: Type.String(), revision: Type.String(), token: nullable.string() }),
  }),
  settings: Type.Object({
    min_instances: Type.Integer(),
    max_instances: Type.Integer(),
    inactive_shutdown: Type.Union([Type.Integer(), Type.Null()]),
    sleep_after_seconds: Type.Integer({ description: "0: instances never sleep" }),
    target_ttft_ms: Type.Optional(Type.Integer({ description: "Absent: not set" })),
    target_queue_ms: Type.Optional(Type.Integer({ description: "Absent: not set" })),
    schedules: Type.Optional(Type.Array(Schedule, { description: "Absent: none" })),
  }),
  price: Type.Optional(
    Type.Object(
      {
        usd_per_hour: Type.Number({ description: "0: no price" }),
        usd_per_hour_asleep: Type.Number({ description: "While the instance sleeps; 0: free" }),
      },
      {
        description:
          "Price of one instance with GPUs of its own, before discounts. Only in the answer of GET /deploy/{deploy_id}",
      },
    ),
  ),
  devices: Type.Optional(OtherDevices),
  update_error: Type.String({ description: "Why the last update was rolled back; otherwise empty" }),
  rollout: Type.Object({ up_to_date: Type.Integer(), outdated: Type.Integer(), booting: Type.Integer() }),
  extra_args: Type.Array(Type.String()),
  standard_args: Type.Record(Type.String(), Type.Unknown(), { description: "Settings of the request" }),
  progress: Type.Union([
    Type.Object({
      phase: Type.String(),
      done_bytes: Type.Integer(),
      total_bytes: Type.Integer(),
      trouble: Type.String({
        description: "Condition it waits for, or error of the attempt being retried; empty: none",
      }),
    }),
    Type.Null(),
  ]),
  pending_reasons: Type.Array(Type.Object({ host: Type.String(), why: Type.String() })),
});
export type DeploymentRecord = Static<typeof DeploymentRecord>;

export const DeploymentVersions = Type.Object({
  versions: Type.Array(
    Type.Object({
      version: Type.Integer(),
      created_at: Type.Integer({ description: "Unix seconds" }),
      extra_args: Type.Array(Type.String()),
      standard_args: Type.Record(Type.String(), Type.Unknown(), { description: "Settings of the request" }),
      is_desired: Type.Boolean({ description: "The instances run it, or will" }),
      is_serving: Type.Boolean({ description: "Serves while an update runs" }),
    }),
    { description: "At most the newest 100, the newest first" },
  ),
});

export const RollbackRequest = Type.Object({
  version: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1, description: "Default: the one before the present one" }),
  ),
});

export const PodLogEntries = Type.Object({
  entries: Type.Record(Type.String(), Type.Array(Type.Array(Type.String(), { minItems: 2, maxItems: 2 }))),
});

export const PlacementReport = Type.Object({
  fits: Type.Boolean({ description: "A host for one more instance exists" }),
  refused: Type.Array(Type.Object({ host: Type.String(), why: Type.String() }), {
    description: "Hosts without capacity for another instance, and why",
  }),
});

export const NewPlacementReport = Type.Object({
  ...PlacementReport.properties,
  repository: Type.Union([Type.Literal("found"), Type.Literal("unknown"), Type.Literal("not_checked")], {
    description:
      "found: the hub has the repository; unknown: the hub cannot be reached from this server, so fits is about the GPUs only; not_checked: the weights are known or are not on the hub",
  }),
  engine: Type.String({ description: "Engine that would serve it" }),
  memory_bytes: Type.Integer({ description: "Expected memory of one instance on all its GPUs; 0: unknown" }),
  usd_per_hour: Type.Number({ description: "Price of min_instances; 0: no price" }),
});

export const LogEntries = Type.Object({
  entries: Type.Array(Type.Array(Type.String(), { minItems: 2, maxItems: 2 }), {
    description: "[unix seconds with nanoseconds, line], ascending",
  }),
});
export type LogEntries = Static<typeof LogEntries>;

export const PrefixCacheRequest = Type.Object({
  shared: Type.Boolean({ description: "true: accounts reuse each other's evaluated prompts; default: false" }),
  note: Type.Optional(nullable.string({ maxLength: 2_000, description: "For the audit log" })),
});

export const PrefixCacheAnswer = Type.Object({ deploy_id: Type.String(), shared: Type.Boolean() });
