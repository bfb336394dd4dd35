// An agent whose folder was emptied has a new key, but its host accepts only the old one. `up` owns the folder, so it creates a
// join token for that host.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Api } from "./api.ts";

export interface AgentToRejoin {
  readonly api: Api;
  readonly folder: string;
  readonly title: string;
  readonly say: (line: string) => void;
}

/** Minimum interval between tokens: an earlier failure has another cause. */
const minIntervalMs = 60_000;
const tokenTtlSeconds = 300;

/** Error for a new key of a known host. A revoked host gets another error and needs an operator. */
const otherKey = /joined with another key/;

/** Returns a function that writes a join token into the agent's folder. It returns false if an operator must act. */
export function createRejoin({ api, folder, title, say }: AgentToRejoin): (sentence: string) => Promise<boolean> {
  let lastMs = Number.NEGATIVE_INFINITY;
  return async (sentence) => {
    const hasIdentity = existsSync(join(folder, "identity", "certificate.json"));
    if (hasIdentity || !otherKey.test(sentence) || performance.now() - lastMs < minIntervalMs) return false;
    lastMs = performance.now();
    const hostId = readFileSync(join(folder, "state.db.host-id"), "utf8").trim();
    const { body: fleet } = await api.call("GET", "/v1/admin/nodes");
    const host = fleet?.nodes?.find((node: { node_id: string }) => node.node_id === hostId);
    if (host === undefined) return false;
    const token = await api.call("POST", "/v1/admin/nodes/tokens", {
      node_id: hostId,
      pool: host.pool,
      ttl_seconds: tokenTtlSeconds,
    });
    if (typeof token.body?.token !== "string") return false;
    writeFileSync(join(folder, "join.token"), `${token.body.token}\n`, { mode: 0o600 });
    say(
      `${title} has lost its identity: ${folder} was emptied. It joins again as host ${hostId}. Usage that it had not sent is lost.`,
    );
    return true;
  };
}
