// F8: a real disk without a byte left under the agent's usage spool, its volumes and its backups.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { mkdir, readdir, realpath, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createBackups } from "../../../agent/backups/backups.ts";
import { createFilesystemBlobs } from "../../../agent/backups/filesystem-blobs.ts";
import { createVolumes } from "../../../agent/backups/volume.ts";
import type { AgentConfig } from "../../../agent/config.ts";
import { openState } from "../../../agent/state/open-state.ts";
import { isOnOneDisk } from "../../../agent/wiring/volumes.ts";
import { mountSmallDisk, type SmallDisk } from "../../fakes/small-disk.ts";
import { fingerprint, nobodyUses } from "./backup-suite.ts";

const patient = { timeout: 20_000, interval: 20 };
const signal = new AbortController().signal;
const log = pino({ level: "silent" });
const key = "backups/vol-1/bk-1.tar.zst";
const self = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
const here = mountSmallDisk(1, "F8, a full disk under spool, volumes and backups (run the tests as root on Linux)");
here?.unmount();

describe.skipIf(!here)("a disk without a byte left", () => {
  let disk: SmallDisk;
  let elsewhere: string;
  beforeEach(() => {
    disk = mountSmallDisk(12, "") as SmallDisk;
    elsewhere = mkdtempSync(join(tmpdir(), "stoker-elsewhere-"));
  });
  afterEach(() => {
    disk.unmount();
    rmSync(elsewhere, { recursive: true, force: true });
  });

  it("under the spool: nothing durable is lost, nothing is admitted, and what waited is written once there is room", async () => {
    const state = await openState(join(disk.folder, "state.db"), log);
    const row = (n: number) => ({
      requestId: `r${n}`,
      attempt: 1,
      leaseIds: [],
      json: JSON.stringify({ n, pad: "x".repeat(4_000) }),
    });
    await state.spool.end(row(1));
    disk.fill();
    const waiting: Promise<void>[] = [];
    let written = 0;
    const count = () => {
      written += 1;
    };
    await vi.waitFor(() => {
      // The files have a little room of their own: it is used up in a moment.
      for (let n = 0; n < 50; n += 1) {
        const number = waiting.length + 2;
        waiting.push(state.spool.end(row(number)).then(count));
      }
      expect(state.spool.isWritable).toBe(false);
    }, patient);
    expect(written).toBeLessThan(waiting.length);
    disk.free();
    await Promise.all(waiting);
    expect(state.spool.isWritable).toBe(true);
    await state.close();
    const again = await openState(join(disk.folder, "state.db"), log);
    expect(again.spool.depth().records).toBe(waiting.length + 1);
    await again.close();
  });

  it("of its own for the backups is as it should be; one disk with the spool and the volumes is warned of", () => {
    const dataDir = elsewhere;
    const on = (folder: string, s3?: { readonly bucket: string }) =>
      isOnOneDisk({ dataDir, backups: { folder, s3 } as AgentConfig["backups"] });
    expect(on(join(elsewhere, "backups"))).toBe(true);
    expect(on(join(disk.folder, "backups"))).toBe(false);
    expect(on(join(elsewhere, "backups"), { bucket: "b" })).toBe(false);
  });

  it("under the backups: the backup fails as no_space, leaves nothing behind, and earlier ones are still whole", async () => {
    const volumes = createVolumes(join(elsewhere, "volumes"));
    const backups = createBackups({
      volumes,
      blobs: createFilesystemBlobs(disk.folder, "host", 0),
      users: nobodyUses,
      log,
    });
    await volumes.ensure("vol-1", self);
    const file = join(volumes.pathOf("vol-1"), "file");
    await writeFile(file, "first");
    const made = await backups.backup("vol-1", key, signal);
    await writeFile(file, randomBytes(4 * 1024 * 1024));
    const before = await fingerprint(volumes.pathOf("vol-1"));
    disk.fill();
    const failed = backups.backup("vol-1", "backups/vol-1/bk-2.tar.zst", signal);
    await expect(failed).rejects.toMatchObject({ code: "no_space" });
    expect(await fingerprint(volumes.pathOf("vol-1"))).toBe(before);
    expect(await readdir(join(disk.folder, "backups/vol-1"))).toEqual(["bk-1.tar.zst"]);
    await backups.restore("vol-1", key, made, signal);
    expect(readFileSync(file, "utf8")).toBe("first");
  });

  it("under the volume: a restore fails as no_space and leaves the old data (P20)", async () => {
    const volumes = createVolumes(join(disk.folder, "volumes"));
    const backups = createBackups({
      volumes,
      blobs: createFilesystemBlobs(elsewhere, "host", 0),
      users: nobodyUses,
      log,
    });
    await volumes.ensure("vol-1", self);
    const file = join(volumes.pathOf("vol-1"), "file");
    await writeFile(file, randomBytes(3 * 1024 * 1024));
    const made = await backups.backup("vol-1", key, signal);
    await writeFile(file, "second");
    const before = await fingerprint(volumes.pathOf("vol-1"));
    disk.fill();
    await expect(backups.restore("vol-1", key, made, signal)).rejects.toMatchObject({ code: "no_space" });
    expect(await fingerprint(volumes.pathOf("vol-1"))).toBe(before);
    disk.free();
    await backups.restore("vol-1", key, made, signal);
    expect(readFileSync(file).length).toBe(3 * 1024 * 1024);
  });

  it("in the old content: a restore that cannot delete that is done all the same, and a later work deletes it", async () => {
    const volumes = createVolumes(join(elsewhere, "volumes"));
    const backups = createBackups({
      volumes,
      blobs: createFilesystemBlobs(disk.folder, "host", 0),
      users: nobodyUses,
      log,
    });
    await volumes.ensure("vol-1", self);
    const file = join(volumes.pathOf("vol-1"), "file");
    await writeFile(file, "first");
    const made = await backups.backup("vol-1", key, signal);
    await writeFile(file, "second");
    // What is mounted cannot be deleted, by nobody.
    const inside = join(await realpath(volumes.pathOf("vol-1")), "inside");
    await mkdir(inside);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", inside]);
    try {
      await backups.restore("vol-1", key, made, signal);
      // Nor does it keep an agent that starts from its other volumes.
      await volumes.ensure("vol-2", self);
      await volumes.stage("vol-2");
      await backups.recover(signal);
      expect(await readdir(join(elsewhere, "volumes/vol-2"))).toHaveLength(2);
    } finally {
      execFileSync("umount", ["--lazy", inside]);
    }
    expect(readFileSync(file, "utf8")).toBe("first");
    expect(await readdir(join(elsewhere, "volumes/vol-1"))).toHaveLength(3);
    await backups.tryRestore("vol-1", key, made, signal);
    expect(await readdir(join(elsewhere, "volumes/vol-1"))).toHaveLength(2);
  });
});
