import type { V1ContainerState, V1Pod, V1PodStatus } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { hasEnded, observePod } from "../../../../agent/kubernetes/observe-pod.ts";
import { podNameOf } from "../../../../agent/kubernetes/pod-labels.ts";
import { reasonOfExit } from "../../../../agent/reconcile/failure.ts";
import type { InstanceId } from "../../../../proto/ids.ts";

const annotations = { "stoker.instance": "i1", "stoker.deploy": "d1", "stoker.generation": "2", "stoker.port": "8000" };
// As a watch sends times, not as the client's lists hold them.
const at = "2026-01-02T03:04:05Z" as unknown as Date;
const finishedAtMs = Date.parse("2026-01-02T03:04:05Z");

function pod(status: Partial<V1PodStatus>, state?: V1ContainerState, over: Partial<V1Pod> = {}): V1Pod {
  const statuses = state ? [{ name: "server", image: "", imageID: "", ready: false, restartCount: 0, state }] : [];
  return {
    metadata: { name: podNameOf("i1" as InstanceId), uid: "uid-1", annotations, creationTimestamp: at },
    spec: { containers: [{ name: "server", image: "r/i:1" }] },
    status: { ...status, containerStatuses: statuses },
    ...over,
  };
}
const terminated = (exitCode: number, reason = "Error") => ({ terminated: { exitCode, reason, finishedAt: at } });
const running = { running: { startedAt: at } };
const disrupted = (reason: string, message: string) => ({
  conditions: [{ type: "DisruptionTarget", status: "True", reason, message }],
});

describe("the observation of a Pod", () => {
  it("reports a running one at its address, also one of the sixth version", () => {
    const seen = observePod(pod({ phase: "Running", podIP: "10.0.0.7" }, running));
    expect(seen).toMatchObject({ state: "running", origin: "http://10.0.0.7:8000", identity: "uid-1", generation: 2 });
    expect(seen).not.toHaveProperty("isLeaving");
    expect(observePod(pod({ phase: "Running", podIP: "fd00::7" }, running))).toMatchObject({
      origin: "http://[fd00::7]:8000",
    });
  });

  it.each([
    ["deleted", pod({ podIP: "10.0.0.7" }, running, { metadata: { ...pod({}).metadata, deletionTimestamp: at } })],
    ["about to be preempted", pod({ podIP: "10.0.0.7", ...disrupted("PreemptionByScheduler", "") }, running)],
  ])("reports one that is %s as leaving while it runs", (_, leaving) => {
    expect(observePod(leaving)).toMatchObject({ state: "running", isLeaving: true });
    expect(hasEnded(leaving)).toBe(false);
  });

  it("takes one of a lost node as running", () => {
    expect(observePod(pod({ phase: "Running", podIP: "10.0.0.7", reason: "NodeLost" }, running))?.state).toBe(
      "running",
    );
    expect(observePod(pod({ phase: "Unknown" }))?.state).toBe("starting");
  });

  it("reports how its server ended", () => {
    const exited = (code: number, reason?: string) => observePod(pod({ phase: "Failed" }, terminated(code, reason)));
    expect(exited(2)).toMatchObject({
      state: "exited",
      exitCode: 2,
      signal: undefined,
      oomKilled: false,
      finishedAtMs,
    });
    expect(exited(137)).toMatchObject({ exitCode: undefined, signal: "SIGKILL", oomKilled: false });
    expect(exited(137, "OOMKilled")).toMatchObject({ oomKilled: true });
    expect(exited(137, "ContainerStatusUnknown")).toMatchObject({ exitCode: undefined, signal: undefined });
  });

  it.each([
    [
      "evicted",
      pod({ phase: "Failed", reason: "Evicted", message: "The node was low on resource: memory." }, terminated(137)),
      /^the cluster evicted the model server \(Evicted\): The node was low on resource: memory\./,
    ],
    [
      "evicted",
      pod({
        phase: "Failed",
        ...disrupted("PreemptionByScheduler", "preempting to accommodate a higher priority pod"),
      }),
      /\(PreemptionByScheduler\): preempting to accommodate/,
    ],
    [
      "node_refused",
      pod({ phase: "Failed", reason: "UnexpectedAdmissionError", message: "no devices left" }),
      /^the node refused the model server \(UnexpectedAdmissionError\): no devices left\./,
    ],
  ])("names what ended it besides itself: %s", (code, ended, message) => {
    const seen = observePod(ended);
    expect(seen?.state).toBe("exited");
    const { failure, isTerminal } = reasonOfExit(seen as never, 0, []);
    expect(failure.code).toBe(code);
    expect(failure.message).toMatch(message);
    expect(isTerminal).toBe(false);
  });

  it("takes an end by its deadline as this agent's own stop", () => {
    const spec = { containers: [], activeDeadlineSeconds: 1 };
    const seen = observePod(pod({ phase: "Failed", reason: "DeadlineExceeded" }, terminated(0), { spec }));
    expect(seen).toMatchObject({ state: "exited", exitCode: 0, endedBy: undefined });
  });

  it.each([
    [
      pod({ conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: "no node" }] }),
      "the cluster's scheduler has not placed it (Unschedulable): no node",
      0,
    ],
    [
      pod({
        conditions: [
          {
            type: "PodScheduled",
            status: "False",
            reason: "Unschedulable",
            message:
              "0/7 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {team: secret}, 6 node(s) didn't match Pod's node affinity/selector. preemption: 0/7 nodes are available: 1 No preemption victims found for incoming pod.",
          },
        ],
      }),
      "the cluster's scheduler has not placed it (Unschedulable): Insufficient nvidia.com/gpu, had untolerated taint",
      0,
    ],
    [
      pod({ phase: "Pending" }, { waiting: { reason: "ImagePullBackOff", message: "denied." } }),
      "the node cannot pull the image r/i:1 (ImagePullBackOff): denied",
      1,
    ],
    [
      pod({ phase: "Pending" }, { waiting: { reason: "ErrImagePull", message: "not found" } }),
      "the node cannot pull the image r/i:1 (ErrImagePull): not found",
      1,
    ],
    [
      pod({ phase: "Pending" }, { waiting: { reason: "CreateContainerError", message: "no device" } }),
      "the node cannot start the container (CreateContainerError): no device",
      2,
    ],
    [pod({ phase: "Pending" }, { waiting: { reason: "ContainerCreating" } }), undefined, 1],
    [pod({ conditions: [{ type: "PodScheduled", status: "True" }] }), undefined, 1],
    [pod({}), undefined, 0],
  ])("says why one waits, and how far it came (%#)", (waiting, why, step) => {
    expect(observePod(waiting)).toMatchObject({ state: "starting", waitingFor: why, step });
  });

  it("ignores a Pod that is not ours", () => {
    expect(observePod({ metadata: { name: "other", annotations } })).toBeUndefined();
  });
});
