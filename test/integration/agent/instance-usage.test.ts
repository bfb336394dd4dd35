import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { instanceUsage } from "../../../agent/metrics/instance-usage.ts";

const root = mkdtempSync(join(tmpdir(), "stoker-cgroup-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const id = "0123456789ab".padEnd(64, "c");
const identity = "0123456789ab@2026-01-01T00:00:00Z";

function tree(name: string, files: Readonly<Record<string, string>>) {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name, path)), { recursive: true });
    writeFileSync(join(root, name, path), content);
  }
  return { cgroup: join(root, name), proc: join(root, name, "proc") };
}
const network =
  "Inter-|   Receive |  Transmit\n face |bytes packets\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n";
const expected = {
  cpuSeconds: 2.5,
  memoryBytes: 1000,
  workingSetBytes: 900,
  memoryLimitBytes: 4096,
  oomEvents: 1,
  pids: [41, 42],
  network: [{ name: "eth0", receivedBytes: 100, sentBytes: 200 }],
};

it("reads a container's use from the unified layout of control groups", async () => {
  const group = `system.slice/docker-${id}.scope`;
  const roots = tree("v2", {
    "cgroup.controllers": "cpu memory\n",
    [`${group}/memory.current`]: "1000\n",
    [`${group}/memory.max`]: "4096\n",
    [`${group}/memory.stat`]: "anon 800\ninactive_file 100\n",
    [`${group}/cpu.stat`]: "usage_usec 2500000\nuser_usec 1\n",
    [`${group}/memory.events`]: "low 0\noom 2\noom_kill 1\n",
    [`${group}/cgroup.procs`]: "41\n42\n",
    "proc/41/net/dev": network,
  });
  expect(await instanceUsage(identity, roots)).toEqual({ id: `/${group}`, ...expected });
});

it("reads the same from the separate hierarchies of the older layout", async () => {
  const roots = tree("v1", {
    [`memory/docker/${id}/memory.usage_in_bytes`]: "1000\n",
    [`memory/docker/${id}/memory.limit_in_bytes`]: "4096\n",
    [`memory/docker/${id}/memory.stat`]: "cache 1\ntotal_inactive_file 100\n",
    [`memory/docker/${id}/memory.oom_control`]: "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    [`memory/docker/${id}/cgroup.procs`]: "41\n42\n",
    [`cpuacct/docker/${id}/cpuacct.usage`]: "2500000000\n",
    "proc/41/net/dev": network,
  });
  expect(await instanceUsage(identity, roots)).toEqual({ id: `/docker/${id}`, ...expected });
});

it("says nothing of a container that it cannot see, and of a process that is gone", async () => {
  const roots = tree("none", { "cgroup.controllers": "" });
  expect(await instanceUsage(identity, roots)).toBeUndefined();
  expect(await instanceUsage("4194304@x", roots)).toBeUndefined();
  expect(await instanceUsage("launch:abc", roots)).toBeUndefined();
});

it("sees this very process, with memory and processor time", async () => {
  const usage = await instanceUsage(`${process.pid}@now`);
  expect(usage?.memoryBytes).toBeGreaterThan(1e6);
  expect(usage?.cpuSeconds).toBeGreaterThan(0);
});
