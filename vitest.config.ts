import { availableParallelism } from "node:os";
import { configDefaults, defineConfig } from "vitest/config";
import { LongestFirst } from "./scripts/suites/longest-first.ts";
import { nightlyOnly, pathOfTest } from "./scripts/suites/nightly-only.ts";
import { compileCache } from "./test/fakes/compile-cache.ts";
import { isNightly } from "./test/fakes/nightly.ts";

const serial = { fileParallelism: false, maxWorkers: 1, testTimeout: 120_000, hookTimeout: 180_000 };
/** For files that wait for processes, engines and clocks more than they compute. */
const together = (maxWorkers: number) => ({ ...serial, fileParallelism: true, maxWorkers });
// Files that compute: other suites use the last processor, and each worker loads the product for itself.
const allButOneProcessor = { maxWorkers: Math.max(1, availableParallelism() - 1) };
// Files of one worker share its process and its loaded modules: half the processor time of a suite of many small files was
// imports. Nothing in the product keeps state in a module, and a test puts back what it changes of its process.
const shared = { isolate: false };
// All processors are busy with tests: threads that help to collect garbage cost more processor time than they save.
const execArgv = ["--single-threaded-gc"];
const env = { NODE_COMPILE_CACHE: compileCache };
// A poll that is given no time of its own waits for a fact, however slow the machine: the default is a second.
const expect = { poll: { timeout: 20_000 } };
const exclude = [...configDefaults.exclude, ...(isNightly ? [] : Object.keys(nightlyOnly).map(pathOfTest))];
// Projects with different numbers of workers can run in one command, after each other.
let groupOrder = 0;
const project = (name: string, options: object = {}) => ({
  test: {
    name,
    sequence: { groupOrder: groupOrder++ },
    include: [`test/${name}/**/*.test.ts`],
    exclude,
    environment: "node",
    pool: "forks" as const,
    execArgv,
    env,
    expect,
    ...options,
  },
});

// One project per test folder. `scripts/suites/schedule.ts` names the suites that run beside each other.
export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      // Nothing in it waits, but some compute for seconds where a machine is slow or shared.
      project("unit", { ...allButOneProcessor, ...shared, testTimeout: 60_000, hookTimeout: 180_000 }),
      project("architecture", { include: ["test/*.test.ts"] }),
      project("contract", {
        ...allButOneProcessor,
        ...shared,
        testTimeout: 60_000,
        hookTimeout: 180_000,
        globalSetup: "test/contract/global-setup.ts",
      }),
      project("conformance", { ...together(2), ...shared }),
      // A file uses a third of a processor; chaos and security run beside it. A fourth worker saved no time.
      project("integration", { ...together(3), ...shared }),
      project("security", { ...together(2), ...shared }),
      project("e2e", { ...together(2), ...shared, testTimeout: 240_000, hookTimeout: 300_000 }),
      project("docker", {
        ...together(3),
        testTimeout: 240_000,
        hookTimeout: 600_000,
        globalSetup: "test/docker/global-setup.ts",
      }),
      project("gpu", { ...serial, testTimeout: 240_000, hookTimeout: 300_000 }),
      project("chaos", { ...together(2), ...shared, testTimeout: 240_000 }),
    ],
  },
});
