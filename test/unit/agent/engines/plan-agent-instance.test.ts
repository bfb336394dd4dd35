import { describe, expect, test } from "vitest";
import { planInstance } from "../../../../agent/engines/plan-instance.ts";
import { instanceSpec } from "../../../fakes/instance-spec.ts";

const host = {
  driver: "docker",
  runtimeImage: "stoker-runtime:test",
  allowedImages: ["catalogue/notebook@sha256:0"],
  filesDir: "/tmp",
  logLevel: "info",
  volumesDir: "/var/lib/stoker/volumes",
} as const;
const spec = (volumePath = "/data", port = 8000, dashboardPort = 0) =>
  instanceSpec({
    engine: "agent_instance",
    deployId: "agent-1",
    image: "catalogue/notebook@sha256:0",
    memoryBytes: "1000",
    cpus: 2,
    weights: null,
    agentInstance: { port, volumePath, dashboardPort },
  });

describe("the plan of an agent instance", () => {
  test("mounts the deployment's own volume, writable, and nothing else of the host", () => {
    const outcome = planInstance(spec(), undefined, host);
    expect(outcome).toMatchObject({
      ok: true,
      plan: {
        image: "catalogue/notebook@sha256:0",
        volume: "agent-1",
        mounts: [{ source: "/var/lib/stoker/volumes/agent-1/current", target: "/data", readOnly: false }],
        port: 8000,
        memoryBytes: 1000,
        cpus: 2,
        gpuUuids: [],
      },
    });
  });

  test.each(["/", "/etc", "/data/../etc", "/usr/bin", "data", "/proc/1", "/var/lib/../../etc", "/datax"])(
    "refuses to mount a volume at %s, whoever asks",
    (path) => expect(planInstance(spec(path), undefined, host)).toMatchObject({ ok: false, code: "bad_spec" }),
  );

  test("is refused with a sentence where the host keeps no volumes", () => {
    const { volumesDir: _, ...without } = host;
    const outcome = planInstance(spec(), undefined, without);
    expect(outcome).toMatchObject({ ok: false, code: "agent_instances_unavailable", message: /Docker/ });
  });

  test("is refused without a port to see it ready by", () =>
    expect(planInstance(spec("/data", 0), undefined, host)).toMatchObject({ ok: false, code: "bad_spec" }));

  test("passes the port of its dashboard to the image only if it has one", () => {
    const env = (port: number) => {
      const outcome = planInstance(spec("/data", 8000, port), undefined, host);
      return outcome.ok ? outcome.plan.env : outcome;
    };
    expect(env(9000)).toMatchObject({ PORT: "8000", STOKER_DASHBOARD_PORT: "9000" });
    expect(Object.keys(env(0))).not.toContain("STOKER_DASHBOARD_PORT");
    expect(env(70_000)).toMatchObject({ ok: false, code: "bad_spec" });
  });
});
