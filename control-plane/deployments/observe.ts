// Stores a host's report of its instances; the controller derives the deployment's status.
import type { Logger } from "pino";
import type { HostId, InstanceId } from "../../proto/ids.ts";
import type { DeploymentStore, Observation } from "./store.ts";

export interface Observer {
  /** Returns false when a newer session of the host exists. Throws when the database is unavailable: the next report retries. */
  observe(report: HostObservations): Promise<boolean>;
  /** The session ended. */
  forget(host: HostId, nodeEpoch: bigint): void;
}

export interface HostObservations {
  readonly hostId: HostId;
  readonly nodeEpoch: bigint;
  readonly instances: readonly Observation[];
  /** Tombstoned instances that are gone. */
  readonly removed: readonly InstanceId[];
}

interface Written {
  readonly nodeEpoch: bigint;
  /** Presence of processes there. */
  readonly presence: string;
  readonly texts: ReadonlyMap<InstanceId, string>;
}

export function createObserver(deps: {
  readonly store: Pick<DeploymentStore, "observe">;
  readonly log: Logger;
}): Observer {
  /** Last written report per host: an unchanged report costs no write. */
  const written = new Map<HostId, Written>();

  return {
    async observe({ hostId, nodeEpoch, instances, removed }) {
      const last = written.get(hostId);
      const texts = last?.nodeEpoch === nodeEpoch ? last.texts : new Map<InstanceId, string>();
      const news = instances.filter((seen) => texts.get(seen.instanceId) !== textOf(seen));
      const present = instances.filter(({ phase }) => phase !== "stopped" && phase !== "failed");
      const presence = present.map(({ instanceId, gpuUuids }) => [instanceId, ...gpuUuids].join(" ")).join("\n");
      const isSame = last?.nodeEpoch === nodeEpoch && last.presence === presence;
      if (news.length === 0 && removed.length === 0 && isSame) return true;
      const { isFenced, unknown } = await deps.store.observe(hostId, nodeEpoch, news, removed, present);
      if (isFenced) return false;
      if (unknown.length > 0)
        deps.log.error(
          { alert: "unknown_instances", host: hostId, instances: unknown },
          "the host runs unknown instances",
        );
      written.set(hostId, {
        nodeEpoch,
        presence,
        texts: new Map(instances.map((seen) => [seen.instanceId, textOf(seen)])),
      });
      return true;
    },
    forget(host, nodeEpoch) {
      if (written.get(host)?.nodeEpoch === nodeEpoch) written.delete(host);
    },
  };
}

const textOf = ({ adapters, ...seen }: Observation) =>
  [...Object.values(seen), JSON.stringify(adapters)].join("\u0000");
