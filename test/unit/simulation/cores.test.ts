// Deterministic simulation of the pure cores: 100,000 steps at every change, ten times as many at night; `npm run bench -- cores` measures it.
import { expect, it } from "vitest";
import { longer } from "../../fakes/nightly.ts";
import { type Seeded, seeded } from "../../fakes/seed.ts";
import { fencing } from "./fencing.ts";
import { gate } from "./gate.ts";
import { money } from "./money.ts";
import { placement } from "./placement.ts";
import { SimulationFailed, simulate } from "./simulate.ts";

/** The same at every change, so that a failure stays; others each night. */
const { seed } = seeded(longer<number | undefined>(2_026, undefined));
const steps = longer(25_000, 250_000);

it.each([money, fencing, placement, gate])(`keeps what it promises: $name (seed ${seed})`, async (simulation) => {
  await simulate(simulation, seed, steps);
});

it.each(
  [money, fencing, placement, gate].flatMap((simulation) =>
    simulation.defects.map((defect) => ({ defect, simulation })),
  ),
)("finds $defect", async ({ defect, simulation }) => {
  const planted = { ...simulation, create: (random: Seeded) => simulation.create(random, defect) };
  await expect(simulate(planted, 1, 40_000)).rejects.toThrow(SimulationFailed);
});

it("reports seed, step and the last steps of a failure, which repeats", async () => {
  const planted = { ...gate, create: (random: Seeded) => gate.create(random, gate.defects[0]) };
  const [failed, again] = await Promise.all(
    [1, 2].map(() => simulate(planted, 5, 10_000).catch((error: SimulationFailed) => error)),
  );
  expect(failed?.message).toMatch(/^gate, seed \d+, step \d+: \d+ permits of \d+ are used/);
  expect(failed?.message).toMatch(/last steps:\n {2}\d+: /);
  expect(again?.message).toBe(failed?.message);
});
