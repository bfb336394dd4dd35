import { randomId } from "../../proto/ids.ts";
import type { Owner } from "./create.ts";
import { versionOf } from "./create.ts";
import type { Deployment } from "./deployment.ts";
import { accountEnded, deploymentNameTaken, deploymentRefused, hostNotFound } from "./errors.ts";
import type { DeploymentStore, NewDeployment } from "./store.ts";

export interface ExternalRequest {
  readonly name: string;
  /** Origin of a running OpenAI-compatible server, as seen from the host. */
  readonly url: string;
  readonly maxBatchSize: number;
  /** Model name at the server; default: the deployment's name. */
  readonly servedName: string | undefined;
  /** Id or name of the host whose agent reaches the server; default: any live host. */
  readonly host: string | undefined;
  readonly contextLength: number | undefined;
  /** Task of its models; default: text generation. */
  readonly task?: string | undefined;
}

/**
 * Adds a running server as an instance with the usual keys, gate, metering and billing. For the operator. Idempotent by
 * address.
 */
export async function createExternal(
  deps: {
    readonly store: Pick<DeploymentStore, "insert" | "list">;
    readonly hasHost: (idOrName: string) => Promise<boolean>;
  },
  owner: Owner,
  request: ExternalRequest,
): Promise<Deployment> {
  const url = parse(request.url);
  if (request.host !== undefined && !(await deps.hasHost(request.host))) throw hostNotFound(request.host);
  const weights = {
    repo: "",
    revision: "",
    ...(request.servedName === undefined ? {} : { servedName: request.servedName }),
    ...(request.host === undefined ? {} : { host: request.host }),
  };
  const next: NewDeployment = {
    id: randomId<"deployment">(16),
    account: owner.account,
    kind: "model",
    modelName: request.name,
    version: versionOf({ repo: url, revision: request.name }),
    task: request.task ?? "text-generation",
    type: "llm",
    engine: "external",
    gpu: "other",
    numGpus: 0,
    maxBatchSize: request.maxBatchSize,
    minInstances: 1,
    maxInstances: 1,
    weights,
    weightsToken: null,
    extraArgs: [],
    externalUrl: url,
    contextLength: request.contextLength ?? 0,
    memoryBytes: 0,
  };
  // No GPU check: it uses none of our GPUs.
  const created = await deps.store.insert(next, () => {});
  if (created === "account_gone") throw accountEnded();
  if (created !== "name_taken") return created;
  const own = await deps.store.list(owner.account, "model", undefined);
  const same = own.find(
    (one) => one.modelName === request.name && one.externalUrl === url && !["deleted", "failed"].includes(one.status),
  );
  if (!same) throw deploymentNameTaken(request.name);
  return same;
}

function parse(text: string): string {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw deploymentRefused("url must have the form http://host:port, without user, query or fragment.", {
      param: "url",
    });
  }
  // A path such as /v1 is part of the requests that the agent sends.
  return `${url.origin}${url.pathname.replace(/\/(v1\/?)?$/, "")}`;
}
