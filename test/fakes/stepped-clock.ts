// Preloaded into a process by NODE_OPTIONS (its threads as well): its wall clock is off by the milliseconds that stand in the
// file of STOKER_TEST_CLOCK_FILE, which a test rewrites as it runs. The monotonic clock and timers are left alone.
import { readFileSync } from "node:fs";

const path = process.env["STOKER_TEST_CLOCK_FILE"];
if (path) {
  const RealDate = Date;
  const lookEveryMs = 20;
  let offsetMs = 0;
  let lookedMs = Number.NEGATIVE_INFINITY;
  const now = () => {
    if (performance.now() - lookedMs > lookEveryMs) {
      lookedMs = performance.now();
      offsetMs = Number(readFileSync(path, "utf8")) || 0;
    }
    return RealDate.now() + offsetMs;
  };
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
    apply: () => new RealDate(now()).toString(),
    get: (target, key) => (key === "now" ? now : Reflect.get(target, key)),
  });
}
