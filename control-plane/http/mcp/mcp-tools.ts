// Tools of the MCP server. Each is one operation of the API: its schema comes from the API description, and its call is a request
// under the caller's own key, so that permissions, limits, validation and audit hold without a second implementation.

/** `GET /deploy/{deploy_id}`, as in the API description. */
export interface ToolOperation {
  readonly name: string;
  readonly operation: string;
  /** Changes nothing. */
  readonly isRead?: boolean;
  /** Deletes or stops something. */
  readonly isDestructive?: boolean;
  /** Query parameter that is no argument of the tool. */
  readonly omits?: string;
  /** Listed for operators only; the API refuses others anyway. */
  readonly isForOperators?: boolean;
}

const read = (name: string, path: string): ToolOperation => ({ name, operation: `GET ${path}`, isRead: true });

export const toolOperations: readonly ToolOperation[] = [
  read("list_models", "/v1/models"),
  read("get_model", "/models/{model_name}"),
  read("list_model_aliases", "/v1/model-aliases"),
  read("get_account", "/v1/me"),
  read("get_rate_limits", "/v1/me/rate_limit"),
  read("get_gpu_limits", "/v1/me/gpu_limit"),
  read("list_gpu_configurations", "/deploy/llm/gpu_availability"),
  read("get_usage_by_month", "/payment/usage"),
  read("get_usage_by_day", "/v1/usage/days"),
  read("list_requests", "/v1/requests"),
  read("get_request", "/v1/requests/{request_id}"),
  // A call returns one document.
  { ...read("get_live_metrics", "/v1/metrics/live"), omits: "stream" },
  read("get_account_series", "/v1/metrics/series"),
  read("list_deployments", "/deploy/list"),
  read("get_deployment", "/deploy/{deploy_id}"),
  read("get_deployment_placement", "/deploy/{deploy_id}/placement"),
  read("get_deployment_usage", "/deploy/{deploy_id}/stats"),
  read("get_deployment_series", "/v1/deployments/{deploy_id}/series"),
  read("get_deployment_logs", "/v1/logs/query"),
  { name: "preview_llm_deployment", operation: "POST /deploy/llm/placement", isRead: true },
  { name: "deploy_llm", operation: "POST /deploy/llm" },
  { name: "deploy_hub_model", operation: "POST /deploy/hf/" },
  { name: "update_deployment", operation: "PUT /deploy/{deploy_id}" },
  { name: "start_deployment", operation: "POST /deploy/{deploy_id}/start" },
  { name: "stop_deployment", operation: "POST /deploy/{deploy_id}/stop", isDestructive: true },
  { name: "delete_deployment", operation: "DELETE /deploy/{deploy_id}", isDestructive: true },
  { ...read("list_hosts", "/v1/admin/nodes"), isForOperators: true },
  { ...read("get_host", "/v1/admin/nodes/{id}"), isForOperators: true },
  { ...read("list_incidents", "/v1/admin/incidents"), isForOperators: true },
  { ...read("list_top", "/v1/admin/top"), isForOperators: true },
  { ...read("get_series", "/v1/admin/metrics/series"), isForOperators: true },
];

type Schema = Readonly<Record<string, unknown>>;

interface Described {
  readonly summary?: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema?: Schema;
  }[];
  readonly requestBody?: { readonly content?: Readonly<Record<string, { readonly schema?: Schema }>> };
}
export type ApiPaths = Readonly<Record<string, Readonly<Record<string, Described>>>>;

export interface Tool extends ToolOperation {
  readonly description: string;
  readonly inputSchema: Schema;
  /** Converts validated arguments to a request. */
  readonly request: (input: Readonly<Record<string, unknown>>) => {
    readonly method: string;
    readonly url: string;
    readonly body: object | undefined;
  };
}

/** Throws if the API has no such operation. */
export function toolOf(paths: ApiPaths, known: ToolOperation): Tool {
  const [method = "", path = ""] = known.operation.split(" ");
  const described = paths[path]?.[method.toLowerCase()];
  if (!described) throw new Error(`no operation ${known.operation}`);
  // Headers are not arguments: an Idempotency-Key belongs to the transport.
  const parameters = (described.parameters ?? []).filter(
    (one) => one.in === "path" || (one.in === "query" && one.name !== known.omits),
  );
  const body = described.requestBody?.content?.["application/json"]?.schema;
  const bodyProperties = (body?.["properties"] ?? {}) as Readonly<Record<string, Schema>>;
  return {
    ...known,
    description: `${described.summary ?? known.name}.`,
    inputSchema: {
      type: "object",
      properties: { ...Object.fromEntries(parameters.map((one) => [one.name, one.schema ?? {}])), ...bodyProperties },
      required: [
        ...parameters.filter(({ required }) => required).map(({ name }) => name),
        ...((body?.["required"] ?? []) as readonly string[]),
      ],
      additionalProperties: false,
    },
    request(input) {
      const query = new URLSearchParams();
      let url = path;
      for (const { name, in: where } of parameters) {
        const value = input[name];
        if (value === undefined || value === null) continue;
        if (where === "query") query.set(name, String(value));
        else url = url.replace(`{${name}}`, () => segmentOf(String(value)));
      }
      const given = Object.entries(input).filter(([name]) => Object.hasOwn(bodyProperties, name));
      return {
        method,
        url: query.size > 0 ? `${url}?${query}` : url,
        body: body ? Object.fromEntries(given) : undefined,
      };
    },
  };
}

/** `.` and `..` would name another path. */
const segmentOf = (value: string): string =>
  encodeURIComponent(value).replace(/^\.{1,2}$/, (dots) => "%2E".repeat(dots.length));
