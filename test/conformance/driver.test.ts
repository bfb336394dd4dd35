// The process driver against the suite of every driver, with a tiny stand-in for the runtime.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { describe } from "vitest";
import { findMemoryCgroups, type MemoryCgroups } from "../../agent/process/memory-cgroup.ts";
import { ProcessDriver } from "../../agent/process/process-driver.ts";
import { driverConformance } from "./driver-suite.ts";

/** With control groups where this machine allows them, and with the watch that stands in for them elsewhere. */
if (!findMemoryCgroups())
  console.warn("\n*** NOT PROVEN: a memory limit by control group\n*** because none can be made here\n");
describe.each([
  { how: "limited by control groups", cgroups: findMemoryCgroups() },
  { how: "watched", cgroups: false as const },
])("processes $how:", ({ cgroups }) => processConformance(cgroups));

function processConformance(cgroups: MemoryCgroups | false | undefined): void {
  driverConformance("process", async () => {
    // A long path: sockets and shells have limits that folders have not.
    const folder = join(mkdtempSync(join(tmpdir(), "stoker-driver-")), "a-rather-long-folder-name".repeat(5));
    const entry = join(import.meta.dirname, "../fakes/tiny-runtime.ts");
    mkdirSync(folder, { recursive: true });
    let scripts = 0;
    return {
      open: async () =>
        new ProcessDriver({
          folder: join(folder, "instances"),
          entry,
          log: pino({ level: "silent" }),
          ...(cgroups === undefined ? {} : { cgroups }),
        }),
      plan(named, behaviour, memoryBytes) {
        const script = join(folder, `script-${++scripts}.json`);
        writeFileSync(script, JSON.stringify(behaviour));
        return {
          instanceId: named.instanceId,
          deployId: named.deployId,
          generation: named.generation,
          kind: "runtime",
          image: "",
          args: [],
          env: {
            STOKER_INSTANCE_ID: named.instanceId,
            STOKER_SERVED_MODEL_NAME: "tiny/model",
            STOKER_HOST: "127.0.0.1",
            STOKER_PORT: "0",
            TINY_RUNTIME_SCRIPT: script,
          },
          mounts: [],
          port: 8000,
          memoryBytes,
          cpus: 1,
          gpuUuids: [],
          shmBytes: 0,
        };
      },
      pidOf: async (id) => Number(JSON.parse(readFileSync(join(folder, "instances", id, "process.json"), "utf8")).pid),
      clean: async () => rmSync(join(folder, ".."), { recursive: true, force: true }),
    };
  });
}
