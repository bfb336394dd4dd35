import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { NodeView } from "../../../../control-plane/fleet/host-operations.ts";
import type { NoticedRestore } from "../../../../control-plane/fleet/store.ts";
import { type IncidentFacts, incidentKinds, judge } from "../../../../control-plane/oversight/judge.ts";
import type { AccountId, DeploymentId, HostId } from "../../../../proto/ids.ts";
import { gpu, hostNode, hostView, inventory } from "../../../fakes/fleet-records.ts";

const nowMs = Date.UTC(2026, 8, 15, 12);
const calm: IncidentFacts = {
  revokedHosts: new Set(),
  deployments: [],
  receivers: [],
  imbalance: 0n,
  lossOfHour: 0n,
  quarantined: 0,
  backups: { installedAt: undefined, newestAt: undefined, verifiedAt: undefined },
};
const sound: NodeView = {
  ...hostNode,
  ...hostView("node-1", { inventory: inventory({ gpus: [gpu(0)] }) }),
  hostname: "gpu-1",
};
const found = (
  facts: Partial<IncidentFacts>,
  nodes: readonly NodeView[] = [],
  restores: readonly NoticedRestore[] = [],
) => judge({ ...calm, ...facts }, nodes, restores, nowMs).map((one) => `${one.severity} ${one.kind} ${one.subject}`);

describe("what is an incident", () => {
  it("is nothing where all is well", () => {
    expect(found({}, [sound])).toEqual([]);
  });

  it("is a host that is silent, the more so once it is lost, but not a revoked one", () => {
    const silent = { ...sound, state: "unreachable" as const };
    const lost = { ...sound, state: "lost" as const };
    expect(found({}, [silent])).toEqual(["warning host_silent node-1"]);
    expect(found({}, [lost])).toEqual(["critical host_silent node-1"]);
    expect(found({ revokedHosts: new Set(["node-1" as HostId]) }, [lost])).toEqual([]);
  });

  it("is a condition or warning of a host, a GPU that is out of use, and usage that cannot be sent", () => {
    expect(found({}, [{ ...sound, condition: "data_path_unreachable: no route" }])).toEqual([
      "warning host_condition node-1",
    ]);
    const faulty = inventory({
      gpus: [gpu(0, { isHealthy: false, unhealthyReason: "Xid 79" })],
      warnings: ["no clock"],
    });
    expect(found({}, [{ ...sound, inventory: faulty }])).toEqual([
      "info host_warning node-1",
      "warning gpu_unhealthy node-1/GPU-0",
    ]);
    const live = { ...(hostNode.figures?.live as object), spool: { records: 9, bytes: 9, oldestAgeSeconds: 121 } };
    expect(found({}, [{ ...sound, figures: { ageMs: 0, live: live as never } }])).toEqual(["warning spool_old node-1"]);
  });

  it("is a deployment of a customer that fails, does not start, waits or has no backup, with the reason", () => {
    const one = { id: "D1" as DeploymentId, name: "ada/llm", account: "u:1" as AccountId, email: "ada@example.com" };
    const deployments = (["failed", "crashing", "waiting", "backup"] as const).map((trouble) => ({
      ...one,
      trouble,
      reason: "No host has 8 free GPUs.",
    }));
    expect(found({ deployments })).toEqual([
      "warning deployment_failed D1",
      "warning deployment_crashing D1",
      "warning deployment_waiting D1",
      "warning backup_stale D1",
    ]);
    const [, , waiting] = judge({ ...calm, deployments }, [], [], nowMs);
    expect(waiting).toMatchObject({
      summary: "ada/llm of ada@example.com waits for a host: No host has 8 free GPUs.",
      account: "u:1",
      deployment: "D1",
    });
  });

  it("is a receiver of webhooks that fails, money that does not add up, and a restore that is not complete", () => {
    const receiver = { account: "u:1" as AccountId, email: "a@b.c", receiver: "hooks.example:443", outcome: "5xx" };
    expect(found({ receivers: [{ ...receiver, retrying: 4, exhausted: 0 }] })).toEqual([
      "info webhook_failing u:1/hooks.example:443",
    ]);
    expect(found({ receivers: [{ ...receiver, retrying: 0, exhausted: 1 }] })).toEqual([
      "warning webhook_failing u:1/hooks.example:443",
    ]);
    expect(found({ imbalance: 1n, quarantined: 2, lossOfHour: 3n })).toEqual([
      "critical ledger_imbalance ",
      "warning usage_quarantined ",
      "info platform_loss ",
    ]);
    const open: NoticedRestore = {
      ...{ id: "r1", cause: "restored", beganAt: new Date(nowMs), endsBy: new Date(nowMs) },
      ...{ endedAt: undefined, awaited: [{ host: "h" as HostId, name: "gpu-1" }], report: undefined },
    };
    const report = {
      cause: "",
      hosts: 2,
      missingHosts: ["h"],
      resent: 0,
      recovered: 0,
      recoveredCharge: "0",
      lostAtMost: 3,
    };
    const ended = { ...open, id: "r2", endedAt: new Date(nowMs - 86_400_000), awaited: [], report };
    const old = { ...ended, endedAt: new Date(nowMs - 8 * 86_400_000) };
    const complete = { ...ended, report: { ...report, missingHosts: [], lostAtMost: 0 } };
    expect(found({}, [], [open, ended, old, complete])).toEqual([
      "critical restore_pending r1",
      "warning restore_incomplete r2",
    ]);
  });

  it("is a database without a recent backup, or without a recent trial restore", () => {
    const ago = (hours: number) => new Date(nowMs - hours * 3_600_000);
    const backups = (installedAt: Date, newestAt?: Date, verifiedAt?: Date) =>
      found({ backups: { installedAt, newestAt, verifiedAt } });
    expect(backups(ago(1))).toEqual([]);
    expect(backups(ago(27))).toEqual(["info database_backup_stale "]);
    expect(backups(ago(999), ago(25), ago(24))).toEqual([]);
    expect(backups(ago(999), ago(27), ago(27))).toEqual(["warning database_backup_stale "]);
    expect(backups(ago(999), ago(1))).toEqual(["warning database_backup_stale "]);
    expect(backups(ago(999), ago(1), ago(200))).toEqual(["warning database_backup_stale "]);
  });

  it("has a runbook", () => {
    const text = readFileSync(join(import.meta.dirname, "../../../../docs/operations/incidents.md"), "utf8");
    const anchors = [...text.matchAll(/^## (.+)$/gm)].map(([, title = ""]) => title.toLowerCase().replaceAll(" ", "-"));
    expect(anchors.toSorted()).toEqual(incidentKinds.map((kind) => kind.replaceAll("_", "-")).toSorted());
  });
});
