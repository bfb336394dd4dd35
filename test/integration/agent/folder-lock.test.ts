// A data folder has one agent: a second one does not start on it, and a killed one leaves nothing that holds it.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type LocalAgent, makeLocalAgent } from "../../fakes/local-agent.ts";
import { programs } from "../../fakes/programs.ts";

const patient = { timeout: 30_000, interval: 100 };
let agent: LocalAgent;
beforeEach(() => {
  agent = makeLocalAgent();
});
afterEach(() => agent.clean());

const startSecond = () =>
  spawnSync(process.execPath, ["--disable-warning=ExperimentalWarning", programs.agent], {
    env: {
      ...process.env,
      STOKER_AGENT_DATA: join(agent.folder, "data"),
      STOKER_LOCAL_DESIRED: join(agent.folder, "desired.json"),
      STOKER_DRIVER: "process",
    },
    encoding: "utf8",
    timeout: 60_000,
  });
const serves = () => agent.log().split('"the agent serves"').length - 1;

describe("an agent's data folder", () => {
  it("takes no second agent, which ends with the pid of the first; and a new one after a kill", async () => {
    agent.start();
    await expect.poll(serves, patient).toBe(1);
    const second = startSecond();
    expect(second.status).toBe(1);
    expect(second.stderr).toContain(`another agent (pid ${agent.pid} on `);
    expect(second.stderr).toContain("end that one, or give this one its own folder with STOKER_AGENT_DATA");
    expect(second.stderr).not.toContain("    at ");

    await agent.kill("SIGKILL");
    agent.start();
    await expect.poll(serves, patient).toBe(2);
  });
});
