// What an operator copies from deploy/ is what the programs read.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { readConfig as readAgent } from "../../../agent/config.ts";
import { readConfig as readControlPlane } from "../../../control-plane/config.ts";

const root = join(import.meta.dirname, "../../..");
const text = (name: string) => readFileSync(join(root, "deploy", name), "utf8");
const env = (name: string) => parseEnv(text(name)) as Record<string, string>;
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };

describe("the examples in deploy/", () => {
  it("are environments that agent and control plane start with", () => {
    const controlPlane = readControlPlane(env("control-plane.env.example"));
    const agent = readAgent(env("agent.env.example"));
    expect(agent.control?.addresses).toEqual([`${controlPlane.rpc.host}:${controlPlane.rpc.port}`]);
    expect(agent.advertise).toBe(`https://${agent.ingressHost}:${agent.ingressPort}`);
    expect(agent.runtimeImage).toBe(`stoker-runtime:${version}`);
  });

  it("name no variable that their program does not know", () => {
    const known = {
      "control-plane.env.example": readFileSync(join(root, "control-plane/config.ts"), "utf8"),
      "agent.env.example": readFileSync(join(root, "agent/config.ts"), "utf8"),
    };
    for (const [name, source] of Object.entries(known)) {
      const names = [...text(name).matchAll(/^#?([A-Z_]+)=/gm)].map(([, variable]) => variable);
      expect(names.length).toBeGreaterThan(5);
      expect(names.filter((variable) => !source.includes(`"${variable}"`))).toEqual([]);
    }
  });

  it("start programs and read files that are there, and keep the agent's data where it is mounted", () => {
    for (const unit of ["stoker-control-plane.service", "stoker-agent.service"]) {
      const [, script] = /^ExecStart=\S+ .*\/opt\/stoker\/(\S+)$/m.exec(text(`systemd/${unit}`)) ?? [];
      expect(existsSync(join(root, script ?? "?"))).toBe(true);
      const [, example] = /^EnvironmentFile=\/etc\/stoker\/(\S+)$/m.exec(text(`systemd/${unit}`)) ?? [];
      expect(existsSync(join(root, "deploy", `${example}.example`))).toBe(true);
    }
    const compose = text("agent.compose.yaml");
    const data = env("agent.env.example")["STOKER_AGENT_DATA"];
    expect(compose).toContain(`- ${data}:${data}`);
    expect(compose).toContain(`image: stoker-agent:${version}`);
  });

  it("ship the logs of the units that there are", () => {
    const vector = parse(text("vector.yaml")) as {
      readonly sources: { readonly journal: { readonly include_units: readonly string[] } };
      readonly sinks: { readonly loki: { readonly inputs: readonly string[] } };
      readonly transforms: { readonly lines: { readonly inputs: readonly string[] } };
    };
    const units = vector.sources.journal.include_units.map((unit) => `systemd/${unit}.service`);
    expect(units.filter((unit) => !existsSync(join(root, "deploy", unit)))).toEqual([]);
    expect(vector.transforms.lines.inputs).toEqual(Object.keys(vector.sources));
    expect(vector.sinks.loki.inputs).toEqual(Object.keys(vector.transforms));
  });
});
