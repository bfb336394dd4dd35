// Instances of our own runtime and servers that already run side by side: one driver for each kind, one port for the loop.
import type { InstanceId } from "../../proto/ids.ts";
import type { ContainerDriver } from "./driver.ts";

/** An instance is in exactly one of the two; the other's `stop` and `remove` are no-ops. */
export function combineDrivers(runtime: ContainerDriver, external: ContainerDriver): ContainerDriver {
  const both = [runtime, external];
  const inTurn = async (act: (driver: ContainerDriver) => Promise<void>) => {
    for (const driver of both) await act(driver);
  };
  /** Where the instance is; the runtime's when it is nowhere. */
  async function holder(id: InstanceId, signal: AbortSignal): Promise<ContainerDriver> {
    const listed = await external.list(signal);
    return listed.some((one) => one.instanceId === id) ? external : runtime;
  }
  return {
    name: runtime.name,
    list: async (signal) => (await Promise.all(both.map((driver) => driver.list(signal)))).flat(),
    start: (plan, signal) => (plan.kind === "external" ? external : runtime).start(plan, signal),
    stop: async (id, graceMs, signal) => (await holder(id, signal)).stop(id, graceMs, signal),
    remove: (id, signal) => inTurn((driver) => driver.remove(id, signal)),
    logs: async (id, range, signal) => (await holder(id, signal)).logs(id, range, signal),
    watch: (onChange) => {
      for (const driver of both) driver.watch(onChange);
    },
    close: () => inTurn((driver) => driver.close()),
  };
}
