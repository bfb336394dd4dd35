// The real HTTP edge in a process of its own. Tells its port, then the longest time its event loop stood still, each time it is asked.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { startEdge } from "./edge.ts";

const edge = await startEdge();
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
process.on("message", () => {
  process.send?.({ blockedMs: delay.max / 1e6 });
  delay.reset();
});
process.once("disconnect", () => process.exit());
process.send?.({ url: edge.url });
