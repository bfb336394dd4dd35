import type { ContainerInspectInfo } from "dockerode";
import { signalOf } from "../containers/exit-signal.ts";
import type { Observed } from "../reconcile/driver.ts";
import { networkName, ownedOf } from "./labels.ts";

/**
 * Undefined for a container that is not ours, is being removed, or never ran. `isStarting`: this agent is about to start it.
 */
export function observeContainer(info: ContainerInspectInfo, isStarting: boolean): Observed | undefined {
  const owned = ownedOf(info.Config.Labels ?? {});
  if (!owned) return undefined;
  const { instanceId, deployId, generation, port, claimedGpus } = owned;
  const { State: state } = info;
  const base = { instanceId, deployId, generation, claimedGpus, identity: identityOf(info) };
  switch (state.Status) {
    case "created":
      return isStarting ? { ...base, state: "starting" } : undefined;
    case "running":
    case "paused":
    case "restarting": {
      const address = info.NetworkSettings.Networks[networkName(instanceId)]?.IPAddress;
      if (!address) return { ...base, state: "starting" };
      return {
        ...base,
        state: "running",
        origin: `http://${address}:${port}`,
        startedAtMs: Date.parse(state.StartedAt),
      };
    }
    case "exited":
    case "dead": {
      const signal = signalOf(state.ExitCode);
      return {
        ...base,
        state: "exited",
        exitCode: signal === undefined ? state.ExitCode : undefined,
        signal,
        oomKilled: state.OOMKilled,
        finishedAtMs: Date.parse(state.FinishedAt),
      };
    }
    default:
      return undefined;
  }
}

/** Changes with every start and is stable between starts: an exited container may be started again. */
function identityOf(info: ContainerInspectInfo): string {
  return `${info.Id.slice(0, 12)}@${info.State.StartedAt}`;
}
