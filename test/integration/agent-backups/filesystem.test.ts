import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { pino } from "pino";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { createBackups } from "../../../agent/backups/backups.ts";
import { createFilesystemBlobs } from "../../../agent/backups/filesystem-blobs.ts";
import { createVolumes } from "../../../agent/backups/volume.ts";
import { backupSuite, fingerprint, nobodyUses } from "./backup-suite.ts";

const folder = await mkdtemp(join(tmpdir(), "stoker-blobs-"));
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("on the filesystem store", () => {
  backupSuite(() => createFilesystemBlobs(folder, "host-a"));

  test("a key cannot name anything outside of the store", async () => {
    const blobs = createFilesystemBlobs(folder, "host-a");
    const signal = new AbortController().signal;
    for (const key of ["../x", "/etc/passwd", "a/../../x", "a//b", ""])
      await expect(blobs.get(key, signal)).rejects.toThrow("no key of a backup");
  });

  test("a backup that would take the host's last space is refused, and its maker is let go", async () => {
    const blobs = createFilesystemBlobs(folder, "host-a", Number.MAX_SAFE_INTEGER);
    const body = Readable.from([Buffer.from("x")]);
    const put = blobs.put("backups/v/full", body, new AbortController().signal);
    await expect(put).rejects.toMatchObject({ code: "no_space" });
    expect(body.destroyed).toBe(true);
  });

  test("half a file of another host that shares the folder is left alone", async () => {
    const blobs = createFilesystemBlobs(folder, "host-a");
    const signal = new AbortController().signal;
    await blobs.put("backups/v/one", Readable.from([Buffer.from("x")]), signal);
    await writeFile(join(folder, "backups/v/two.part-host-b"), "half");
    await writeFile(join(folder, "backups/v/two.part-host-a"), "half");
    await blobs.sweep("backups/v", signal);
    expect((await readdir(join(folder, "backups/v"))).sort()).toEqual(["one", "two.part-host-b"]);
  });
});

const self = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };

describe("kill -9 in the middle (P20, F2)", () => {
  const signal = new AbortController().signal;
  const key = "backups/vol-1/bk-1.tar.zst";
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "stoker-killed-"));
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  const here = () => {
    const volumes = createVolumes(join(root, "volumes"));
    const blobs = createFilesystemBlobs(join(root, "store"), "test");
    return { volumes, backups: createBackups({ volumes, blobs, users: nobodyUses, log: pino({ level: "silent" }) }) };
  };

  /** Runs until the point and dies there. */
  async function killedAt(point: string, what: "backup" | "restore", expected: object | undefined): Promise<void> {
    const program = join(import.meta.dirname, "../../fakes/backup-agent.ts");
    const rest = JSON.stringify({ point, key, volume: "vol-1", expected });
    const child = spawn(process.execPath, [program, join(root, "volumes"), join(root, "store"), what, rest], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    for await (const line of createInterface({ input: child.stdout })) {
      expect(line).toBe(`at ${point}`);
      child.kill("SIGKILL");
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    expect(child.signalCode).toBe("SIGKILL");
  }

  test.each(["frozen", "copied", "uploading"])(
    "a backup killed when %s leaves the data and no half backup",
    async (point) => {
      const { volumes, backups } = here();
      await volumes.ensure("vol-1", self);
      await writeFile(join(volumes.pathOf("vol-1"), "file"), "first");
      const before = await fingerprint(volumes.pathOf("vol-1"));
      await killedAt(point, "backup", undefined);

      await backups.recover(signal);
      expect(await fingerprint(volumes.pathOf("vol-1"))).toBe(before);
      expect((await readdir(join(root, "volumes/vol-1"))).length).toBe(2);
      await expect(backups.restore("vol-1", key, { sha256: "", sizeBytes: 0 }, signal)).rejects.toMatchObject({
        code: "backup_missing",
      });
      // The next one goes through and sweeps the store.
      const made = await backups.backup("vol-1", key, signal);
      await backups.tryRestore("vol-1", key, made, signal);
      expect(await readdir(join(root, "store/backups/vol-1"))).toEqual(["bk-1.tar.zst"]);
    },
  );

  test("what was left behind is swept also where the engine cannot be asked what stands still", async () => {
    const { volumes } = here();
    await volumes.ensure("vol-1", self);
    await volumes.stage("vol-1");
    const users = { ...nobodyUses, thawAll: () => Promise.reject(new Error("the engine is away")) };
    const blobs = createFilesystemBlobs(join(root, "store"), "test");
    const backups = createBackups({ volumes, blobs, users, log: pino({ level: "silent" }) });
    await expect(backups.recover(signal)).rejects.toThrow("the engine is away");
    expect(await readdir(join(root, "volumes/vol-1"))).toHaveLength(2);
  });

  test.each([
    ["unpacked", "second"],
    ["swapped", "first"],
  ])("a restore killed when %s leaves one whole content: the %s", async (point, content) => {
    const { volumes, backups } = here();
    await volumes.ensure("vol-1", self);
    const file = join(volumes.pathOf("vol-1"), "file");
    await writeFile(file, "first");
    const made = await backups.backup("vol-1", key, signal);
    await writeFile(file, "second");
    await killedAt(point, "restore", made);

    await backups.recover(signal);
    expect(await readFile(file, "utf8")).toBe(content);
    expect((await readdir(join(root, "volumes/vol-1"))).length).toBe(2);
    await backups.restore("vol-1", key, made, signal);
    expect(await readFile(file, "utf8")).toBe("first");
  });
});
