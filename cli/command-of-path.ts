// API messages name paths. The CLI names the command that calls the path instead.

/** Command by method and path, with parameters in braces. Empty if no command exists. */
export const commandsOfPaths: Readonly<Record<string, string>> = {
  "GET /v1/models": "stoker model list",
  "GET /models/list": "stoker model list",
  "GET /v1/model-catalogue": "stoker model search",
  "GET /v1/model-aliases": "stoker model alias list",
  "GET /models/{model}/versions": "stoker model versions {model}",
  "GET /models/lora/list": "",
  "GET /models/{model}": "stoker model get {model}",
  "GET /deploy/list": "stoker deploy list",
  "POST /deploy/{id}/start": "stoker deploy start {id}",
  "POST /deploy/hf/": "stoker deploy create <model> --task <task>",
  "POST /v1/deploy": "",
  "GET /v1/user/loras": "stoker lora list",
  "GET /v1/voices": "stoker voice list",
  "GET /v1/files": "stoker file list",
  "POST /v1/files": "stoker file create <path>",
  "GET /v1/batches": "stoker batch list",
  "GET /v1/webhooks/deliveries": "stoker webhook list",
  "GET /v1/containers": "stoker container list",
  "POST /v1/containers": "stoker container create <name>",
  "POST /v1/ssh_keys": "",
  "GET /v1/agent": "stoker agent list",
  "GET /v1/agent/catalog": "stoker agent catalog",
  "GET /v1/api-tokens": "stoker token list",
  "GET /v1/workload-identities": "stoker workload-identity list",
  "GET /v1/organizations": "stoker organization list",
  "POST /v1/organizations": "stoker organization create <name>",
  "GET /v1/members": "stoker member list",
  "GET /v1/invitations": "stoker invitation list",
  "GET /v1/projects": "stoker project list",
  "PATCH /v1/projects/{id}": "stoker project update {id}",
  "POST /v1/me/verify-email": "stoker auth verify-email",
  "GET /payment/usage": "stoker usage",
  "POST /payment/config": "stoker billing limit <usd>",
  "POST /payment/key-limits": "stoker billing key-limits",
  "POST /v1/me/rate_limit/request": "stoker rate-limit request",
  "GET /v1/me/limit_requests": "stoker rate-limit requests",
  "POST /v1/me/gpu_pool/request": "stoker gpu-pool request",
  "GET /v1/admin/accounts": "stoker admin account list",
  "GET /v1/admin/accounts/{uid}": "stoker admin account get {uid}",
  "GET /v1/admin/backups": "stoker admin backup list",
  "GET /v1/admin/identity-providers": "stoker admin identity-provider list",
  "GET /v1/admin/external": "stoker admin provider list",
  "GET /v1/admin/nodes": "stoker node list",
  "GET /v1/admin/nodes/{host}/weights": "stoker node weights list {host}",
  "GET /v1/auth/session": "",
  "GET /v1/me/sessions": "stoker auth session list",
};

const named = /(`?)\b(GET|POST|PUT|PATCH|DELETE) (\/[\w/{}:.-]*[\w/{}])\1/g;

interface Route {
  readonly form: RegExp;
  readonly parameters: readonly string[];
  readonly command: string;
}

// The first match counts. Model names contain a slash.
const routes: readonly Route[] = Object.entries(commandsOfPaths).map(([call, command]) => ({
  form: new RegExp(`^${call.replaceAll("{model}", "(.+)").replaceAll(/\{\w+\}/g, "([^/]+)")}$`),
  parameters: call.match(/\{\w+\}/g) ?? [],
  command,
}));

/** Replaces each path by its command, if it has one. */
export function withCommands(message: string): string {
  return message.replaceAll(named, (matched: string, _quote: string, method: string, path: string) => {
    for (const { form, parameters, command } of routes) {
      const values = form.exec(`${method} ${path}`)?.slice(1);
      if (!values) continue;
      if (command === "") return matched;
      const filled = parameters.reduce((text, name, n) => text.replace(name, () => values[n] as string), command);
      return `\`${filled}\``;
    }
    return matched;
  });
}
