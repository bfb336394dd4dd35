import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it, vi } from "vitest";
import { runNode } from "../../../scripts/suites/run-tool.ts";

const folder = mkdtempSync(join(tmpdir(), "stoker-run-tool-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const starter = `
  const child = require("node:child_process").spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  console.log(child.pid);
  setInterval(() => {}, 1000);
`;

it("ends the processes that a stopped program started", async () => {
  const stopping = new AbortController();
  const outputFile = join(folder, "output");
  const ended = runNode(["-e", starter], 60_000, { stop: stopping.signal, outputFile });
  const pid = await vi.waitFor(() => {
    const text = readFileSync(outputFile, "utf8");
    expect(text).toMatch(/^\d+\n/);
    return Number(text);
  });
  stopping.abort();
  expect(await ended).toBeNull();
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});
