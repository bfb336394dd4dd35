// Prompts, answers and weights cross no network unencrypted unless the operators of both ends said so.
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { readConfig } from "../../agent/config.ts";
import { createDataPathTls } from "../../agent/wiring/control.ts";
import { issuesOf } from "../../console/domain/nodes.ts";
import { readConfig as readControlPlaneConfig } from "../../control-plane/config.ts";
import { createDial, plainWarning } from "../../control-plane/fleet/dial.ts";
import { renderNode } from "../../control-plane/http/operator/render-nodes.ts";
import { type MayBePlain, readPlainHosts } from "../../control-plane/plain-hosts.ts";
import type { HostId } from "../../proto/ids.ts";
import { hostNode } from "../fakes/fleet-records.ts";
import { newAuthority } from "../fakes/peers.ts";
import { programs } from "../fakes/programs.ts";

const hostId = "host-1" as HostId;
const near = ["http://127.0.0.1:9100", "http://[::1]:9100", "http://localhost:9100"];
const far = [
  "http://10.0.0.7:9100",
  "http://[fd00::7]:9100",
  "http://gpu-1:9100",
  "http://127.0.0.1.example.com:9100",
  "http://localhost.example.com:9100",
  "http://0.0.0.0:9100",
];

describe("a control plane", () => {
  const authority = newAuthority();
  const dialWith = (mayBePlain: MayBePlain) =>
    createDial({
      issue: () => ({ ...authority.issueGateway("replica-1"), notAfterMs: Date.now() + 60_000 }),
      isRevoked: () => false,
      mayBePlain,
      nowMs: Date.now,
    });
  const settings = { DATABASE_URL: "postgresql://stoker@127.0.0.1/stoker" };
  const configured = (env: Record<string, string> = {}) => readControlPlaneConfig({ ...settings, ...env }).mayBePlain;

  it("refuses plain HTTP to other machines by default", () => {
    const dial = dialWith(configured());
    for (const origin of near) expect(dial({ hostId, origin })).toEqual({});
    for (const origin of far) expect(() => dial({ hostId, origin })).toThrow("does not use TLS, which is required");
  });

  it("allows it to the hosts that STOKER_DATA_PATH_PLAIN names, and to no others", () => {
    const dial = dialWith(configured({ STOKER_DATA_PATH_PLAIN: "10.0.0.0/24, fd00::7,GPU-1" }));
    for (const origin of far.slice(0, 3)) expect(dial({ hostId, origin })).toEqual({});
    for (const origin of [...far.slice(3), "http://10.0.1.7:9100", "http://gpu-10:9100"])
      expect(() => dial({ hostId, origin })).toThrow("does not use TLS, which is required");
  });

  it.each(["10.0.0.0/33", "10.0.0", "a b/", "http://10.0.0.7", "*", "10.0.0.7/x", "10.0.0.7/", "10.0.0.0/8/24"])(
    "refuses %s as a host",
    (entry) => {
      expect(readPlainHosts([entry])).toBeUndefined();
      expect(() => configured({ STOKER_DATA_PATH_PLAIN: entry })).toThrow("STOKER_DATA_PATH_PLAIN must be addresses");
    },
  );

  it("refuses the setting that used to allow plain HTTP to every host", () => {
    expect(() => configured({ STOKER_DATA_PATH_TLS: "auto" })).toThrow("STOKER_DATA_PATH_TLS must be required");
    expect(configured({ STOKER_DATA_PATH_TLS: "required" })("10.0.0.7")).toBe(false);
  });

  it("warns of a data path that leaves its machine unencrypted", () => {
    for (const origin of far) expect(plainWarning(origin)).toContain(`data_path_plain: `);
    for (const origin of [...near, "https://10.0.0.7:9100"]) expect(plainWarning(origin)).toBeUndefined();
  });

  it("shows the warning on the host, in the API and the console, and goes on placing there", () => {
    const shown = renderNode({ ...hostNode, advertise: "http://10.0.0.7:9100" });
    expect(shown.warnings[0]).toMatch(/^data_path_plain: .*10\.0\.0\.7:9100 are not encrypted$/);
    expect(issuesOf(shown as never)).toContain(shown.warnings[0]);
    expect(shown).toMatchObject({ state: "ready", condition: "" });
    expect(renderNode(hostNode).warnings).toEqual([]);
  });
});

describe("an agent", () => {
  const joined = { STOKER_AGENT_DATA: "/var/lib/stoker-agent", STOKER_CONTROL: "10.0.0.1:9090" };
  const beyond = { STOKER_INGRESS_HOST: "0.0.0.0" };

  it("serves TLS on every address but loopback, and plain HTTP there only when configured", () => {
    expect(readConfig({ ...joined, ...beyond })).toMatchObject({ ingressTls: true, isPlain: false });
    expect(readConfig({ ...joined, STOKER_ADVERTISE: "http://gpu-1:9100" })).toMatchObject({ ingressTls: true });
    expect(readConfig({ ...joined, ...beyond, STOKER_INGRESS_TLS: "off" })).toMatchObject({ isPlain: true });
    expect(readConfig(joined)).toMatchObject({ ingressTls: false, isPlain: false });
  });

  it("does not fetch weights over plain HTTP from another machine", () => {
    const identity = { current: () => undefined, onCertificate() {} };
    const barred = { has: () => false, onChange() {} };
    const { dial } = createDataPathTls(identity, barred, false);
    for (const origin of near) expect(dial({ hostId, origin })).toEqual({});
    for (const origin of far) expect(() => dial({ hostId, origin })).toThrow("speaks no TLS, which this host requires");
    expect(createDataPathTls(identity, barred, true).dial({ hostId, origin: far[0] ?? "" })).toEqual({});
  });

  it("does not start where it would serve plain HTTP beyond this machine without the flag", async () => {
    const folder = mkdtempSync(join(tmpdir(), "stoker-plain-"));
    writeFileSync(join(folder, "desired.json"), "{}");
    const env = { STOKER_AGENT_DATA: folder, STOKER_LOCAL_DESIRED: join(folder, "desired.json"), ...beyond };
    expect(() => readConfig({ ...env, STOKER_INGRESS_TLS: "off" })).not.toThrow();
    const agent = spawn(process.execPath, [programs.agent], {
      env: { PATH: process.env["PATH"], ...env },
      stdio: ["ignore", "ignore", "pipe"],
    });
    onTestFinished(() => void agent.kill("SIGKILL"));
    const exited = new Promise<number | null>((resolve) => agent.once("exit", resolve));
    expect(await text(agent.stderr)).toMatch(/listens beyond this machine and cannot speak TLS/);
    expect(await exited).toBe(1);
  });
});
