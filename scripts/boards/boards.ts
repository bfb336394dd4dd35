// Boards for Grafana, as data. `npm run generate` writes them to deploy/grafana.

export interface Query {
  readonly expr: string;
  /** Grafana's template of labels; empty: the panel's title. */
  readonly legend?: string;
}

export interface Panel {
  readonly title: string;
  /** Explains what a reader cannot see from title and axis. */
  readonly about?: string;
  /** A unit of Grafana. */
  readonly unit:
    | "short"
    | "s"
    | "percentunit"
    | "bytes"
    | "reqps"
    | "ops"
    | "celsius"
    | "currencyUSD"
    | "watt"
    | "dtdurations";
  /** `number`: the newest value, large. Default: lines over time. */
  readonly kind?: "number" | "lines" | "stack";
  readonly queries: readonly Query[];
  /** Why an installation may have no such series. */
  readonly mayBeEmpty?: string;
}

export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

export interface Board {
  /** File name and Grafana's id. */
  readonly id: string;
  readonly title: string;
  /** Values of this label of this metric can be chosen at the top of the board. */
  readonly choice?: { readonly name: string; readonly label: string; readonly metric: string };
  readonly rows: readonly Row[];
}

/** Grafana's shortest range that has two samples. */
const recent = "[$__rate_interval]";
const noGpu = "hosts without GPUs";
const noEngine = "no instance of an engine whose metrics are read";
const noProvider = "no upstream providers";

const one = (expr: string, legend = ""): readonly Query[] => [{ expr, legend }];
const quantiles = (histogram: string, by: string, legend: string): readonly Query[] =>
  [0.5, 0.95, 0.99].map((share) => ({
    expr: `histogram_quantile(${share}, sum by (le${by && `, ${by}`}) (rate(${histogram}_bucket${recent})))`,
    legend: `p${100 * share}${legend && ` ${legend}`}`,
  }));

const fleet: Board = {
  id: "stoker-fleet",
  title: "Stoker: hosts and GPUs",
  rows: [
    {
      title: "Hosts",
      panels: [
        { title: "Hosts", unit: "short", kind: "stack", queries: one("max by (state) (stoker_nodes)", "{{state}}") },
        {
          title: "GPUs and processor slots",
          unit: "short",
          kind: "stack",
          queries: one("max by (type, state) (stoker_gpus)", "{{type}} {{state}}"),
        },
        {
          title: "Alerts of hosts",
          unit: "short",
          queries: one("max by (alert) (stoker_node_alerts)", "{{alert}}"),
        },
        { title: "Processor", unit: "percentunit", queries: one("stoker_node_cpu_usage_ratio", "{{node}}") },
        {
          title: "Memory in use",
          unit: "percentunit",
          queries: one("stoker_node_memory_used_bytes / stoker_node_memory_total_bytes", "{{node}}"),
        },
        {
          title: "Free disk",
          unit: "percentunit",
          queries: one("stoker_node_filesystem_free_bytes / stoker_node_filesystem_size_bytes", "{{node}}"),
        },
      ],
    },
    {
      title: "GPUs",
      panels: [
        {
          title: "Use",
          unit: "percentunit",
          queries: one("stoker_gpu_utilization_ratio", "{{node}} {{UUID}}"),
          mayBeEmpty: noGpu,
        },
        {
          title: "Memory in use",
          unit: "percentunit",
          queries: one("stoker_gpu_memory_used_bytes / stoker_gpu_memory_total_bytes", "{{node}} {{UUID}}"),
          mayBeEmpty: noGpu,
        },
        {
          title: "Temperature",
          unit: "celsius",
          queries: one("stoker_gpu_temperature_celsius", "{{node}} {{UUID}}"),
          mayBeEmpty: noGpu,
        },
        {
          title: "Power",
          unit: "watt",
          queries: one("stoker_gpu_power_watts", "{{node}} {{UUID}}"),
          mayBeEmpty: noGpu,
        },
        {
          title: "Unhealthy GPUs",
          unit: "short",
          queries: one("count by (node) (stoker_gpu_healthy == 0)", "{{node}}"),
          mayBeEmpty: "all GPUs are healthy",
        },
      ],
    },
    {
      title: "Agents",
      panels: [
        {
          title: "Connected to a control plane",
          unit: "short",
          queries: one("stoker_agent_control_connected", "{{node}}"),
        },
        { title: "Clock skew", unit: "s", queries: one("stoker_agent_clock_skew_seconds", "{{node}}") },
        {
          title: "Age of the oldest usage record that was not told",
          unit: "s",
          queries: one("stoker_agent_spool_oldest_age_seconds", "{{node}}"),
        },
        {
          title: "Rest of the certificate",
          unit: "dtdurations",
          queries: one("stoker_agent_certificate_remaining_seconds", "{{node}}"),
        },
        {
          title: "Instances",
          unit: "short",
          kind: "stack",
          queries: one("sum by (state) (stoker_instance_state)", "{{state}}"),
        },
        {
          title: "Restarts in an hour",
          about: "Without those that an operator asked for.",
          unit: "short",
          queries: one(
            'sum by (node, reason) (increase(stoker_instance_restarts_total{reason!="operator"}[1h]))',
            "{{node}} {{reason}}",
          ),
          mayBeEmpty: "no instance was restarted",
        },
      ],
    },
  ],
};

const of = '{deploy_id=~"$deployment"}';
const deployment: Board = {
  id: "stoker-deployment",
  title: "Stoker: one deployment",
  choice: { name: "deployment", label: "deploy_id", metric: "stoker_ingress_max_batch_size" },
  rows: [
    {
      title: "Load",
      panels: [
        {
          title: "Requests in the batch",
          about: "The dashed line is the largest batch of all instances together.",
          unit: "short",
          queries: [
            { expr: `sum by (instance_id) (stoker_ingress_in_flight${of})`, legend: "{{instance_id}}" },
            { expr: `sum(stoker_ingress_max_batch_size${of})`, legend: "largest batch" },
          ],
        },
        {
          title: "Requests that wait",
          unit: "short",
          queries: one(`sum by (instance_id) (stoker_ingress_waiting${of})`, "{{instance_id}}"),
        },
        {
          title: "Engine: sequences that run",
          unit: "short",
          queries: one(`sum by (instance_id) (stoker_engine_requests_running${of})`, "{{instance_id}}"),
          mayBeEmpty: noEngine,
        },
        {
          title: "Engine: sequences that wait",
          unit: "short",
          queries: one(`sum by (instance_id) (stoker_engine_requests_waiting${of})`, "{{instance_id}}"),
          mayBeEmpty: noEngine,
        },
        {
          title: "Engine: key-value cache in use",
          unit: "percentunit",
          queries: one(`max by (instance_id) (stoker_engine_kv_cache_usage_ratio${of})`, "{{instance_id}}"),
          mayBeEmpty: noEngine,
        },
      ],
    },
    {
      title: "Instances",
      panels: [
        {
          title: "States",
          unit: "short",
          kind: "stack",
          queries: one(`sum by (state) (stoker_instance_state${of})`, "{{state}}"),
        },
        {
          title: "Processor",
          about: "Cores in use.",
          unit: "short",
          queries: one(
            `sum by (instance_id) (rate(container_cpu_usage_seconds_total${of}${recent}))`,
            "{{instance_id}}",
          ),
          mayBeEmpty: "servers that the agent did not start",
        },
        {
          title: "Memory",
          unit: "bytes",
          queries: one(`sum by (instance_id) (container_memory_working_set_bytes${of})`, "{{instance_id}}"),
          mayBeEmpty: "servers that the agent did not start",
        },
        {
          title: "Duration of starts (p95, all deployments)",
          unit: "s",
          queries: one(
            "histogram_quantile(0.95, sum by (le, phase) (rate(stoker_instance_start_seconds_bucket[1h])))",
            "{{phase}}",
          ),
        },
      ],
    },
  ],
};

const gateway: Board = {
  id: "stoker-gateway",
  title: "Stoker: gateway",
  rows: [
    {
      title: "Requests",
      panels: [
        {
          title: "Requests by status",
          unit: "reqps",
          kind: "stack",
          queries: one(`sum by (status) (rate(http_request_duration_seconds_count${recent}))`, "{{status}}"),
        },
        {
          title: "Requests in progress",
          unit: "short",
          queries: one("sum by (instance) (http_requests_in_flight)", "{{instance}}"),
        },
        {
          title: "Duration by model",
          unit: "s",
          queries: quantiles(
            "gen_ai_server_request_duration_seconds",
            "gen_ai_request_model",
            "{{gen_ai_request_model}}",
          ),
        },
        {
          title: "Time to first token by model",
          about: "Of streams.",
          unit: "s",
          queries: quantiles(
            "gen_ai_server_time_to_first_token_seconds",
            "gen_ai_request_model",
            "{{gen_ai_request_model}}",
          ),
        },
        {
          title: "Time per output token by model",
          about: "Of streams.",
          unit: "s",
          queries: quantiles(
            "gen_ai_server_time_per_output_token_seconds",
            "gen_ai_request_model",
            "{{gen_ai_request_model}}",
          ),
        },
        {
          title: "Time in the queues of agents",
          unit: "s",
          queries: quantiles("stoker_ingress_queue_seconds", "", ""),
        },
      ],
    },
    {
      title: "Refusals and failures",
      panels: [
        {
          title: "Refused by a rate limit",
          unit: "ops",
          queries: one(`sum by (kind) (rate(stoker_rate_limited_total${recent}))`, "{{kind}}"),
          mayBeEmpty: "no request was refused",
        },
        {
          title: "Refused credentials",
          unit: "ops",
          queries: one(`sum by (reason) (rate(stoker_auth_failures_total${recent}))`, "{{reason}}"),
          mayBeEmpty: "no credential was refused",
        },
        { title: "Second attempts", unit: "ops", queries: one(`sum(rate(stoker_gateway_retries_total${recent}))`) },
        {
          title: "Failed attempts at instances",
          unit: "ops",
          queries: one(`sum by (reason) (rate(stoker_gateway_upstream_errors_total${recent}))`, "{{reason}}"),
          mayBeEmpty: "no attempt failed",
        },
        {
          title: "Streams that ended early",
          unit: "ops",
          queries: one(`sum by (by) (rate(stoker_stream_aborts_total${recent}))`, "{{by}}"),
          mayBeEmpty: "no stream ended early",
        },
      ],
    },
    {
      title: "Control planes",
      panels: [
        {
          title: "Processor",
          about: "Cores in use.",
          unit: "short",
          queries: one(`rate(process_cpu_seconds_total{job="stoker"}${recent})`, "{{instance}}"),
        },
        {
          title: "Memory",
          unit: "bytes",
          queries: one('process_resident_memory_bytes{job="stoker"}', "{{instance}}"),
        },
        {
          title: "Delay of the event loop (p99)",
          unit: "s",
          queries: one('nodejs_eventloop_lag_p99_seconds{job="stoker"}', "{{instance}}"),
        },
        {
          title: "Bytes of bodies and answers held in memory",
          unit: "bytes",
          queries: [
            { expr: "sum by (of) (stoker_held_bytes)", legend: "{{of}}" },
            { expr: "max by (of) (stoker_held_limit_bytes)", legend: "limit of {{of}}" },
          ],
        },
      ],
    },
  ],
};

const money: Board = {
  id: "stoker-money",
  title: "Stoker: money",
  rows: [
    {
      title: "Must be zero",
      panels: [
        {
          title: "Imbalance of the ledger, nano-USD",
          unit: "short",
          kind: "number",
          queries: one("max(stoker_ledger_imbalance_nanousd)"),
        },
        {
          title: "Records in quarantine, last day",
          unit: "short",
          kind: "number",
          queries: one(
            'sum(increase(stoker_usage_events_total{result=~"quarantined|quarantine_dropped"}[1d])) or vector(0)',
          ),
        },
        {
          title: "Losses of the platform, USD in the last day",
          unit: "currencyUSD",
          kind: "number",
          queries: one("sum(increase(stoker_platform_loss_nanousd_total[1d])) / 1e9"),
          mayBeEmpty: "no loss since the control planes began",
        },
      ],
    },
    {
      title: "Usage",
      panels: [
        {
          title: "Settled records by result",
          unit: "ops",
          queries: one(`sum by (result) (rate(stoker_usage_events_total${recent}))`, "{{result}}"),
        },
        {
          title: "Open holds",
          unit: "short",
          queries: one("sum by (instance) (stoker_holds_open)", "{{instance}}"),
        },
        {
          title: "Held for requests in progress",
          unit: "currencyUSD",
          queries: one("sum by (instance) (stoker_holds_amount_usd)", "{{instance}}"),
        },
        {
          title: "Leased to control planes",
          unit: "currencyUSD",
          queries: one("sum by (instance) (stoker_leased_usd)", "{{instance}}"),
        },
        {
          title: "Billed GPU time",
          about: "GPUs that are billed at this moment.",
          unit: "short",
          queries: one(`sum(rate(stoker_gpu_seconds_billed_total${recent}))`),
          mayBeEmpty: "no GPU time was billed",
        },
        {
          title: "Paid to providers this month",
          unit: "currencyUSD",
          queries: one("max by (provider) (stoker_provider_spent_usd)", "{{provider}}"),
          mayBeEmpty: noProvider,
        },
      ],
    },
    {
      title: "Webhooks and jobs",
      panels: [
        {
          title: "Webhook calls by outcome",
          unit: "ops",
          queries: one(`sum by (outcome) (rate(stoker_webhook_deliveries_total${recent}))`, "{{outcome}}"),
          mayBeEmpty: "no webhook call was made",
        },
        {
          title: "Age of the oldest webhook event that was not sent",
          unit: "s",
          queries: one("max(stoker_outbox_oldest_age_seconds)"),
        },
        {
          title: "Time since the last success of a job",
          unit: "dtdurations",
          queries: one("time() - max by (job) (stoker_job_last_success_timestamp_seconds)", "{{job}}"),
        },
        {
          title: "Jobs in the queues",
          unit: "short",
          queries: one("sum by (queue, state) (bullmq_job_count)", "{{queue}} {{state}}"),
        },
      ],
    },
  ],
};

const served = 'route!~"/metrics.*|/readyz|/healthz"';
/** Share of requests with a status of 500 or above. */
const failedShare = (window: string): string =>
  `(sum(rate(http_request_duration_seconds_count{${served},status=~"5.."}[${window}])) or vector(0))
/ sum(rate(http_request_duration_seconds_count{${served}}[${window}]))`;

const objectives: Board = {
  id: "stoker-objectives",
  title: "Stoker: service objectives",
  rows: [
    {
      title: "Availability: 99.9 % of requests without a status of 500 or above",
      panels: [
        {
          title: "Availability, 30 days",
          unit: "percentunit",
          kind: "number",
          queries: one(`1 - ${failedShare("30d")}`),
        },
        {
          title: "Error budget left, 30 days",
          about: "1: no failure yet; below 0: the objective is missed.",
          unit: "percentunit",
          kind: "number",
          queries: one(`1 - ${failedShare("30d")} / 0.001`),
        },
        {
          title: "Burn rate",
          about: "1: the budget lasts exactly 30 days. Above 14 for an hour or above 6 for six hours: act now.",
          unit: "short",
          queries: ["5m", "1h", "6h"].map((window) => ({
            expr: `${failedShare(window)} / 0.001`,
            legend: window,
          })),
        },
      ],
    },
    {
      title: "First token: 95 % of streams within 2.5 s",
      panels: [
        {
          title: "Streams with a first token within 2.5 s, by model",
          unit: "percentunit",
          queries: one(
            `sum by (gen_ai_request_model) (rate(gen_ai_server_time_to_first_token_seconds_bucket{le="2.5"}[1h]))
/ sum by (gen_ai_request_model) (rate(gen_ai_server_time_to_first_token_seconds_count[1h]))`,
            "{{gen_ai_request_model}}",
          ),
        },
      ],
    },
    {
      title: "Billing: usage records arrive within five minutes",
      panels: [
        {
          title: "Oldest record of all hosts",
          unit: "s",
          queries: one("max(stoker_agent_spool_oldest_age_seconds)"),
        },
      ],
    },
  ],
};

export const boards: readonly Board[] = [fleet, deployment, gateway, money, objectives];
