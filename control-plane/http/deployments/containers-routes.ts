import { type Static, Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import { nano, toUsd } from "../../../proto/money.ts";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import { type Container, stateOf } from "../../containers/container.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";

const ContainerName = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
});

const CreateContainer = Type.Object({
  name: ContainerName,
  gpu_config: Type.String({ minLength: 1, maxLength: 64, description: "<count>x<GPU type>, such as 8xB200-180GB" }),
  container_image: Type.String({ minLength: 1, maxLength: 200, description: "One of GET /v1/containers/params" }),
  cloud_init_user_data: Type.String({
    minLength: 1,
    maxLength: 32_000,
    description: "A #! script or a #cloud-config; runs once at the first start",
  }),
});

const ContainerId = Type.Object({ container_id: Type.String() });

const ContainerRecord = Type.Object({
  id: Type.String(),
  name: Type.String(),
  state: Type.Unsafe<string>({
    type: "string",
    enum: ["creating", "starting", "running", "shutting_down", "failed", "deleted"],
  }),
  start_ts: Type.Integer({ description: "Unix seconds" }),
  state_ts: Type.Integer({ description: "Unix seconds of the last change of state" }),
  stop_ts: nullable.integer(),
  ip: nullable.string(),
  ssh_port: Type.Unsafe<number | null>({
    type: ["integer", "null"],
    description: "Port for ssh ubuntu@ip while the container runs",
  }),
  gpu_config: Type.String(),
  price_per_hour: Type.Number({ description: "USD, current price of all its GPUs" }),
  container_image: Type.String(),
  fail_reason: nullable.string(),
});

const ContainerParams = Type.Object({
  container_images: Type.Array(Type.String()),
  gpu_configs: Type.Array(Type.String()),
});

export const GpuConfiguration = Type.Object({
  gpu_config: Type.String(),
  usd_per_hour: Type.Number(),
  available: Type.Boolean(),
  recommended: Type.Boolean(),
});
const GpuAvailability = Type.Object({ gpus: Type.Array(GpuConfiguration) });

export function addContainerRoutes(endpoints: Endpoints, { containers }: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "containers", access: "key" });

  own.post("/v1/containers", {
    summary: "Rent whole GPUs in a container with SSH",
    idempotent: true,
    isPaid: true,
    bodyLimitBytes: mediumBodyBytes,
    body: CreateContainer,
    answer: ContainerId,
    refusals: [400, 402, 404, 409, 423, 429],
    async handler({ caller, body, reply }) {
      const request = {
        name: body.name,
        gpuConfig: body.gpu_config,
        image: body.container_image,
        userData: body.cloud_init_user_data,
      };
      const id = await containers.create(caller, request, actOf(caller, reply));
      return { container_id: id };
    },
  });

  own.get("/v1/containers", {
    isOpenToOperators: true,
    summary: "List containers of the account",
    query: Type.Object({
      state: Type.Optional(
        Type.Unsafe<"active" | "inactive">({
          type: "string",
          enum: ["active", "inactive"],
          default: "active",
          description: "inactive: failed and deleted containers",
        }),
      ),
    }),
    answer: Type.Array(ContainerRecord),
    handler: async ({ caller, query }) => (await containers.list(caller, query.state ?? "active")).map(rendered),
  });

  own.get("/v1/containers/params", {
    isOpenToOperators: true,
    summary: "List images and GPU configurations for containers",
    answer: ContainerParams,
    async handler({ caller }) {
      const { images, gpus } = await containers.offered(caller);
      return { container_images: [...images], gpu_configs: gpus.map((one) => one.gpuConfig) };
    },
  });

  own.get("/v1/containers/gpu_availability", {
    isOpenToOperators: true,
    summary: "List GPU configurations with their availability and price",
    answer: GpuAvailability,
    handler: async ({ caller }) => ({
      gpus: (await containers.offered(caller)).gpus.map((one) => ({
        gpu_config: one.gpuConfig,
        usd_per_hour: toUsd(nano(one.hourRate)),
        available: one.isAvailable,
        recommended: false,
      })),
    }),
  });

  own.get("/v1/containers/:container_id", {
    isOpenToOperators: true,
    summary: "Get a container",
    answer: ContainerRecord,
    refusals: [404],
    handler: async ({ caller, params }) => rendered(await containers.get(caller, params.container_id as DeploymentId)),
  });

  own.patch("/v1/containers/:container_id", {
    summary: "Rename a container",
    body: Type.Object({ name: ContainerName }, { additionalProperties: false }),
    answer: ContainerRecord,
    refusals: [404, 409],
    handler: async ({ caller, params, body }) =>
      rendered(await containers.rename(caller, params.container_id as DeploymentId, body.name)),
  });

  own.delete("/v1/containers/:container_id", {
    summary: "Delete a container and its data",
    refusals: [404],
    handler: ({ caller, params, reply }) =>
      containers.remove(caller, params.container_id as DeploymentId, actOf(caller, reply)),
  });
}

function rendered(one: Container): Static<typeof ContainerRecord> {
  const state = stateOf(one);
  const isRunning = state === "running" && one.sshPort > 0;
  const stoppedAtMs = one.deletedAtMs ?? (state === "failed" ? one.changedAtMs : null);
  return {
    id: one.id,
    name: one.name,
    state,
    start_ts: unixSeconds(one.createdAtMs),
    state_ts: unixSeconds(one.changedAtMs),
    stop_ts: unixSecondsOrNull(stoppedAtMs),
    ip: isRunning ? one.sshAddress : null,
    ssh_port: isRunning ? one.sshPort : null,
    gpu_config: `${one.gpus}x${one.gpu}`,
    price_per_hour: toUsd(nano(one.hourRate)),
    container_image: one.image,
    fail_reason: one.failReason === "" ? null : one.failReason,
  };
}
