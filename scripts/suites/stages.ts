// Order of the suites.
import type { Suite } from "./arguments.ts";

/** The suites of a lane and the stages run sequentially. The lanes of a stage run in parallel. */
export type Stage = readonly (readonly Suite[])[];

const stages: readonly Stage[] = [
  // Writes generated files that all other suites read.
  [["check"]],
  // The docker suite changes networks, which makes Chromium cancel requests: must not run together with browser tests.
  [
    ["docker", "conformance"],
    ["e2e", "contract", "unit", "architecture"],
  ],
  [["integration"], ["chaos", "security"]],
];

/** Stages reduced to the chosen suites. */
export function stagesOf(chosen: readonly Suite[]): readonly Stage[] {
  return stages
    .map((lanes) =>
      lanes.map((lane) => lane.filter((suite) => chosen.includes(suite))).filter((lane) => lane.length > 0),
    )
    .filter((lanes) => lanes.length > 0);
}
