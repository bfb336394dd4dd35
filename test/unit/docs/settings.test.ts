// docs/operations/settings.md against the code that reads the environment.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readConfig as readAgent } from "../../../agent/config.ts";
import { readConfig as readControlPlane } from "../../../control-plane/config.ts";

const text = readFileSync(join(import.meta.dirname, "../../../docs/operations/settings.md"), "utf8");
const [, ofControlPlane = "", ofAgent = ""] = text.split(/^## .*$/m);

type Env = Readonly<Record<string, string | undefined>>;

/** Message of the error for this environment; empty: none. */
function problemOf(read: (env: Env) => unknown, env: Env): string {
  try {
    read(env);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

/** Names of the variables that `read` reads. */
function namesRead(read: (env: Env) => unknown): readonly string[] {
  const names = new Set<string>();
  problemOf(read, new Proxy({}, { get: (_env, name) => void names.add(String(name)) }));
  return [...names].toSorted();
}

describe.each([
  ["the control plane", ofControlPlane, readControlPlane, { DATABASE_URL: "postgresql://a@b/c" }],
  ["the agent", ofAgent, readAgent, { STOKER_AGENT_DATA: "/nonexistent", STOKER_CONTROL: "127.0.0.1:1" }],
])("the settings of %s", (_process, section, read, required) => {
  const rows = new Map(
    [...section.matchAll(/^\| `(\w+)` +\| (.*?) +\| .* \|$/gm)].map(([, name = "", values = ""]) => [name, values]),
  );

  it("are those that the code reads, each once", () => {
    const names = [...section.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
    expect(names.toSorted()).toEqual(namesRead(read));
  });

  it("have the bounds that the code checks", () => {
    const bounds = namesRead(read).flatMap((name) => {
      const problem = problemOf(read, { ...required, [name]: "?!" });
      const [, min, max] = /must be a (?:whole )?number from (\S+) to (\d+)/.exec(problem) ?? [];
      return min === undefined ? [] : [[name, `${min} to ${max}`] as const];
    });
    expect(bounds.length).toBeGreaterThan(8);
    for (const [name, range] of bounds) expect(rows.get(name), name).toMatch(new RegExp(`^${range}(;|$)`));
  });
});
