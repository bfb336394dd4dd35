// An ingress in a process of its own, for the tests that kill it. Arguments: folder, engine origin, fault.
import { join } from "node:path";
import pino from "pino";
import { Ingress } from "../../../agent/ingress/ingress.ts";
import { openState } from "../../../agent/state/open-state.ts";
import type { HostId } from "../../../proto/ids.ts";
import { deployId, instanceId, ticketKey } from "../../fakes/data-path.ts";

const [folder = "", origin = "", fault] = process.argv.slice(2);
const log = pino({ level: "silent" });
const { spool } = await openState(join(folder, "state.db"), log);
const ingress = new Ingress({
  host: "127.0.0.1",
  port: 0,
  hostId: "host000000000001" as HostId,
  keys: () => [ticketKey],
  nodeEpoch: () => 3n,
  controlTimeMs: Date.now,
  spool,
  logs: async () => [],
  log,
  fault,
});
ingress.setTargets([{ instanceId, deployId, origin, maxBatchSize: 8, ready: true, draining: false }]);
const { port } = await ingress.listen();
process.stdout.write(`${port}\n`);
process.stdin.resume().once("end", () => process.exit(0));
