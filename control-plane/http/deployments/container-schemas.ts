import { Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

export const ContainerName = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
});

export const CreateContainer = Type.Object({
  name: ContainerName,
  gpu_config: Type.String({ minLength: 1, maxLength: 64, description: "<count>x<GPU type>, such as 8xB200-180GB" }),
  container_image: Type.String({ minLength: 1, maxLength: 200, description: "One of GET /v1/containers/params" }),
  cloud_init_user_data: Type.String({
    minLength: 1,
    maxLength: 32_000,
    description: "A #! script or a #cloud-config; runs once at the first start",
  }),
});

export const ContainerId = Type.Object({ container_id: Type.String() });

export const ContainerRecord = Type.Object({
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

export const ContainerParams = Type.Object({
  container_images: Type.Array(Type.String()),
  gpu_configs: Type.Array(Type.String()),
});

export const GpuAvailability = Type.Object({
  gpus: Type.Array(
    Type.Object({
      gpu_config: Type.String(),
      usd_per_hour: Type.Number(),
      available: Type.Boolean(),
      recommended: Type.Boolean(),
    }),
  ),
});
