// The units of deploy/systemd as systemd reads them.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const folder = join(import.meta.dirname, "../../../deploy/systemd");
const isInstalled = spawnSync("systemd-analyze", ["--version"]).status === 0;
if (!isInstalled)
  console.warn("NOT PROVEN: that systemd reads the units of deploy/systemd: systemd-analyze is not installed");

describe.runIf(isInstalled).each([
  // The agent starts containers as root, which no sandbox makes safer.
  { unit: "stoker-agent.service", maxExposure: 8.9 },
  { unit: "stoker-control-plane.service", maxExposure: 1.9 },
])("the unit $unit", ({ unit, maxExposure }) => {
  it("has no line that systemd rejects", () => {
    const place = mkdtempSync(join(tmpdir(), "stoker-units-"));
    try {
      // The program is not installed where the tests run.
      const text = readFileSync(join(folder, unit), "utf8").replace(/^ExecStart=\S+/m, `ExecStart=${process.execPath}`);
      writeFileSync(join(place, unit), text);
      const { status, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", join(place, unit)], {
        encoding: "utf8",
      });
      expect(stderr.split("\n").filter((line) => line.includes(unit))).toEqual([]);
      expect(status).toBe(0);
    } finally {
      rmSync(place, { recursive: true, force: true });
    }
  });

  it("is sandboxed as far as its work permits", () => {
    const report = execFileSync("systemd-analyze", ["security", "--offline=true", join(folder, unit)], {
      encoding: "utf8",
    });
    const exposure = Number(/exposure level for \S+: ([\d.]+)/.exec(report)?.[1]);
    expect(exposure).toBeLessThanOrEqual(maxExposure);
  });
});
