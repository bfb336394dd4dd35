// The real HTTP edge in a process of its own. Sends its address, then on each message the processor time of its event loop since the
// previous message, which no other process of the machine extends.
import { startEdge } from "./edge.ts";

const edge = await startEdge();
let before = process.threadCpuUsage();
process.on("message", () => {
  const { user, system } = process.threadCpuUsage(before);
  before = process.threadCpuUsage();
  process.send?.({ busyMs: (user + system) / 1e3 });
});
process.once("disconnect", () => process.exit());
process.send?.({ url: edge.url });
