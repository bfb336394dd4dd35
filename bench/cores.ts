// Steps per minute of the deterministic simulation of the pure cores, each check included.
import { fencing } from "../test/unit/simulation/fencing.ts";
import { gate } from "../test/unit/simulation/gate.ts";
import { money } from "../test/unit/simulation/money.ts";
import { placement } from "../test/unit/simulation/placement.ts";
import { simulate } from "../test/unit/simulation/simulate.ts";
import type { BenchOptions } from "./figures.ts";

const steps = 250_000;
const wanted = 1_000_000;

export async function benchCores({ figures }: BenchOptions): Promise<void> {
  const all = [money, fencing, placement, gate];
  let totalMs = 0;
  for (const simulation of all) {
    const cpu = process.cpuUsage();
    await simulate(simulation, Math.floor(Math.random() * 2 ** 31), steps);
    const { user, system } = process.cpuUsage(cpu);
    const ms = (user + system) / 1_000;
    totalMs += ms;
    console.log(
      `${simulation.name}: ${Math.round((steps / ms) * 60_000).toLocaleString("en")} steps per minute of CPU time`,
    );
  }
  const rate = Math.round(((steps * all.length) / totalMs) * 60_000);
  const verdict = figures.judge({ name: "steps of all per minute of CPU time", values: [rate], atLeast: wanted });
  console.log(`together: ${rate.toLocaleString("en")} steps per minute of CPU time   ${verdict}`);
}
