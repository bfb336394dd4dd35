// scripts/install-agent.sh into a folder: what it leaves there is what agent and systemd read.
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv, promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readConfig } from "../../../agent/config.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../../..");

describe.runIf(process.platform === "linux")("the installation of an agent", () => {
  let folder: string;
  const at = (path: string) => join(folder, path);
  const install = (...args: string[]) =>
    run("sh", [join(root, "scripts/install-agent.sh"), "--to", at("host"), "--no-packages", ...args]);
  const told = ["--control", "10.0.0.1:9090", "--advertise", "https://10.255.0.7:9100"];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "stoker-install-"));
    writeFileSync(at("token"), "a.b.c\n");
    await install(...told, "--token-file", at("token"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("writes an environment that the agent starts with, and a token that only root reads", () => {
    const config = readConfig(
      parseEnv(readFileSync(at("host/etc/stoker/agent.env"), "utf8")) as Record<string, string>,
    );
    expect(config).toMatchObject({
      control: { addresses: ["10.0.0.1:9090"], tokenFile: "/etc/stoker/join.token" },
      advertise: "https://10.255.0.7:9100",
      // This host does not have the address.
      ingressHost: "0.0.0.0",
      ingressPort: 9100,
    });
    expect(readFileSync(at("host/etc/stoker/join.token"), "utf8")).toBe("a.b.c\n");
    for (const file of ["agent.env", "join.token"])
      expect(statSync(at(`host/etc/stoker/${file}`)).mode & 0o777).toBe(0o600);
  });

  it("installs the unit and the programs that it starts", () => {
    const unit = readFileSync(at("host/etc/systemd/system/stoker-agent.service"), "utf8");
    expect(unit).toBe(readFileSync(join(root, "deploy/systemd/stoker-agent.service"), "utf8"));
    for (const file of ["agent/main.ts", "cli/stoker", "package-lock.json"])
      expect(existsSync(at(`host/opt/stoker/${file}`))).toBe(true);
  });

  it("updates without the first values, and keeps the environment", async () => {
    writeFileSync(at("host/etc/stoker/agent.env"), "STOKER_AGENT_DATA=/data\n");
    expect((await install()).stdout).toMatch(/Kept .*agent\.env/);
    expect(readFileSync(at("host/etc/stoker/agent.env"), "utf8")).toBe("STOKER_AGENT_DATA=/data\n");
  });

  it("names what is missing or wrong before it changes anything", async () => {
    const fresh = ["--to", at("other"), "--no-packages"];
    const refuse = async (...args: string[]) =>
      (await run("sh", [join(root, "scripts/install-agent.sh"), ...fresh, ...args]).catch((error) => error)).stderr;
    expect(await refuse()).toMatch(/--control is missing/);
    expect(await refuse("--control", "10.0.0.1:9090")).toMatch(/--token-file is missing/);
    expect(
      await refuse("--control", "10.0.0.1:9090", "--token-file", at("token"), "--advertise", "http://10.0.0.7"),
    ).toMatch(/--advertise must be like https/);
    expect(existsSync(at("other"))).toBe(false);
  });
});
