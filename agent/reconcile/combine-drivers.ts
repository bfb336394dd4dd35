// Combines the drivers of our own runtime, of external servers and of rentals behind one port.
import type { InstanceId } from "../../proto/ids.ts";
import { type ContainerDriver, type ContainerPlan, DriverError } from "./driver.ts";

/** An instance is in exactly one of them; the others' `stop` and `remove` are no-ops. */
export function combineDrivers(
  runtime: ContainerDriver,
  external: ContainerDriver,
  /** Undefined where this host offers no rentals. */
  rentals?: ContainerDriver,
): ContainerDriver {
  const apart = rentals ? [external, rentals] : [external];
  const all = [runtime, ...apart];
  const driverOf = (kind: ContainerPlan["kind"]) =>
    kind === "external" ? external : kind === "rental" ? rentals : runtime;
  const inTurn = async (act: (driver: ContainerDriver) => Promise<void>) => {
    for (const driver of all) await act(driver);
  };
  /** Returns the driver of the instance; the runtime's if none has it. */
  async function holder(id: InstanceId, signal: AbortSignal): Promise<ContainerDriver> {
    for (const driver of apart) if ((await driver.list(signal)).some((one) => one.instanceId === id)) return driver;
    return runtime;
  }
  return {
    name: runtime.name,
    list: async (signal) => (await Promise.all(all.map((driver) => driver.list(signal)))).flat(),
    pull: async (plan, onProgress, signal) => driverOf(plan.kind)?.pull(plan, onProgress, signal),
    async start(plan, signal) {
      const driver = driverOf(plan.kind);
      if (!driver) throw new DriverError("start_failed", "this host rents out no containers", { retryable: false });
      await driver.start(plan, signal);
    },
    stop: async (id, graceMs, signal) => (await holder(id, signal)).stop(id, graceMs, signal),
    remove: (id, signal) => inTurn((driver) => driver.remove(id, signal)),
    logs: async (id, range, signal) => (await holder(id, signal)).logs(id, range, signal),
    watch: (onChange) => {
      for (const driver of all) driver.watch(onChange);
    },
    close: () => inTurn((driver) => driver.close()),
  };
}
