import { describe, expect, it } from "vitest";
import {
  countsOf,
  type DrainedInstance,
  drainBody,
  drainCommand,
  nodeCommand,
  noteOption,
} from "../../../console/domain/drain.ts";
import { controlAddress, hostStatus, joinCommand, tokenStatus } from "../../../console/domain/enrolment.ts";
import { actsOf, codesOf, sinceOf } from "../../../console/domain/host.ts";
import { soundNode } from "../../fakes/sound-node.ts";

const nowMs = Date.parse("2026-03-01T12:00:00Z");
const drain = { kind: "drain", note: "", began_at: "2026-03-01T11:00:00Z", deadline_at: "2026-03-01T13:00:00Z" };
const cordon = { ...drain, kind: "cordon", deadline_at: null };

describe("since when a host has its status", () => {
  const events = [
    { kind: "host.agent_started", at: "2026-02-03T00:00:00Z" },
    { kind: "host.usable", at: "2026-02-02T00:00:00Z" },
    { kind: "host.unusable", at: "2026-02-01T00:00:00Z" },
  ];
  it("is the event that put it into that status", () => {
    expect(sinceOf(soundNode, events, nowMs)).toBe("2026-02-02T00:00:00Z");
    const broken = { ...soundNode, state: "data_path_unreachable" };
    expect(sinceOf(broken, events, nowMs)).toBe("2026-02-01T00:00:00Z");
  });
  it("is the begin of an operation, and the last message of a silent host", () => {
    expect(sinceOf({ ...soundNode, operation: drain }, events, nowMs)).toBe(drain.began_at);
    const silent = { ...soundNode, operation: drain, state: "lost", silent_seconds: 90 };
    expect(sinceOf(silent, events, nowMs)).toBe("2026-03-01T11:58:30.000Z");
  });
  it("is when it joined, where events are no longer kept", () => {
    expect(sinceOf(soundNode, [], nowMs)).toBe(soundNode.created_at);
  });
});

describe("actions of a host", () => {
  it("fit its state", () => {
    expect(actsOf(soundNode, false)).toEqual(["cordon", "drain", "revoke"]);
    expect(actsOf({ ...soundNode, operation: cordon }, false)).toEqual(["uncordon", "drain", "revoke"]);
    expect(actsOf({ ...soundNode, operation: drain }, false)).toEqual(["uncordon", "drain", "revoke"]);
    expect(actsOf({ ...soundNode, state: "lost" }, false)).toEqual(["cordon", "drain", "remove", "revoke"]);
    expect(actsOf({ ...soundNode, state: "lost" }, true)).toEqual(["take_back", "remove"]);
  });
  it("resolve its conditions, each named once with others beside it", () => {
    const condition = "unknown_instances: i1 run there; control_plane_behind: the agent is newer";
    expect(codesOf({ condition, warnings: ["data_path_plain: not encrypted"] })).toEqual([
      "control_plane_behind",
      "unknown_instances",
      "data_path_plain",
    ]);
    expect(actsOf({ ...soundNode, condition }, false)).toEqual(["cordon", "drain", "adopt", "end_unknown", "revoke"]);
  });
});

describe("a drain", () => {
  const form = { minutes: "10", isForced: false, note: "" };
  it("is ordered as its command says", () => {
    expect(drainBody(form)).toEqual({ deadline_seconds: 600 });
    expect(drainCommand("gpu-1", form)).toBe("stoker node drain gpu-1 --deadline 10m");
    expect(drainBody({ ...form, minutes: "" })).toEqual({});
    expect(drainCommand("gpu-1", { ...form, minutes: "" })).toBe("stoker node drain gpu-1");
    const forced = { minutes: "10", isForced: true, note: "it's hot" };
    expect(drainBody(forced)).toEqual({ deadline_seconds: 0, note: "it's hot" });
    expect(drainCommand("gpu-1", forced)).toBe(`stoker node drain gpu-1 --force --note 'it'\\''s hot'`);
    for (const minutes of ["-1", "x", "10081"]) expect(drainBody({ ...form, minutes })).toBeUndefined();
  });
  it("quotes what a shell would change", () => {
    expect(nodeCommand("cordon", "a b;c", noteOption(" fans "))).toBe("stoker node cordon 'a b;c' --note fans");
  });

  const one = (outcome: DrainedInstance["outcome"], elsewhere: number, requests = 1): DrainedInstance => ({
    ...{
      instance_id: `${outcome}-${elsewhere}`,
      deploy_id: "d",
      deploy_name: `${outcome}-${elsewhere}`,
      kind: "model",
    },
    ...{ account: { uid: "u", email: "e" }, phase: "ready", in_flight: requests, gpus: 1, outcome, to: null },
    ...{ reasons: [], serving_elsewhere: elsewhere },
  });
  const preview = {
    node_id: "n",
    name: "n",
    instances: [one("moves", 0, 8), one("waits", 0, 2), one("waits", 1, 3), one("stays", 0, 5), one("stops", 1, 0)],
  };
  it("counts outages and requests of those that cannot move", () => {
    expect(countsOf(preview, false)).toEqual({
      all: 5,
      byOutcome: { moves: 1, waits: 2, stays: 1, stops: 1 },
      cutRequests: 5,
      outages: ["waits-0"],
    });
  });
  it("ends everything but what is bound to the host when it is forced", () => {
    expect(countsOf(preview, true)).toMatchObject({ cutRequests: 13, outages: ["moves-0", "waits-0"] });
  });
});

describe("enrolment", () => {
  it("says what became of a token and of its host", () => {
    const soon = "2026-03-01T12:10:00Z";
    expect(tokenStatus({ used_at: null, expires_at: soon }, nowMs)).toBe("open");
    expect(tokenStatus({ used_at: null, expires_at: drain.began_at }, nowMs)).toBe("expired");
    expect(tokenStatus({ used_at: drain.began_at, expires_at: drain.began_at }, nowMs)).toBe("used");
    const host = { name: "gpu-1", certificate_expires_at: soon, revoked_at: null };
    expect(hostStatus(host, nowMs)).toBe("active");
    expect(hostStatus({ ...host, name: null }, nowMs)).toBe("pending");
    expect(hostStatus({ ...host, certificate_expires_at: drain.began_at }, nowMs)).toBe("expired");
    expect(hostStatus({ ...host, revoked_at: soon }, nowMs)).toBe("revoked");
  });
  it("makes one line for the host, with an address that it can reach", () => {
    const at = (host: string) => ({ host, port: 9090, is_local: false });
    expect(controlAddress(at("10.0.0.1"), "stoker.example.com")).toBe("10.0.0.1:9090");
    expect(controlAddress(at("0.0.0.0"), "stoker.example.com")).toBe("stoker.example.com:9090");
    expect(controlAddress(at("fd00::1"), "x")).toBe("[fd00::1]:9090");
    expect(joinCommand("a.b.c", "10.0.0.1:9090", "")).toBe("stoker node join a.b.c --control 10.0.0.1:9090");
    expect(joinCommand("a.b.c", "10.0.0.1:9090", " https://10.0.0.7:9100 ")).toBe(
      "stoker node join a.b.c --control 10.0.0.1:9090 --advertise https://10.0.0.7:9100",
    );
  });
});
