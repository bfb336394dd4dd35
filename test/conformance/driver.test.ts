// The process driver against the suite of every driver, with a tiny stand-in for the runtime.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { createProcessDriver } from "../../agent/process/process-driver.ts";
import { driverConformance } from "./driver-suite.ts";

driverConformance("process", async () => {
  // A long path: sockets and shells have limits that folders have not.
  const folder = join(mkdtempSync(join(tmpdir(), "stoker-driver-")), "a-rather-long-folder-name".repeat(5));
  const entry = join(import.meta.dirname, "../fakes/tiny-runtime.ts");
  mkdirSync(folder, { recursive: true });
  let scripts = 0;
  return {
    open: async () => createProcessDriver({ folder: join(folder, "instances"), entry, log: pino({ level: "silent" }) }),
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
    clean: async () => rmSync(join(folder, ".."), { recursive: true, force: true }),
  };
});
