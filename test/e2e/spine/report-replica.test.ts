// A control plane with a read replica: reports come from it, and none fails when it dies.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { TestStandby } from "../../fakes/postgres.ts";
import { postgresPrograms } from "../../fakes/postgres-programs.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";

const programs = await postgresPrograms("a control plane with a read replica");

describe.runIf(programs)("a control plane with a read replica", () => {
  let stack: Stack;
  let standby: TestStandby;
  beforeAll(async () => {
    stack = await startStack({ agents: 0 });
    standby = await stack.postgres.standby(programs ?? "");
    await stack.controlPlane.stop();
    stack.controlPlane.start({
      DATABASE_REPLICA_URL: stack.databaseUrl.replace(new URL(stack.databaseUrl).host, new URL(standby.url).host),
    });
    await vi.waitFor(async () => expect((await fetch(`${stack.url}/readyz`)).status).toBe(200), 60_000);
  });
  afterAll(async () => {
    await standby?.stop();
    await stack.stop();
  });

  const paths = [
    "/v1/usage/days?by=model",
    "/v1/requests",
    "/payment/usage?from=0",
    "/v1/usage/users?by=month&limit=10",
  ];
  const metrics = async () => {
    const { admin } = JSON.parse(readFileSync(stack.controlPlane.portsFile, "utf8")) as { admin: number };
    return (await fetch(`http://127.0.0.1:${admin}/metrics`)).text();
  };
  const statements = async (database: string) =>
    Number(
      new RegExp(`stoker_report_statements_total\\{database="${database}"\\} (\\d+)`).exec(await metrics())?.[1] ?? 0,
    );

  it("reads reports there, and on the primary without a failure once it is dead", async () => {
    for (const path of paths) expect((await stack.call("GET", path)).status, path).toBe(200);
    expect(await statements("replica")).toBeGreaterThanOrEqual(paths.length);
    expect(await statements("primary")).toBe(0);
    expect(await metrics()).toMatch(/^stoker_database_replica_lag_seconds \d/m);
    await standby.kill9();
    for (const path of paths) expect((await stack.call("GET", path)).status, path).toBe(200);
    expect(await statements("primary")).toBeGreaterThanOrEqual(paths.length);
    // Lines of the log are written in the background.
    await vi.waitFor(() => expect(stack.controlPlane.log()).toContain("reports use the primary database"), 60_000);
  });
});
