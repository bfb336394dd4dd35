// The Helm chart without Helm: its values, and what its templates name.
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv } from "ajv";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";

const root = join(import.meta.dirname, "../../..");
const chart = join(root, "deploy/helm/stoker");
const text = (path: string) => readFileSync(join(root, path), "utf8");
const schema = JSON.parse(text("deploy/helm/stoker/values.schema.json"));
const isValid = new Ajv({ allErrors: true }).compile(schema);
const defaults = parse(text("deploy/helm/stoker/values.yaml"));

/** As Helm merges values over the defaults. */
function merged(base: unknown, over: unknown): unknown {
  const isMap = (value: unknown): value is Record<string, unknown> =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isMap(base) || !isMap(over)) return over;
  const all = Object.entries(over).map(
    ([key, value]) => [key, key in base ? merged(base[key], value) : value] as const,
  );
  return Object.fromEntries(
    Object.entries({ ...base, ...Object.fromEntries(all) }).filter(([, value]) => value !== null),
  );
}

describe("the Helm chart", () => {
  it("has defaults and examples that its schema accepts, which refuses what it does not name", () => {
    expect([isValid(defaults), isValid.errors]).toEqual([true, null]);
    const examples = globSync("test/fixtures/helm/*.yaml", { cwd: root });
    expect(examples.length).toBeGreaterThan(2);
    for (const example of examples)
      expect([isValid(merged(defaults, parse(text(example)))), isValid.errors], example).toEqual([true, null]);
    expect(isValid(merged(defaults, { controlPlane: { replica: 3 } }))).toBe(false);
    expect(isValid(merged(defaults, { agents: { dataPort: 0 } }))).toBe(false);
  });

  it("describes each of its values in its schema", () => {
    expect(Object.keys(schema.properties).sort()).toEqual([...Object.keys(defaults), "global"].sort());
    for (const part of Object.keys(defaults))
      expect(Object.keys(schema.properties[part].properties).sort(), part).toEqual(Object.keys(defaults[part]).sort());
  });

  it("sets only variables that control plane and agent know", () => {
    const known = text("control-plane/config.ts") + text("agent/config.ts");
    const templates = globSync("templates/*", { cwd: chart }).map((file) => readFileSync(join(chart, file), "utf8"));
    const names = [...templates.join("\n").matchAll(/["\s(](STOKER_[A-Z0-9_]+)["\s]/g)].map(([, name]) => name);
    expect(names.length).toBeGreaterThan(15);
    expect(names.filter((name) => !known.includes(`"${name}"`) && name !== "STOKER_FILES_S3_BUCKET")).toEqual([]);
  });

  it("contains the boards and alerts of deploy/, and the version of the product", () => {
    expect(globSync("boards/*.json", { cwd: chart }).length).toBe(
      globSync("deploy/grafana/*.json", { cwd: root }).length,
    );
    expect(existsSync(join(chart, "alerts.yaml"))).toBe(true);
    const { version } = JSON.parse(text("package.json"));
    expect(parse(text("deploy/helm/stoker/Chart.yaml"))).toMatchObject({ version, appVersion: version });
  });
});
