import { randomId } from "../../proto/ids.ts";
import type { Owner } from "./create.ts";
import { versionOf } from "./create.ts";
import type { Deployment } from "./deployment.ts";
import { AccountEnded, DeploymentNameTaken, DeploymentRefused, HostNotFound } from "./errors.ts";
import type { DeploymentStore, NewDeployment } from "./store.ts";

export interface ExternalRequest {
  readonly name: string;
  /** Origin of an OpenAI-compatible server that already runs, as seen from the host. */
  readonly url: string;
  readonly maxBatchSize: number;
  /** Name the server knows the model by; the deployment's own without one. */
  readonly servedName: string | undefined;
  /** Id or name of the host whose agent reaches the server; any live one without it. */
  readonly host: string | undefined;
  readonly contextLength: number | undefined;
  /** What its models do; text generation without one. */
  readonly task?: string | undefined;
}

/**
 * A server that already runs, as an instance like any other: same keys, gate, metering and money. For the operator. Asked
 * again with the same address it answers with what is there.
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
  if (request.host !== undefined && !(await deps.hasHost(request.host))) throw new HostNotFound(request.host);
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
  // It takes no GPU of ours.
  const created = await deps.store.insert(next, () => {});
  if (created === "account_gone") throw new AccountEnded();
  if (created !== "name_taken") return created;
  const own = await deps.store.list(owner.account, "model", undefined);
  const same = own.find(
    (one) => one.modelName === request.name && one.externalUrl === url && !["deleted", "failed"].includes(one.status),
  );
  if (!same) throw new DeploymentNameTaken(request.name);
  return same;
}

function parse(text: string): string {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new DeploymentRefused(
      "url: the server's address is written http://host:port, without user, query or fragment.",
      { param: "url" },
    );
  }
  // A path such as /v1 belongs to the requests, which the agent writes itself.
  return `${url.origin}${url.pathname.replace(/\/(v1\/?)?$/, "")}`;
}
