// The nightly run itself, over files that take no night.
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { atWorkerEnd } from "../../fakes/worker-end.ts";

const root = join(import.meta.dirname, "../../..");
const quick = "test/unit/scripts/result.test.ts";
const slow = "test/integration/agent-ingress/overload.test.ts";

function nightly(...files: string[]) {
  const child: ChildProcess = spawn(process.execPath, [join(root, "scripts/nightly.ts"), ...files], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  atWorkerEnd(() => child.kill());
  let output = "";
  child.stdout?.on("data", (text) => {
    output += text;
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return { child, ended, output: () => output };
}

it("tells each file's result as it goes, goes on after a red one, and counts the tests at the end", async () => {
  const { ended, output } = nightly("test/no/such.test.ts", quick);
  expect(await ended).toBe(1);
  expect(output()).toMatch(/^test\/no\/such\.test\.ts: 0 passed, 1 failed, 0 skipped in \d+ s$/m);
  expect(output()).toMatch(/^test\/unit\/scripts\/result\.test\.ts: 2 passed, 0 failed, 0 skipped in \d+ s$/m);
  expect(output()).toMatch(/^\| `test\/no\/such\.test\.ts` \| FAILED \| \d+ \|$/m);
  expect(output().trimEnd().split("\n").at(-1)).toBe("2 passed, 1 failed");
});

it("ends at a signal, with what it has", async () => {
  const { child, ended, output } = nightly(quick, slow, quick);
  await vi.waitFor(() => expect(output()).toMatch(/=== \S+overload\S+ \(2 of 3\)[\s\S]+RUN/), {
    timeout: 60_000,
    interval: 100,
  });
  child.kill("SIGTERM");
  expect(await ended).toBe(130);
  expect(output()).toContain("stopped: 2 of 3 files did not finish");
  expect(output().trimEnd().split("\n").at(-1)).toBe("2 passed, 0 failed");
});
