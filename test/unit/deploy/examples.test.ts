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

  it("run as a stack of images that the scripts build, with variables that its programs know", () => {
    const example = parseEnv(text("compose/env.example"));
    const filled = text("compose.yaml").replace(/\$\{(\w+)(?::-([^}]*)|:\?[^}]*)\}/g, (_, _name, otherwise) =>
      otherwise === undefined ? "1" : otherwise || '""',
    );
    const { services } = parse(filled, { merge: true }) as { services: Record<string, Service> };
    for (const name of ["control-plane-1", "control-plane-2"]) {
      const { image, environment = {} } = services[name] as Service;
      expect(image).toBe(`stoker-control-plane:${version}`);
      expect(readControlPlane(environment).trustedProxies).toEqual(["172.30.87.0/24"]);
      expect(unknownIn("control-plane/config.ts", environment)).toEqual([]);
    }
    const { image, environment = {} } = services["agent"] as Service;
    expect(image).toBe(`stoker-agent:${version}`);
    expect(readAgent(environment)).toMatchObject({
      runtimeImage: `stoker-runtime:${version}`,
      ingressHost: "172.30.87.1",
    });
    const { NODE_COMPILE_CACHE, ...settings } = environment;
    expect(NODE_COMPILE_CACHE).toBe(`${settings["STOKER_AGENT_DATA"]}/compiled`);
    expect(unknownIn("agent/config.ts", settings)).toEqual([]);
    // Every variable that must be set has its line in the example.
    const required = [...text("compose.yaml").matchAll(/\$\{(\w+):\?/g)].map(([, name = ""]) => name);
    expect([...new Set(required)].sort()).toEqual(Object.keys(example).sort());
    const all = ["compose.yaml", "compose/gpu.yaml", "compose/tls.yaml"].map(text).join("\n");
    const names = [...text("compose/env.example").matchAll(/^#?([A-Z][A-Z_0-9]+)=/gm)].map(([, name]) => name);
    expect(names.filter((name) => !all.includes(`\${${name}:`))).toEqual([]);
  });
});

interface Service {
  readonly image: string;
  readonly environment?: Record<string, string>;
}

function unknownIn(source: string, environment: Readonly<Record<string, string>>): string[] {
  const known = readFileSync(join(root, source), "utf8");
  return Object.keys(environment).filter((name) => !known.includes(`"${name}"`));
}
