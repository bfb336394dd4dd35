import type { ContainerInspectInfo } from "dockerode";
import { describe, expect, it } from "vitest";
import { observeContainer } from "../../../../agent/docker/observe-container.ts";

const labels = {
  "stoker.node": "n",
  "stoker.instance": "i1",
  "stoker.deploy": "d1",
  "stoker.generation": "2",
  "stoker.port": "8000",
  "stoker.plan": "abc",
};
const StartedAt = "2026-01-02T03:04:05.5Z";

function info(state: object, address = "10.231.0.2", Labels: Record<string, string> = labels): ContainerInspectInfo {
  const State = { StartedAt, FinishedAt: "2026-01-02T03:05:00Z", ExitCode: 0, OOMKilled: false, ...state };
  const Networks = { "stoker-i1": { IPAddress: address } };
  return { Id: "0123456789abcdef", Config: { Labels }, State, NetworkSettings: { Networks } } as never;
}

describe("the observation of a container", () => {
  it("reports a running one with its own address and port, and an identity that is new after every start", () => {
    const seen = observeContainer(info({ Status: "running" }), false);
    expect(seen).toMatchObject({ state: "running", origin: "http://10.231.0.2:8000", generation: 2, instanceId: "i1" });
    const again = observeContainer(info({ Status: "running", StartedAt: "2026-01-02T04:00:00Z" }), false);
    expect(again?.identity).not.toBe(seen?.identity);
  });

  it("reports one that the kernel ended for its memory", () => {
    const seen = observeContainer(info({ Status: "exited", ExitCode: 137, OOMKilled: true }), false);
    expect(seen).toMatchObject({ state: "exited", oomKilled: true, signal: "SIGKILL", exitCode: undefined });
  });

  it("reports one that ended by itself with its code", () => {
    const seen = observeContainer(info({ Status: "exited", ExitCode: 2 }), false);
    expect(seen).toMatchObject({ state: "exited", exitCode: 2, signal: undefined, oomKilled: false });
  });

  it("is starting while it has no address, or while this agent is about to start it", () => {
    expect(observeContainer(info({ Status: "running" }, ""), false)).toMatchObject({ state: "starting" });
    expect(observeContainer(info({ Status: "created" }), true)).toMatchObject({ state: "starting" });
  });

  it("is empty if it never ran, is being removed, or is not ours", () => {
    expect(observeContainer(info({ Status: "created" }), false)).toBeUndefined();
    expect(observeContainer(info({ Status: "removing" }), false)).toBeUndefined();
    expect(observeContainer(info({ Status: "running" }, "10.0.0.1", { other: "label" }), false)).toBeUndefined();
  });
});
