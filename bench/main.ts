// npm run bench -- <scenario> [--rounds N]. Reports speed as ratios to a baseline in interleaved rounds of the same run.
import { benchAgent } from "./agent.ts";
import { benchCalibrate } from "./calibrate.ts";
import { benchCores } from "./cores.ts";
import { type BenchOptions, openFigures } from "./figures.ts";
import { benchFleet } from "./fleet.ts";
import { benchGateway } from "./gateway.ts";
import { benchGrowth } from "./growth.ts";
import { benchHostile } from "./hostile.ts";
import { benchMoney } from "./money.ts";
import { benchPeers } from "./peers.ts";
import { benchReports } from "./reports.ts";
import { benchResumable } from "./resumable.ts";
import { benchRouting } from "./routing.ts";
import { benchRuntime } from "./runtime.ts";
import { benchSimulate } from "./simulate.ts";
import { benchSleep } from "./sleep.ts";
import { benchTracing } from "./tracing.ts";
import { benchWorkers } from "./workers.ts";

const scenarios: Readonly<Record<string, (options: BenchOptions) => Promise<void>>> = {
  agent: benchAgent,
  calibrate: benchCalibrate,
  cores: benchCores,
  fleet: benchFleet,
  gateway: benchGateway,
  growth: benchGrowth,
  hostile: benchHostile,
  money: benchMoney,
  peers: benchPeers,
  reports: benchReports,
  resumable: benchResumable,
  routing: benchRouting,
  runtime: benchRuntime,
  simulate: benchSimulate,
  sleep: benchSleep,
  workers: benchWorkers,
  tracing: benchTracing,
};

const [name, ...rest] = process.argv.slice(2);
const scenario = name === undefined ? undefined : scenarios[name];
if (name === undefined || !scenario) {
  process.stderr.write(`usage: npm run bench -- ${Object.keys(scenarios).join("|")} [--rounds N]\n`);
  process.exit(2);
}
const at = rest.indexOf("--rounds");
await scenario({
  figures: openFigures(name),
  rounds: at >= 0 ? Number(rest[at + 1]) : 6,
  only: rest.includes("--only") ? rest[rest.indexOf("--only") + 1] : undefined,
  rest,
});
