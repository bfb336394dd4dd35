// Bytes that a container has written into its own layer, counted on the host in the upper directory of its root file system: asking
// the engine would have it count all it has, while others wait for it. Links are not followed.
import { lstat, opendir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** Maximum number of counted files: a count that takes minutes would be stale. */
const maxFiles = 50_000;
const blockBytes = 512;

/** `pid`: any of its processes. Undefined where the layer cannot be seen from here, or holds too many files. */
export async function writtenBytes(pid: number, signal: AbortSignal, proc = "/proc"): Promise<number | undefined> {
  const mounts = await readFile(join(proc, String(pid), "mountinfo"), "utf8").catch(() => "");
  const folder = upperOf(mounts);
  if (folder === undefined) return undefined;
  let bytes = 0;
  let files = 0;
  const folders = [folder];
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    const entries = await opendir(next).catch(() => undefined);
    if (!entries && next === folder) return undefined;
    for await (const entry of entries ?? []) {
      if (signal.aborted || ++files > maxFiles) return undefined;
      const path = join(next, entry.name);
      // Removed in the meantime: it uses no space.
      bytes += (await lstat(path).catch(() => undefined))?.blocks ?? 0;
      if (entry.isDirectory()) folders.push(path);
    }
  }
  return bytes * blockBytes;
}

/** Upper directory of the overlay that is mounted as the root. */
function upperOf(mounts: string): string | undefined {
  for (const line of mounts.split("\n")) {
    const [own = "", shared = ""] = line.split(" - ");
    const [type, , ...options] = shared.split(" ");
    if (own.split(" ")[4] !== "/" || type !== "overlay") continue;
    const upper = /(?:^|,)upperdir=([^,]+)/.exec(options.join(" "))?.[1];
    return upper?.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
  }
  return undefined;
}
