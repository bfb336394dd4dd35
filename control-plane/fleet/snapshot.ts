import type { HostId } from "../../proto/ids.ts";
import type { HostView } from "./host.ts";
import type { HostClocks } from "./host-clocks.ts";
import type { FleetStore } from "./store.ts";

/** Returns every host (or the given ones) with claims and state. Decisions are guarded by its revision. */
export async function snapshot(
  deps: {
    readonly store: Pick<FleetStore, "hosts">;
    readonly clocks: Pick<HostClocks, "state" | "silentMs">;
  },
  only?: readonly HostId[],
): Promise<readonly HostView[]> {
  const hosts = await deps.store.hosts(only);
  return hosts.map((host) => ({
    ...host,
    state: deps.clocks.state(host.id),
    silentMs: deps.clocks.silentMs(host.id),
  }));
}
