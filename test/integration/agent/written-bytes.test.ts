import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { writtenBytes } from "../../../agent/metrics/instance-usage.ts";

const root = mkdtempSync(join(tmpdir(), "stoker-layer-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const proc = join(root, "proc");
const signal = AbortSignal.timeout(60_000);
const mib = 1024 * 1024;

function container(pid: number, root: string): void {
  mkdirSync(join(proc, String(pid)), { recursive: true });
  writeFileSync(
    join(proc, String(pid), "mountinfo"),
    `30 1 0:5 / /proc rw - proc proc rw\n31 1 0:6 / / ro,relatime master:1 - ${root}\n32 31 0:7 / /tmp rw - tmpfs tmpfs rw\n`,
  );
}

it("counts what a container has written, in all its folders, and nothing that its links lead to", async () => {
  const upper = join(root, "with space", "diff");
  mkdirSync(join(upper, "deep/er"), { recursive: true });
  writeFileSync(join(upper, "deep/er/file"), Buffer.alloc(3 * mib, 1));
  const outside = join(root, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "large"), Buffer.alloc(9 * mib, 1));
  symlinkSync(outside, join(upper, "link"));
  const escaped = upper.replace(" ", "\\040");
  container(7, `overlay overlay rw,lowerdir=/a:/b,upperdir=${escaped},workdir=/w`);
  const bytes = await writtenBytes(7, signal, proc);
  expect(bytes).toBeGreaterThanOrEqual(3 * mib);
  expect(bytes).toBeLessThan(4 * mib);
});

it("says nothing of a container whose layer cannot be seen, and of a process that is gone", async () => {
  container(8, "ext4 /dev/sda1 rw");
  container(9, `overlay overlay rw,lowerdir=/a,upperdir=${root}/nowhere,workdir=/w`);
  for (const pid of [8, 9, 10]) expect(await writtenBytes(pid, signal, proc)).toBeUndefined();
});
