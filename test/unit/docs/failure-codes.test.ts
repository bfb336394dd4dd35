// docs/operations/deployments.md, "Why an instance failed", against the codes that the agent reports.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { driverErrorCodes } from "../../../agent/reconcile/driver.ts";
import { weightsErrorCodes } from "../../../agent/weights/weights-error.ts";

const page = readFileSync(join(import.meta.dirname, "../../../docs/operations/deployments.md"), "utf8");
const [, section = ""] = page.split("\n## Why an instance failed\n");
const listed = [...section.matchAll(/^\| (`.*?) +\|/gm)].flatMap(([, cell = ""]) =>
  [...cell.matchAll(/`(\w+)`/g)].map(([, code]) => code),
);

// A terminal's error, not an instance's.
const starts = driverErrorCodes.filter((code) => code !== "no_shell");

it("explains each code of a failed start and of weights once", () => {
  expect(listed).toEqual(expect.arrayContaining([...starts, ...weightsErrorCodes]));
  expect(new Set(listed).size).toBe(listed.length);
});
