// Formats of records and errors.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey, deployment } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

const { id } = deployment();
let edge: Edge;
beforeAll(async () => {
  edge = await startEdge({
    change: (deps) => ({
      ...deps,
      deployments: { ...deps.deployments, list: async () => [deployment({ status: "deployed" })] },
    }),
  });
});
afterAll(() => edge?.close());

const stoker = (...args: string[]) => runCli(edge, apiKey, args);

describe("--output", () => {
  it("prints the same records as JSON and as YAML", async () => {
    const json = await stoker("deploy", "list", "--json");
    const records = JSON.parse(json.out);
    expect(records).toContainEqual(expect.objectContaining({ deploy_id: id, status: "deployed" }));
    expect(JSON.parse((await stoker("deploy", "list", "--output", "json")).out)).toEqual(records);
    expect(parse((await stoker("deploy", "list", "-o", "yaml")).out)).toEqual(records);
  }, 60_000);

  it("adds columns to the table with wide", async () => {
    expect((await stoker("deploy", "list")).out).toMatch(/^ID +MODEL +STATUS +GPU\n/);
    const { out } = await stoker("deploy", "list", "-o", "wide");
    expect(out).toMatch(/^ID +MODEL +STATUS +GPU +SCALE +TASK +WEIGHTS +CREATED +REASON\n/);
    expect(out).toMatch(new RegExp(`^${id} .* 1-2 +text-generation `, "m"));
  }, 60_000);

  it("rejects another format, and two that differ", async () => {
    expect(await stoker("deploy", "list", "-o", "xml")).toMatchObject({
      code: 2,
      out: "",
      err: expect.stringContaining("Allowed choices are table, wide, json, yaml."),
    });
    expect(await stoker("deploy", "list", "--json", "-o", "yaml")).toMatchObject({ code: 2, out: "" });
  }, 60_000);
});

describe("an error with --json", () => {
  const errorOf = async (...args: string[]) => {
    const { code, out, err } = await stoker(...args);
    expect(out).toBe("");
    expect(err.endsWith("\n")).toBe(true);
    return { code, ...(JSON.parse(err.trim()) as { error: object }) };
  };

  it("has the code, request id and status of the server", async () => {
    expect(await errorOf("deploy", "get", "unknown", "--json")).toEqual({
      code: 4,
      error: {
        code: "deployment_not_found",
        message: expect.stringMatching(/deployment/i),
        request_id: expect.stringMatching(/./),
        status: 404,
        help: `${edge.url}/docs/errors#deployment_not_found`,
      },
    });
  });

  it.each([
    ["an unknown command", ["deploy", "lst"], "unknown command 'lst'"],
    ["an unknown option", ["deploy", "list", "--stat", "any"], "unknown option '--stat'"],
    ["a missing argument", ["deploy", "get"], "missing required argument 'id'"],
    ["a missing command", ["deploy"], "Command missing. stoker deploy --help lists them."],
    ["a missing confirmation", ["deploy", "delete", id], "`stoker deploy delete` asks for confirmation"],
  ])("is one line for %s", async (_what, args, message) => {
    expect(await errorOf(...args, "--json")).toEqual({
      code: 2,
      error: {
        code: "wrong_usage",
        message: expect.stringContaining(message),
        request_id: null,
        status: null,
        help: null,
      },
    });
  });

  it("is JSON with YAML output as well, and text without", async () => {
    expect(await errorOf("deploy", "get", "unknown", "-o", "yaml")).toMatchObject({ code: 4, error: { status: 404 } });
    expect((await stoker("deploy", "get", "unknown")).err).toMatch(
      /^error: .* \(request id \S+\)\nMore: http:\S+\/docs\/errors#deployment_not_found\n$/,
    );
  }, 60_000);
});
