// Measures a driver's calls: the metrics page shows the latency and failures of the engine.
import { Counter, Histogram, type Registry } from "prom-client";
import { type ContainerDriver, DriverError } from "../reconcile/driver.ts";

export function measuredDriver(driver: ContainerDriver, registry: Registry): ContainerDriver {
  const registers = [registry];
  const seconds = new Histogram({
    name: "stoker_docker_request_seconds",
    help: "Time of calls to the driver that runs the instances, by what was asked",
    labelNames: ["op"],
    buckets: [0.005, 0.02, 0.1, 0.5, 2, 10, 30, 120, 600],
    registers,
  });
  const errors = new Counter({
    name: "stoker_docker_errors_total",
    help: "Calls to the driver that failed",
    labelNames: ["op", "code"],
    registers,
  });
  async function timed<T>(op: string, call: Promise<T>): Promise<T> {
    const began = performance.now();
    try {
      return await call;
    } catch (error) {
      errors.inc({ op, code: error instanceof DriverError ? error.code : "other" });
      throw error;
    } finally {
      seconds.observe({ op }, (performance.now() - began) / 1000);
    }
  }
  return {
    ...driver,
    name: driver.name,
    list: (signal) => timed("list", driver.list(signal)),
    start: (plan, signal) => timed("start", driver.start(plan, signal)),
    stop: (id, graceMs, signal) => timed("stop", driver.stop(id, graceMs, signal)),
    remove: (id, signal) => timed("remove", driver.remove(id, signal)),
    logs: (id, range, signal) => timed("logs", driver.logs(id, range, signal)),
    watch: (onChange) => driver.watch(onChange),
    close: () => driver.close(),
  };
}
