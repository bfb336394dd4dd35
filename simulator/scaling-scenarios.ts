// Scenarios in which one rule of the autoscaler matters: the schedule, the growth of arrivals, the target of the first token.
import type { Scaling } from "../control-plane/deployments/scaling.ts";
import { weekdays } from "../control-plane/deployments/schedules.ts";
import { profiles } from "./profile.ts";
import type { Scenario } from "./simulate.ts";
import { singles } from "./workload.ts";

const short = { account: "ada", promptTokens: 600, outputTokens: 250 };
const small = { ...profiles["8b"], maxBatchSize: 24 };
const slow = { ...small, coldStartMs: 120_000 };

/** Interpolates between points of time (seconds) and requests per second. */
const along =
  (...points: readonly (readonly [number, number])[]) =>
  (nowMs: number): number => {
    const seconds = nowMs / 1000;
    const after = points.findIndex(([at]) => at > seconds);
    const [[from, low], [to, high]] =
      after <= 0
        ? [points.at(-1) as readonly [number, number], points.at(-1) as readonly [number, number]]
        : [points[after - 1] as readonly [number, number], points[after] as readonly [number, number]];
    return to === from ? low : low + ((seconds - from) / (to - from)) * (high - low);
  };

/** Monday, 07:40 in Berlin, in winter. */
const monday = Date.UTC(2026, 0, 5, 6, 40);
const officeHours: Scaling = {
  schedules: [{ days: weekdays.slice(0, 5), from: "08:00", to: "18:00", timeZone: "Europe/Berlin", minInstances: 5 }],
};

/** The scenario without schedules, targets and preparation for growth. */
export const withoutRules = (scenario: Scenario): Scenario => {
  const { min, max } = scenario.scale as NonNullable<Scenario["scale"]>;
  return { ...scenario, scale: { min, max, startMs: 0 } };
};

export const scalingScenarios: readonly Scenario[] = [
  {
    name: "an office opens at 08:00, with a schedule",
    kind: "scale",
    instances: [small],
    scale: { min: 1, max: 8, scaling: officeHours, startsAtMs: monday },
    seconds: 2_400,
    // Requests per second rise within a minute.
    start: (world) => singles(world, short, along([0, 0.5], [1_200, 0.5], [1_260, 12], [2_400, 12])),
  },
  {
    name: "requests grow fourfold within twelve minutes, starts take two",
    kind: "scale",
    instances: [slow, slow],
    scale: { min: 2, max: 12 },
    seconds: 1_620,
    start: (world) => singles(world, short, along([0, 6], [300, 6], [1_020, 24], [1_620, 24])),
  },
  {
    name: "long prompts on few slots, with a target for the first token",
    kind: "scale",
    instances: [profiles["8b"]],
    scale: { min: 1, max: 8, scaling: { targetTtftMs: 2_000 } },
    seconds: 2_400,
    warmUpSeconds: 600,
    start: (world) => singles(world, { account: "ada", promptTokens: 8_000, outputTokens: 60 }, () => 1.2),
  },
];
