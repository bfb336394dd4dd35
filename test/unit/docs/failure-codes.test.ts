// docs/operations/deployments.md, "Why an instance failed", against the codes that the agent reports.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { driverErrorCodes } from "../../../agent/reconcile/driver.ts";
import { weightsErrorCodes } from "../../../agent/weights/weights-error.ts";

const page = readFileSync(join(import.meta.dirname, "../../../docs/operations/deployments.md"), "utf8");
const [, rest = ""] = page.split("\n## Why an instance failed\n");
const [section = ""] = rest.split("\n## ");
const listed = [...section.matchAll(/^\| (`.*?) +\|/gm)].flatMap(([, cell = ""]) =>
  [...cell.matchAll(/`(\w+)`/g)].map(([, code]) => code),
);

// A terminal's error, not an instance's.
const starts = driverErrorCodes.filter((code) => code !== "no_shell");

const agent = join(import.meta.dirname, "../../../agent");
const sources = ["reconcile", "kubernetes", "engines"]
  .flatMap((folder) => readdirSync(join(agent, folder)).map((file) => join(agent, folder, file)))
  .filter((file) => file.endsWith(".ts"))
  .map((file) => readFileSync(file, "utf8"));

/** Codes that are written where an instance ends or is refused; the table has `exit_1` and `signal_kill` as patterns. */
const others = [
  "bad_model",
  "ended_by_node",
  "engine_frozen",
  "evicted",
  "exit_unknown",
  "gpu_in_use",
  "gpu_lost",
  "gpu_memory_held",
  "health_lost",
  "image_refused",
  "image_unusable",
  "node_refused",
  "oom_killed",
  "pod_not_ours",
];
const patterns = { exit_N: "`exit_${", signal_NAME: "`signal_${" };

it("explains each code of an instance once, and no other", () => {
  const known = [...starts, ...weightsErrorCodes, ...others, ...Object.keys(patterns)];
  expect(listed.toSorted()).toEqual(known.toSorted());
});

it.each([...others.map((code) => `"${code}"`), ...Object.values(patterns)])("finds %s in the agent", (text) => {
  expect(sources.some((source) => source.includes(text))).toBe(true);
});

it("explains each code that an instance ends with", () => {
  const written = sources.flatMap((source) => [...source.matchAll(/\bcode: "(\w+)"/g)].map(([, code]) => code));
  expect(written.length).toBeGreaterThan(0);
  expect(listed).toEqual(expect.arrayContaining(written));
});
