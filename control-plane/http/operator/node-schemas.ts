// Hosts for operators. Figures that a host does not report are null; others have an age.
import { type Static, type TSchema, Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

/** A misspelt field would widen the operation, for example from one GPU to the whole host. */
export const closed = { additionalProperties: false } as const;

const ratio = (description: string) => nullable.number({ description: `${description}, 0 to 1` });
const orNull = <Schema extends TSchema>(schema: Schema) =>
  Type.Unsafe<Static<Schema> | null>({ ...schema, type: ["object", "null"] });

export const Customer = Type.Object({ uid: Type.String(), email: Type.String() });

export const Node = Type.Object({
  node_id: Type.String(),
  name: Type.String(),
  pool: Type.String({ description: "Label of the token it joined with; empty: none" }),
  state: Type.String({ description: "ready, data_path_unreachable, records_unwritable, unreachable, lost" }),
  condition: Type.String({ description: "Reason against placing instances on it; empty: none" }),
  operation: orNull(
    Type.Object(
      {
        kind: Type.String({ description: "cordon or drain" }),
        note: Type.String({ description: "Reason; may be empty" }),
        began_at: Type.String({ description: "ISO 8601" }),
        deadline_at: nullable.string({ description: "End of a drain" }),
      },
      { description: "An operator took it out of use" },
    ),
  ),
  silent_seconds: Type.Number({ description: "Since the last message of its agent" }),
  advertise: Type.String(),
  agent_version: Type.String(),
  epoch: Type.Integer(),
  os: Type.String(),
  cpu_model: Type.String(),
  cpu_cores: Type.Integer(),
  memory_bytes: Type.Integer(),
  drivers: Type.Array(Type.String()),
  docker_version: Type.String(),
  has_nvidia_runtime: Type.Boolean(),
  nvidia_driver_version: Type.String(),
  cuda_version: Type.String(),
  warnings: Type.Array(Type.String(), {
    description: "An unencrypted data path (`data_path_plain`), and what the agent could not detect",
  }),
  figures_age_seconds: nullable.number({ description: "Age of the figures below; null before the first report" }),
  gpu_sample_age_seconds: nullable.number({ description: "Age of the GPU figures" }),
  clock_skew_seconds: nullable.number({ description: "Its clock minus this clock" }),
  usage_spool: orNull(
    Type.Object({
      records: Type.Integer({ description: "Not yet acknowledged" }),
      bytes: Type.Integer(),
      oldest_age_seconds: Type.Number(),
    }),
  ),
  load: orNull(
    Type.Object({
      cpu_ratio: Type.Number(),
      memory_used_bytes: Type.Integer(),
      memory_total_bytes: Type.Integer(),
      disk_free_bytes: Type.Integer(),
      disk_total_bytes: Type.Integer(),
    }),
  ),
  gpus: Type.Array(
    Type.Object({
      uuid: Type.String(),
      index: Type.Integer(),
      type: Type.String(),
      name: Type.String(),
      memory_bytes: Type.Integer(),
      mig_profile: Type.String({ description: "Profile of a MIG slice; empty for a whole GPU" }),
      is_healthy: Type.Boolean(),
      unhealthy_reason: Type.String(),
      cordoned_at: nullable.string({
        description: "Time since which it is out of use, until an operator returns it to use",
      }),
      is_claimed: Type.Boolean(),
      deploy_id: nullable.string({ description: "Deployment that uses it; the first, where instances share it" }),
      deploy_name: nullable.string({ description: "Its model, or the name of its container or agent instance" }),
      account: Type.Union([Customer, Type.Null()], {
        description: "Customer that uses it; null: none, or instances of several use it in turn",
      }),
      utilization_ratio: ratio("Share of the time in which a kernel ran"),
      memory_used_bytes: nullable.integer(),
      temperature_celsius: nullable.number(),
      power_watts: nullable.number(),
      power_limit_watts: nullable.number(),
      processes: Type.Array(
        Type.Object({
          pid: Type.Integer(),
          name: Type.String(),
          memory_bytes: Type.Integer(),
          instance_id: nullable.string(),
        }),
      ),
    }),
  ),
  instances: Type.Array(
    Type.Object({
      instance_id: Type.String(),
      deploy_id: Type.String(),
      deploy_name: Type.String({ description: "Its model, or the name of its container or agent instance" }),
      kind: Type.String({ description: "model, container or agent_instance" }),
      account: Customer,
      formats: Type.Array(Type.String(), {
        description: "Besides chat: this control plane passes requests in them on as they are (STOKER_PASSED_FORMATS)",
      }),
      phase: Type.String(),
      in_flight: Type.Integer(),
      waiting: Type.Integer(),
      tokens_per_second: Type.Number(),
      restarts: Type.Integer(),
      memory_bytes: Type.Integer({ description: "0 unknown" }),
      cpu_ratio: nullable.number({ description: "Cores in use" }),
      kv_cache_ratio: ratio("Key-value cache in use"),
      gpu_uuids: Type.Array(Type.String()),
    }),
  ),
  created_at: Type.String(),
});
export type Node = Static<typeof Node>;

export const Nodes = Type.Object({ nodes: Type.Array(Node) });

export const NodeDetail = Type.Object({
  ...Node.properties,
  cpu_physical_cores: Type.Integer({ description: "0 unknown" }),
  metrics_address: Type.String({
    description: "host:port of the agent's metrics page; empty: none that can be reached",
  }),
  disks: Type.Array(
    Type.Object({
      mount: Type.String(),
      type: Type.String(),
      total_bytes: Type.Integer(),
      free_bytes: Type.Integer({ description: "When its inventory last changed" }),
    }),
  ),
  networks: Type.Array(
    Type.Object({
      name: Type.String(),
      addresses: Type.Array(Type.String()),
      speed_bits_per_second: Type.Integer({ description: "0 unknown" }),
    }),
  ),
});
export type NodeDetail = Static<typeof NodeDetail>;

export const Uncordon = Type.Object(
  {
    gpu: Type.Optional(nullable.string({ description: "uuid of the GPU; default: the host and all its GPUs" })),
    note: Type.Optional(nullable.string({ maxLength: 2_000, description: "Reason; for the audit log" })),
  },
  closed,
);
