// Hosts on which writing a placement of a deployment failed. They are left out for a while, so that one bad record does not stop a
// deployment that fits elsewhere. Kept in memory: after a restart each is tried once more.
import type { DeploymentId, HostId } from "../../proto/ids.ts";

interface Failed {
  readonly count: number;
  readonly untilMs: number;
}

const firstMs = 5_000;
const longestMs = 300_000;
const maxDeployments = 10_000;

export class FailedPlacements {
  readonly #byDeployment = new Map<DeploymentId, Map<HostId, Failed>>();

  /** Excludes the hosts for 5 s, twice as long after each further failure within five minutes, at most five minutes. */
  note(id: DeploymentId, hosts: readonly HostId[], nowMs: number): void {
    const failed = this.#byDeployment.get(id) ?? new Map<HostId, Failed>();
    if (this.#byDeployment.size >= maxDeployments && !this.#byDeployment.has(id)) this.#byDeployment.clear();
    this.#byDeployment.set(id, failed);
    for (const host of hosts) {
      const before = failed.get(host);
      const count = before && before.untilMs + longestMs > nowMs ? before.count + 1 : 1;
      failed.set(host, { count, untilMs: nowMs + Math.min(longestMs, firstMs * 2 ** (count - 1)) });
    }
  }

  /** Hosts that the deployment must not be placed on now. */
  of(id: DeploymentId, nowMs: number): ReadonlySet<HostId> | undefined {
    const failed = this.#byDeployment.get(id);
    const hosts = [...(failed ?? [])].flatMap(([host, { untilMs }]) => (untilMs > nowMs ? host : []));
    return hosts.length > 0 ? new Set(hosts) : undefined;
  }

  forget(id: DeploymentId): void {
    this.#byDeployment.delete(id);
  }
}
