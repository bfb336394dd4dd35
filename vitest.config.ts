import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

const serial = { fileParallelism: false, maxWorkers: 1, testTimeout: 60_000, hookTimeout: 180_000 };
// Files that wait for processes and timers more than they compute: two at a time fill two cores.
const inPairs = { ...serial, fileParallelism: true, maxWorkers: 2 };
// Files that compute: left to itself vitest keeps a processor free, which of two is half the machine.
const onAll = { maxWorkers: Math.max(2, availableParallelism() - 1) };
// What the processes that tests start have compiled once, the next ones find: a third of a control plane's start.
const env = { NODE_COMPILE_CACHE: join(tmpdir(), "stoker-test-compiled") };
// A poll that is given no time of its own waits for a fact, however slow the machine: the default is a second.
const expect = { poll: { timeout: 20_000 } };
const project = (name: string, options: object = {}) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    environment: "node",
    pool: "forks" as const,
    env,
    expect,
    ...options,
  },
});

// One project per test folder. Suites that load real weights run one file at a time: two cores are not two machines.
export default defineConfig({
  test: {
    projects: [
      // Nothing in it waits, but some compute for seconds where a machine is slow or shared.
      project("unit", { ...onAll, testTimeout: 60_000 }),
      { test: { name: "architecture", include: ["test/*.test.ts"], environment: "node" } },
      project("contract", { ...onAll, testTimeout: 60_000, hookTimeout: 180_000 }),
      project("conformance", inPairs),
      project("integration", inPairs),
      project("e2e", { ...serial, testTimeout: 240_000, hookTimeout: 300_000 }),
      project("docker", {
        ...inPairs,
        testTimeout: 240_000,
        hookTimeout: 600_000,
        globalSetup: "test/docker/global-setup.ts",
      }),
      project("gpu", { ...serial, testTimeout: 240_000, hookTimeout: 300_000 }),
      // Most of its time it waits for clocks and restarts: three of its files at a time use little more than one core.
      project("chaos", { ...inPairs, maxWorkers: 3, testTimeout: 240_000 }),
    ],
  },
});
