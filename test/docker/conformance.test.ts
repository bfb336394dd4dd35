// The docker driver against the suite of every driver, on a real engine.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe } from "vitest";
import { driverConformance } from "../conformance/driver-suite.ts";
import { clear, docker, testDriver, tinyHost } from "./docker-host.ts";
import { tinyPlan } from "./tiny-plan.ts";

const host = await tinyHost("that the docker driver keeps the promises of every driver");
const nodeName = `conformance-${process.pid}`;

describe.skipIf(!host.ok)("on a real engine, the", () => {
  driverConformance("docker", async () => {
    const folder = mkdtempSync(join(tmpdir(), "stoker-docker-"));
    let scripts = 0;
    return {
      open: async () => testDriver(nodeName),
      plan(named, behaviour, memoryBytes) {
        const source = join(folder, `script-${++scripts}.json`);
        writeFileSync(source, JSON.stringify(behaviour));
        chmodSync(source, 0o644);
        const target = "/etc/stoker/script.json";
        const plan = tinyPlan({ ...named, memoryBytes, mounts: [{ source, target, readOnly: true }] });
        return { ...plan, env: { ...plan.env, TINY_RUNTIME_SCRIPT: target } };
      },
      pidOf: async (id) => {
        const [name = ""] = (await docker("ps", "-q", "--filter", `label=stoker.instance=${id}`)).split("\n");
        return Number(await docker("inspect", "--format", "{{.State.Pid}}", name));
      },
      async clean() {
        await clear(nodeName);
        rmSync(folder, { recursive: true, force: true });
      },
    };
  });
});
