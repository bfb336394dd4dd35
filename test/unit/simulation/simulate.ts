// Runs a pure core step by step in one process with virtual time, in an order that a seed chooses, and checks it after each step.
import { type Seeded, seeded } from "../../fakes/seed.ts";

export interface Simulated {
  /** Does one thing, or lets one thing that is under way go on. Returns what it did, in words. */
  step(): string | Promise<string>;
  /** What is wrong; undefined: nothing. */
  check(): string | undefined;
}

export interface Simulation {
  readonly name: string;
  /** A defect that `check` must find; its name is the test's. */
  readonly defects: readonly string[];
  create(random: Seeded, defect?: string): Simulated;
}

export class SimulationFailed extends Error {
  override readonly name = "SimulationFailed";
  readonly seed: number;
  readonly at: number;
  constructor(simulation: string, seed: number, at: number, what: string, last: readonly string[]) {
    const steps = last.map((line, i) => `  ${at - last.length + i + 1}: ${line}`).join("\n");
    super(`${simulation}, seed ${seed}, step ${at}: ${what}\nlast steps:\n${steps}`);
    this.seed = seed;
    this.at = at;
  }
}

/** A world grows: after this many steps another one begins, with the next seed. */
const stepsOfWorld = 2_000;
const shown = 20;

/** Throws SimulationFailed. A failure repeats with its seed and as many steps as it names. */
export async function simulate({ name, create }: Simulation, seed: number, steps: number): Promise<void> {
  for (let done = 0, world = seed; done < steps; done += stepsOfWorld, world++) {
    const simulated = create(seeded(world, { isFixed: true }));
    const last: string[] = [];
    for (let at = 1; at <= Math.min(stepsOfWorld, steps - done); at++) {
      let what: string | undefined;
      try {
        const did = simulated.step();
        last.push(typeof did === "string" ? did : await did);
        what = simulated.check();
      } catch (error) {
        what = error instanceof Error ? (error.stack ?? error.message) : String(error);
      }
      if (last.length > shown) last.shift();
      if (what !== undefined) throw new SimulationFailed(name, world, at, what, last);
    }
  }
}
