// What a server answers that has one of everything: for things that no small stack of processes has.

const at = 1_786_000_000;

/** By path. `name` stands wherever somebody may have named a thing. */
export function answersOf(model: string, name: string): Readonly<Record<string, unknown>> {
  return {
    "/v1/user/loras": [loraOf(model, name)],
    "/v1/batches": { data: [batchOf(model, name)] },
    "/v1/voices": { voices: [{ voice_id: "v1", name, description: "", created_at: at, kind: "blend" }] },
    "/v1/containers": [containerOf(name)],
    "/v1/containers/params": { container_images: [name] },
    "/v1/containers/gpu_availability": {
      gpus: [{ gpu_config: "1xB200-180GB", usd_per_hour: 2.79, available: true }],
    },
    "/v1/agent": [agentOf(name)],
    "/v1/agent/catalog": agentCatalog,
    // Its backup has ended by the time its page is opened.
    "/v1/agent/a1": { ...agentOf(name), operation: null },
    "/v1/agent/a1/backups": [
      { snapshot_name: "bk-1", size_in_gb: 1.5, state: "ready", created_at_unix: at, fail_reason: null },
    ],
  };
}

const loraOf = (model: string, description: string) => ({
  lora_name: "you/adapter",
  base_model: model,
  status: "deployed",
  fail_reason: "",
  updated_at: at,
  source: { type: "huggingface", repo: "you/weights" },
  commit: "",
  description,
  instances: { running: 2 },
});
const batchOf = (model: string, message: string) => ({
  id: "batch_1",
  endpoint: "/v1/chat/completions",
  model,
  status: "in_progress",
  errors: { data: [{ line: 4, message }] },
  output_file_id: null,
  error_file_id: "file_1",
  created_at: at,
  expires_at: at,
  request_counts: { total: 5, completed: 3, failed: 1 },
  usage: { total_tokens: 12 },
  completed_at: null,
  failed_at: null,
  expired_at: null,
  cancelled_at: null,
});
const containerOf = (name: string) => ({
  id: "c1",
  name,
  state: "running",
  start_ts: at,
  state_ts: at,
  ip: "203.0.113.7",
  ssh_port: 22022,
  gpu_config: "1xB200-180GB",
  price_per_hour: 2.79,
  container_image: "torch",
  fail_reason: null,
});
const agentOf = (name: string) => ({
  id: "a1",
  name,
  state: "running",
  start_ts: at,
  state_ts: at,
  public_ip: null,
  price_per_hour: 0.1,
  last_backup_ts: at,
  fail_reason: null,
  version: "1.0",
  agent_type: "desk",
  plan_id: "standard",
  operation: "backup",
});
const plan = { id: "standard", vcpu: 2, ram_gb: 4, monthly_egress_gb: 10, price_per_hour: 0.1 };
const agentCatalog = { desk: { pretty_name: "Desk", version: "2.0", has_dashboard: true, plans: [plan] } };
