import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { readAgentCatalog } from "../../../../control-plane/agent-instances/catalog.ts";

const shipped = JSON.parse(readFileSync(new URL("../../../../deploy/agent-types.json", import.meta.url), "utf8"));

function read(over: object) {
  const problems: string[] = [];
  const { types } = readAgentCatalog({ types: [{ ...shipped.types[0], ...over }] }, (one) => problems.push(one));
  return { port: types.get("workspace")?.dashboardPort, problems };
}

it("accepts the shipped catalogue, including dashboards", () => {
  expect(read({})).toEqual({ port: 8000, problems: [] });
});

it("has a declared dashboard: at its own port, or at the program's port if none is given", () => {
  expect(read({ dashboard_port: 9000 })).toEqual({ port: 9000, problems: [] });
  expect(read({ dashboard_port: undefined, has_dashboard: true, port: 8100 })).toEqual({ port: 8100, problems: [] });
  expect(read({ dashboard_port: undefined })).toEqual({ port: null, problems: [] });
  expect(read({ dashboard_port: null, has_dashboard: false })).toEqual({ port: null, problems: [] });
});

it.each([0, 65_536, 80.5, "8000"])("refuses a dashboard at port %j", (port) => {
  expect(read({ dashboard_port: port }).problems).toEqual([expect.stringContaining("dashboard_port must be from 1")]);
});
