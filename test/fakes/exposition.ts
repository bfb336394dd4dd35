// Reading a metrics page as Prometheus would count it, and what its own linter says of it.
import { spawnSync } from "node:child_process";

/** Lines that are series. */
export function seriesIn(page: string): readonly string[] {
  return page.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

/** What `promtool check metrics` finds wrong; undefined, loudly, where it is not installed. */
export function lint(page: string): string | undefined {
  const { error, stdout, stderr } = spawnSync("promtool", ["check", "metrics"], { input: page, encoding: "utf8" });
  if (!error) return `${stdout}${stderr}`.trim();
  process.stderr.write("\nNOT PROVEN: promtool is not installed; no metrics page was checked by it.\n\n");
  return undefined;
}
