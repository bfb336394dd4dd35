import { Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

const name = Type.String({ minLength: 1, maxLength: 64, pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" });
const unixSeconds = Type.Integer({ description: "Unix seconds" });
const noneOrSeconds = Type.Union([unixSeconds, Type.Null()]);

export const AgentRequest = Type.Object({
  name,
  agent_type_id: Type.String({ minLength: 1, maxLength: 64, description: "As GET /v1/agent/catalog lists it" }),
  plan_id: Type.Optional(Type.String({ minLength: 1, maxLength: 64, default: "standard" })),
});

export const AgentRename = Type.Object({ name }, { additionalProperties: false });

export const AgentId = Type.Object({ instance_id: Type.String() });

export const AgentRecord = Type.Object({
  id: Type.String(),
  name: Type.String(),
  state: Type.String({ description: "creating, starting, running, stopping, stopped, failed, deleted" }),
  start_ts: unixSeconds,
  state_ts: unixSeconds,
  stop_ts: noneOrSeconds,
  price_per_hour: Type.Number({ description: "USD" }),
  region: Type.String(),
  last_backup_ts: noneOrSeconds,
  ssh_port: Type.Union([Type.Integer(), Type.Null()], { description: "Always null: agent instances have no SSH" }),
  fail_reason: nullable.string(),
  public_ip: nullable.string(),
  version: Type.String(),
  agent_type: Type.String(),
  ssh_user: nullable.string({ description: "Always null" }),
  plan_id: Type.String(),
  operation: Type.Union([Type.String(), Type.Null()], {
    description: "backup, restore or try_restore; null: none is running",
  }),
});

export const AgentCatalogAnswer = Type.Record(
  Type.String(),
  Type.Object({
    pretty_name: Type.String(),
    version: Type.String(),
    has_dashboard: Type.Boolean(),
    self_service_update_command: nullable.string(),
    plans: Type.Array(
      Type.Object({
        id: Type.String(),
        vcpu: Type.Number(),
        ram_gb: Type.Number(),
        price_per_hour: Type.Number({ description: "USD" }),
        monthly_egress_gb: Type.Number(),
      }),
    ),
  }),
);

export const BackupRecord = Type.Object({
  snapshot_name: Type.String(),
  size_in_gb: Type.Number(),
  state: Type.String({ description: "creating, ready, failed" }),
  created_at_unix: unixSeconds,
  fail_reason: nullable.string(),
});

export const AgentLaunch = Type.Object({ dashboard_url: Type.String({ description: "Valid for one visit" }) });

export const BackupStarted = Type.Object({ snapshot_name: Type.String() });
