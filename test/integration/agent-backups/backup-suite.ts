// What holds of backups on every store.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, link, mkdir, mkdtemp, readFile, readlink, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BackupError } from "../../../agent/backups/backup-error.ts";
import { createBackups, type VolumeUsers } from "../../../agent/backups/backups.ts";
import type { BlobStore } from "../../../agent/backups/blob-store.ts";
import { createVolumes, type Volumes } from "../../../agent/backups/volume.ts";

const run = promisify(execFile);
const key = "backups/vol-1/bk-1.tar.zst";
const signal = new AbortController().signal;
export const nobodyUses: VolumeUsers = {
  frozen: (_id, work) => work(),
  ended: (_id, work) => work(),
  thawAll: async () => {},
};

/** Every path of a folder with type, mode, owner, time, content: equal texts are equal folders. */
export async function fingerprint(folder: string): Promise<string> {
  const { stdout } = await run("tar", ["-c", "--sort=name", "--numeric-owner", "-C", `${folder}/`, "."], {
    encoding: "buffer",
    maxBuffer: 64 * 1024 * 1024,
  });
  return createHash("sha256").update(stdout).digest("hex");
}

export function backupSuite(storeOf: () => BlobStore): void {
  let root: string;
  let volumes: Volumes;
  const content = () => volumes.pathOf("vol-1");
  const backupsWith = (users: VolumeUsers = nobodyUses, blobs = storeOf()) =>
    createBackups({ volumes, blobs, users, log: pino({ level: "silent" }) });

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "stoker-volumes-"));
    volumes = createVolumes(root);
    await volumes.ensure("vol-1", { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 });
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  describe("backup and restore", () => {
    test("a restore gives identical bytes, modes, links and times of everything in the volume", async () => {
      await mkdir(join(content(), "a folder/ünïcode"), { recursive: true });
      await writeFile(join(content(), "a folder/ünïcode/big"), Buffer.alloc(3_000_000, "stoker"));
      await writeFile(join(content(), "empty"), "");
      await writeFile(join(content(), "run.sh"), "#!/bin/sh\n");
      await chmod(join(content(), "run.sh"), 0o750);
      await symlink("/etc/passwd", join(content(), "absolute"));
      await link(join(content(), "run.sh"), join(content(), "same"));
      const before = await fingerprint(content());
      const backups = backupsWith();
      const made = await backups.backup("vol-1", key, signal);
      expect(made.sizeBytes).toBeGreaterThan(100);

      await writeFile(join(content(), "run.sh"), "changed");
      await writeFile(join(content(), "new"), "new");
      await rm(join(content(), "absolute"));
      expect(await fingerprint(content())).not.toBe(before);
      await backups.restore("vol-1", key, made, signal);
      expect(await fingerprint(content())).toBe(before);
      expect((await stat(join(content(), "run.sh"))).nlink).toBe(2);
    });

    test("a backup is of one moment: what changes after the freeze is not in it", async () => {
      await writeFile(join(content(), "file"), "first");
      const users: VolumeUsers = {
        ...nobodyUses,
        async frozen(_id, work) {
          const result = await work();
          await writeFile(join(content(), "file"), "second");
          return result;
        },
      };
      const backups = backupsWith(users);
      const made = await backups.backup("vol-1", key, signal);
      await backups.restore("vol-1", key, made, signal);
      expect(await readFile(join(content(), "file"), "utf8")).toBe("first");
    });

    test("a backup that was changed in the store is refused and the volume stays as it is", async () => {
      await writeFile(join(content(), "file"), "first");
      const backups = backupsWith();
      const made = await backups.backup("vol-1", key, signal);
      await writeFile(join(content(), "file"), "second");
      const before = await fingerprint(content());
      const bytes = Buffer.concat(await (await storeOf().get(key, signal)).toArray());
      const damages = [
        Buffer.concat([bytes, Buffer.from("x")]),
        bytes.subarray(0, -20),
        Buffer.from(bytes.map((byte, at) => (at === 30 ? byte ^ 1 : byte))),
        Buffer.from("no archive at all"),
      ];
      for (const damaged of damages) {
        await storeOf().put(key, Readable.from([damaged]), signal);
        const failed = backups.restore("vol-1", key, made, signal);
        await expect(failed).rejects.toMatchObject({ code: "backup_damaged" });
        expect(await fingerprint(content())).toBe(before);
      }
    });

    test("a trial restore checks everything and changes nothing", async () => {
      await writeFile(join(content(), "file"), "first");
      const backups = backupsWith();
      const made = await backups.backup("vol-1", key, signal);
      await writeFile(join(content(), "file"), "second");
      await backups.tryRestore("vol-1", key, made, signal);
      expect(await readFile(join(content(), "file"), "utf8")).toBe("second");
      const wrong = { ...made, sha256: made.sha256.replace(/^./, (c) => (c === "0" ? "1" : "0")) };
      await expect(backups.tryRestore("vol-1", key, wrong, signal)).rejects.toMatchObject({ code: "backup_damaged" });
    });

    test("one operation at a time: another one is refused as busy, and goes through afterwards", async () => {
      let release = () => {};
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      const users: VolumeUsers = { ...nobodyUses, frozen: (_id, work) => held.then(work) };
      const backups = backupsWith(users);
      const first = backups.backup("vol-1", key, signal);
      const second = backups.backup("vol-1", "backups/vol-1/bk-2.tar.zst", signal);
      await expect(second).rejects.toMatchObject({ code: "busy" });
      release();
      const made = await first;
      await backups.restore("vol-1", key, made, signal);
    });

    test("a removed backup is missing, and removing it again is no error", async () => {
      const backups = backupsWith();
      const made = await backups.backup("vol-1", key, signal);
      await backups.removeBackup("vol-1", key, signal);
      await backups.removeBackup("vol-1", key, signal);
      await expect(backups.restore("vol-1", key, made, signal)).rejects.toMatchObject({ code: "backup_missing" });
    });

    test("a body that breaks off leaves no backup behind", async () => {
      const broken = Readable.from(
        (async function* () {
          yield Buffer.alloc(1000);
          throw new Error("the source broke");
        })(),
      );
      await expect(storeOf().put("backups/vol-1/bk-9.tar.zst", broken, signal)).rejects.toThrow("the source broke");
      await expect(storeOf().get("backups/vol-1/bk-9.tar.zst", signal)).rejects.toThrow(BackupError);
    });

    test("a volume without content yet cannot be backed up, and says so", async () => {
      await expect(backupsWith().backup("vol-2", "backups/vol-2/a", signal)).rejects.toMatchObject({
        code: "volume_missing",
      });
    });

    test("after work nothing but the content is left in the volume's folder", async () => {
      const backups = backupsWith();
      const made = await backups.backup("vol-1", key, signal);
      await backups.restore("vol-1", key, made, signal);
      const { stdout } = await run("ls", ["-A", join(root, "vol-1")]);
      expect(stdout.trim().split("\n").sort()).toEqual(["current", await readlink(content())].sort());
    });
  });
}
