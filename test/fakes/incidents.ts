import type { Incident, Incidents } from "../../control-plane/oversight/incidents.ts";

/** A failed deployment of ada's, open; and a host that was silent for a minute. */
export function fakeIncidents(): Pick<Incidents, "list"> {
  const atMs = 1_786_000_000_000;
  const failed: Incident = {
    id: 8n,
    kind: "deployment_failed",
    subject: "DpM4BkrjEspUwmTa",
    severity: "warning",
    ...{ summary: "ada/my-llm of ada@example.com failed: out of memory.", advice: "See its events and logs." },
    account: { uid: "u:1000000000001", email: "ada@example.com" },
    deployment: { id: "DpM4BkrjEspUwmTa", name: "ada/my-llm" },
    ...{ host: null, gpu: null, beganAtMs: atMs, endedAtMs: null },
  };
  const silent: Incident = {
    id: 7n,
    kind: "host_silent",
    subject: "host-1",
    severity: "critical",
    ...{ summary: "gpu-1 does not report.", advice: "Check it." },
    ...{ account: null, deployment: null, host: { id: "host-1", name: "gpu-1" }, gpu: null },
    ...{ beganAtMs: atMs, endedAtMs: atMs + 60_000 },
  };
  return {
    list: async ({ isOpen }) => ({
      page: [isOpen ? failed : silent],
      nextCursor: null,
      open: { critical: 0, warning: 1, info: 0 },
    }),
  };
}
