// Backup or restore in a process of its own, to be killed in the middle: prints a line when the named point is reached and
// waits there. Arguments: folder of volumes, folder of the store, what, JSON of the rest.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { createBackups, type VolumeUsers } from "../../agent/backups/backups.ts";
import { createFilesystemBlobs } from "../../agent/backups/filesystem-blobs.ts";
import { createVolumes } from "../../agent/backups/volume.ts";

const [root = "", store = "", what = "", rest = "{}"] = process.argv.slice(2);
const { point, key, volume, expected } = JSON.parse(rest);
const forever = () => new Promise<never>(() => setInterval(() => {}, 1000));
const reached = async (name: string): Promise<void> => {
  if (name !== point) return;
  process.stdout.write(`at ${name}\n`);
  await forever();
};

const blobs = createFilesystemBlobs(store, "test");
const users: VolumeUsers = {
  async frozen(_id, work) {
    await reached("frozen");
    const result = await work();
    await reached("copied");
    return result;
  },
  async ended(_id, work) {
    await reached("unpacked");
    const result = await work();
    await reached("swapped");
    return result;
  },
  thawAll: async () => {},
};
const slowly: typeof blobs = {
  ...blobs,
  async put(folderKey, body, signal) {
    if (point !== "uploading") return blobs.put(folderKey, body, signal);
    // As a put leaves it that was cut off: half a file under its working name.
    const path = join(store, `${folderKey}.part-test`);
    await mkdir(join(path, ".."), { recursive: true });
    for await (const chunk of body) await writeFile(path, chunk.subarray(0, 10));
    await reached("uploading");
  },
};
const volumes = createVolumes(root);
const backups = createBackups({ volumes, blobs: slowly, users, log: pino({ level: "silent" }) });
const signal = new AbortController().signal;
if (what === "backup") await backups.backup(volume, key, signal);
else await backups.restore(volume, key, expected, signal);
process.stdout.write("done\n");
