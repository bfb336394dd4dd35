// An agent whose data folder was emptied has no identity: it ends and names the commands, instead of retrying without end.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type FakeControlPlane, startFakeControlPlane } from "../../fakes/control-plane-session.ts";
import { programs } from "../../fakes/programs.ts";

describe("an agent without an identity", () => {
  let plane: FakeControlPlane;
  let dataDir: string;
  beforeEach(async () => {
    plane = await startFakeControlPlane();
    dataDir = mkdtempSync(join(tmpdir(), "stoker-emptied-"));
  });
  afterEach(async () => {
    await plane.close();
    rmSync(dataDir, { recursive: true, force: true });
  });

  async function run(env: Record<string, string> = {}) {
    const child = spawn(process.execPath, [programs.agent], {
      env: {
        ...process.env,
        STOKER_CONTROL: plane.address,
        STOKER_AGENT_DATA: dataDir,
        STOKER_DRIVER: "process",
        STOKER_GPUS: "1",
        ...env,
      },
    });
    const limit = setTimeout(() => child.kill("SIGKILL"), 30_000);
    const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
    child.stdout.resume();
    const said = await text(child.stderr);
    clearTimeout(limit);
    return { code: await exited, sentence: said.split("\n").find((line) => line.startsWith("agent: ")) };
  }

  const join_ = () => `stoker node join --token-file - --control ${plane.address} --data ${dataDir}`;

  it.each([
    ["no token file is configured", {}],
    ["the token file is gone", { STOKER_JOIN_TOKEN_FILE: "/nonexistent/join.token" }],
  ])("exits with 78 and the commands to run when %s", async (_when, env: Record<string, string>) => {
    const { code, sentence } = await run(env);
    expect(code).toBe(78);
    expect(sentence).toContain("this host has no certificate and no join token: its data folder is new or was emptied");
    expect(sentence).toMatch(/`stoker node token create --node \w{16}` if `stoker node list` shows this host/);
    expect(sentence).toContain(join_());
  });

  it("exits with 78, the refusal and the commands when both tokens are refused", async () => {
    writeFileSync(join(dataDir, "join.token"), "not-a-token");
    writeFileSync(join(dataDir, "standing.token"), "not.a.token.either");
    const { code, sentence } = await run({ STOKER_JOIN_TOKEN_FILE: join(dataDir, "standing.token") });
    expect(code).toBe(78);
    expect(sentence).toContain("the join token is malformed");
    expect(sentence).toContain(join_());
  });
});
