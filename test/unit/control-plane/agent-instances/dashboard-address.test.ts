import { describe, expect, it } from "vitest";
import { dashboardAddress, labelOf } from "../../../../control-plane/agent-instances/dashboard-address.ts";
import type { DeploymentId } from "../../../../proto/ids.ts";

const id = "agent-AbCdEfGhIjKl" as DeploymentId;
const label = labelOf(id);

describe("the address of dashboards", () => {
  it("gives each instance its own host name, also for ids that differ only in case", () => {
    expect(label).toMatch(/^agent-[0-9a-f]{32}$/);
    expect(labelOf(id.toLowerCase() as DeploymentId)).not.toBe(label);
    const { originOf } = dashboardAddress("https://*.dash.example.com");
    expect(originOf(id, 8080)).toBe(`https://${label}.dash.example.com`);
    expect(dashboardAddress("http://*.dash.example.com:81/").originOf(id, 8080)).toBe(
      `http://${label}.dash.example.com:81`,
    );
    expect(dashboardAddress("http://*.localhost").originOf(id, 8080)).toBe(`http://${label}.localhost:8080`);
  });

  it("covers every name below its domain, with any case, port and final dot, and no other", () => {
    const { owns, labelIn } = dashboardAddress("https://*.Dash.example.com");
    for (const host of [
      `${label}.dash.example.com`,
      `${label.toUpperCase()}.DASH.example.com:443`,
      `${label}.dash.example.com.`,
    ])
      expect([host, owns(host), labelIn(host)]).toEqual([host, true, label]);
    for (const host of ["other.dash.example.com", `a.${label}.dash.example.com`, ".dash.example.com"])
      expect([host, owns(host), labelIn(host)]).toEqual([host, true, undefined]);
    for (const host of [undefined, "", "dash.example.com", "xdash.example.com", `${label}.dash.example.com.evil.org`])
      expect([host, owns(host), labelIn(host)]).toEqual([host, false, undefined]);
  });

  it("leaves other names of this machine to the API", () => {
    const { owns } = dashboardAddress("http://*.localhost");
    expect(owns(`${label}.localhost:8080`)).toBe(true);
    for (const host of ["localhost:8080", "stoker.localhost:8080", "127.0.0.1:8080"])
      expect(owns(host), host).toBe(false);
  });
});
