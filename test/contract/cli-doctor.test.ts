// `stoker doctor` against the real edge and this machine.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Finding } from "../../cli/doctor/finding.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { adminKey, apiKey } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
const home = mkdtempSync(join(tmpdir(), "stoker-doctor-"));
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(async () => {
  await edge?.close();
  rmSync(home, { recursive: true, force: true });
});

const stoker = (key: string, args: readonly string[], env = {}, input?: string) =>
  runCli(edge, key, args, { env: { XDG_CONFIG_HOME: home, XDG_STATE_HOME: home, STOKER_DATA: home, ...env }, input });

async function findings(key: string, env = {}): Promise<{ code: number | null; found: readonly Finding[] }> {
  const { out, err, code } = await stoker(key, ["doctor", "--json"], env);
  expect(out, err).not.toBe("");
  return { code, found: (JSON.parse(out) as { findings: Finding[] }).findings };
}

const stateOf = (found: readonly Finding[], check: string) =>
  found.filter((one) => one.check === check).map(({ state }) => state);

it("finds server, clock, version and key in order, and what this machine has", async () => {
  const { found } = await findings(apiKey);
  for (const check of ["host", "node", "config", "network", "clock", "version", "key"])
    expect(stateOf(found, check), check).toContain("ok");
  // Of this machine, whose disk may be nearly full.
  expect(["ok", "warning"]).toContain(stateOf(found, "disk")[0]);
  for (const { state, fix } of found) if (state !== "ok") expect(fix).not.toBe("");
}, 60_000);

it("exits with 1 and names the fix if the key is rejected or the server is unreachable", async () => {
  const rejected = await findings("stk_unknown1");
  expect(rejected.code).toBe(1);
  expect(rejected.found).toContainEqual(
    expect.objectContaining({ check: "key", state: "failure", fix: "Run `stoker login`, or set STOKER_API_KEY." }),
  );
  const { code, out } = await stoker(apiKey, ["doctor"], { STOKER_HOST: "http://127.0.0.1:9" });
  expect(code).toBe(1);
  expect(out).toMatch(/^FAIL {2}network {5}Could not reach http:\/\/127\.0\.0\.1:9\.$/m);
  expect(out).toMatch(/^\d+ failures?, \d+ warnings?$/m);
}, 60_000);

it("reports a server that is something else, and a clock that is wrong", async () => {
  const other = createServer((_request, response) => {
    response.setHeader("date", new Date(Date.now() - 3_600_000).toUTCString());
    response.end("hello");
  });
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  try {
    const host = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    const { code, found } = await findings(apiKey, { STOKER_HOST: host });
    expect(code).toBe(1);
    expect(found).toContainEqual(
      expect.objectContaining({ check: "network", text: `${host} is not a Stoker server (status 200).` }),
    );
    expect(stateOf(found, "clock")).toEqual(["failure"]);
  } finally {
    other.close();
  }
}, 60_000);

it("reports a configuration that is invalid or readable by others", async () => {
  const invalid = await findings(apiKey, { STOKER_HOST: "no url" });
  expect(invalid.code).toBe(1);
  expect(invalid.found).toContainEqual(
    expect.objectContaining({
      check: "config",
      state: "failure",
      text: expect.stringContaining("Invalid host URL no url"),
    }),
  );
  await stoker("", ["auth", "set-token"], {}, `${apiKey}\n`);
  chmodSync(join(home, "stoker", "config.json"), 0o644);
  expect(stateOf((await findings(apiKey)).found, "config")).toEqual(["failure"]);
}, 60_000);

it("checks only the agent on a host where no server is configured", async () => {
  const agent = mkdtempSync(join(tmpdir(), "stoker-doctor-agent-"));
  try {
    writeFileSync(join(agent, "agent.json"), JSON.stringify({ metrics_port: 9 }));
    const { found } = await findings(apiKey, { STOKER_HOST: "", STOKER_AGENT_DATA: agent, XDG_CONFIG_HOME: agent });
    expect(stateOf(found, "agent")).toEqual(["failure"]);
    for (const check of ["config", "network"]) expect(stateOf(found, check)).toEqual([]);
  } finally {
    rmSync(agent, { recursive: true, force: true });
  }
}, 60_000);

it("checks a host of the fleet by its record, for operators", async () => {
  const { code, out } = await stoker(adminKey, ["doctor", "--node", "node-1"]);
  expect(code).toBe(1);
  expect(out).toMatch(/^ok {4}agent {7}node-1 .* is ready/m);
  expect(out).toMatch(/^FAIL {2}gpu {9}GPU 0 GPU-0:/m);
  expect(await stoker(adminKey, ["doctor", "--node", "nobody"])).toMatchObject({ code: 4, out: "" });
}, 60_000);
